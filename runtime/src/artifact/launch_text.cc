#include "runtime/src/artifact/launch_text.h"

#include <algorithm>

#include "runtime/src/artifact/dtype.h"

namespace fusec::runtime {
namespace {

std::string DimText(const Symbol& symbol) {
  return Text("dim ", symbol.name, " ", symbol.min, "..", symbol.max);
}

std::string BufferText(const Manifest& manifest, const Step& step, int number) {
  const Buffer& buffer = manifest.buffers[number];
  const bool is_written = std::count(step.outputs.begin(), step.outputs.end(), number) != 0;
  return Text(is_written ? "" : "const ", DtypeName(buffer.dtype), "[", buffer.elements.text(),
              "]");
}

std::string ArgumentText(const Manifest& manifest, const Step& step,
                         const KernelArgument& argument) {
  switch (argument.kind) {
    case KernelArgument::Kind::kBuffer:
      return BufferText(manifest, step, argument.buffer);
    case KernelArgument::Kind::kBuffers: {
      std::string text;
      for (const int buffer : argument.buffers)
        text += Text(text.empty() ? "{" : ", ", BufferText(manifest, step, buffer));
      return text + "}";
    }
    case KernelArgument::Kind::kInt32:
      return "i32 " + argument.dim.text();
    case KernelArgument::Kind::kInt64:
      return "i64 " + argument.dim.text();
    case KernelArgument::Kind::kErrors:
      return "errors";
  }
  return "";
}

std::string LaunchText(const Manifest& manifest, const Step& step) {
  std::string text;
  for (const KernelArgument& argument : step.kernel.arguments)
    text += Text(text.empty() ? "" : ", ", ArgumentText(manifest, step, argument));
  return Text(step.name, "(", text, ") in ", step.kernel.blocks.text(), " blocks");
}

// The part of a line of `text` around a position, for errors.
std::string PartOf(std::string_view text, size_t place) {
  constexpr size_t kBefore = 40, kShown = 120;
  const size_t line = place == 0 ? 0 : text.rfind('\n', place - 1) + 1;
  const size_t begin = std::max(line, place - std::min(place, kBefore));
  const std::string_view rest = text.substr(begin, text.find('\n', place) - begin);
  return Text(begin > line ? "..." : "", rest.substr(0, kShown), rest.size() > kShown ? "..." : "");
}

}  // namespace

std::string LaunchTexts(const Manifest& manifest, const Target& target) {
  std::string text;
  for (const Symbol& symbol : manifest.symbols) text += DimText(symbol) + "\n";
  for (const Step& step : target.steps) {
    if (step.kind == Step::Kind::kKernel) text += LaunchText(manifest, step) + "\n";
  }
  return text;
}

Status CheckLaunches(const Manifest& manifest, const Target& target, std::string_view declared,
                     const std::string& where) {
  const std::string launches = LaunchTexts(manifest, target);
  if (launches == declared) return {};
  const auto [differs, expected] =
      std::mismatch(launches.begin(), launches.end(), declared.begin(), declared.end());
  const auto place = static_cast<size_t>(differs - launches.begin());
  return Fail(FUSEC_BAD_ARTIFACT, where, ": \"", PartOf(launches, place),
              "\", but the code is made for \"", PartOf(declared, place), "\"");
}

}  // namespace fusec::runtime
