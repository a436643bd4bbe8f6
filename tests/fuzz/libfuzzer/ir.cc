// Parses any text as IR, mostly a valid text with changed tokens. The result must be a graph that gives the same text when it is printed,
// parsed and printed again, or an error that names the line. Each graph also goes through the verifier.
#include <random>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/op_def.h"
#include "tests/fuzz/libfuzzer/expect.h"
#include "tests/property/ir_tokens.h"

using namespace fusec;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using Random = std::mt19937_64;

std::string AnyWord(const std::string& text, const std::vector<Place>& tokens, const Place& token, Random& random) {
  static const char* const kNumbers[] = {
      "-1",  "0",     "1",   "2",   "3",   "1000000007", "9223372036854775807", "-9223372036854775808", "99999999999999999999",
      "0.5", "1e400", "nan", "inf", "-0.0"};
  static const char* const kDims[] = {"n*2", "n+1", "(n+2)/3", "n%4", "max(n,2)", "min(n,m)", "n*m", "-n", "n-n", "ceildiv(n,2)"};
  switch (random() % 6) {
    case 0:
      return kNumbers[random() % std::size(kNumbers)];
    case 1:
      return AllOps()[random() % AllOps().size()].text;
    case 2:
      return std::string(DtypeName(static_cast<Dtype>(random() % kDtypeCount)));
    case 3:
      return kDims[random() % std::size(kDims)];
    default: {  // another token, mostly of the same kind
      Place other = token;
      for (int tries = 0; tries < 8; ++tries) {
        other = tokens[random() % tokens.size()];
        if (other.kind == token.kind) break;
      }
      return text.substr(other.begin, other.end - other.begin);
    }
  }
}

// Removes, replaces or duplicates a token, or everything up to the next comma, bracket or line end.
std::string Changed(const std::string& text, const std::vector<Place>& tokens, Random& random) {
  const Place token = tokens[random() % tokens.size()];
  size_t end = token.end;
  if (random() % 3 == 0) end = text.find_first_of(",)]}:\n", token.end);
  if (random() % 12 == 0) end = text.find('\n', token.end);
  end = std::min(end, text.size());
  const std::string before = text.substr(0, token.begin), after = text.substr(end);
  switch (random() % 4) {
    case 0:
      return before + after;
    case 1:
      return before + text.substr(token.begin, end - token.begin) + (random() % 2 ? ", " : "\n") + text.substr(token.begin);
    default:
      return before + AnyWord(text, tokens, token, random) + after;
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  Random random(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  const size_t changes = random() % 4;
  for (size_t i = 0; i < changes; ++i) {
    const std::vector<Place> tokens = TokensOf(text);
    if (tokens.empty()) break;
    text = Changed(text, tokens, random);
  }
  if (changes == 0 || text.empty() || text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto graph = Parse(text);
  if (!graph) {
    const std::string& message = graph.error().message;
    Expect(message.starts_with("line ") && message.find('\n') == message.npos, "one line that names the line: " + message);
    return 0;
  }
  const auto verified = Verify(**graph);
  Expect(verified || !verified.error().message.empty(), "the verifier says what is wrong");
  const std::string printed = Print(**graph);
  const auto again = Parse(printed);
  Expect(again.has_value(), again ? "" : again.error().message + "\n" + printed);
  Expect(Print(**again) == printed, "is the same text when parsed and printed:\n" + printed + "\n" + Print(**again));
  return 0;
}
