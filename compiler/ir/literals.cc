#include "compiler/ir/literals.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <limits>

namespace fusec {
namespace {

template <class T>
std::optional<T> Number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Floats include the words nan, inf and -inf, which from_chars parses.
bool IsFloatToken(const Token& token) {
  if (token.kind == Token::Kind::kWord) {
    return token.text == "nan" || token.text == "inf" || token.text == "-inf";
  }
  return token.kind == Token::Kind::kNumber && token.text.find_first_of(".e") != token.text.npos;
}

Result<double> ExpectFloat(Lexer& lexer) {
  std::optional<double> value;
  if (IsFloatToken(lexer.current())) value = Number<double>(lexer.current().text);
  if (!value) return lexer.Expected("a float");
  FUSEC_TRY(lexer.Advance());
  return *value;
}

Result<Shape> ParseDims(Lexer& lexer) {
  Shape dims;
  FUSEC_TRY(Expect(lexer, "["));
  while (!lexer.At("]")) {
    FUSEC_ASSIGN(const std::string_view text, lexer.TakeDim());
    Result<Expr> dim = Expr::Parse(text);
    if (!dim) return lexer.FailHere(fmt::format("dim '{}': {}", text, dim.error().message));
    dims.push_back(*std::move(dim));
    FUSEC_TRY(lexer.Advance());
    if (lexer.At("]")) break;
    FUSEC_TRY(Expect(lexer, ","));
  }
  FUSEC_TRY(lexer.Advance());
  return dims;
}

template <class T, class ParseOne>
Result<Attribute> ParseList(Lexer& lexer, ParseOne parse_one) {
  std::vector<T> values;
  while (!lexer.At("]")) {
    FUSEC_ASSIGN(const T value, parse_one());
    values.push_back(value);
    if (lexer.At("]")) break;
    FUSEC_TRY(Expect(lexer, ","));
  }
  FUSEC_TRY(lexer.Advance());
  return Attribute(std::move(values));
}

Result<Attribute> ParseBracketList(Lexer& lexer) {
  FUSEC_TRY(lexer.Advance());
  if (IsFloatToken(lexer.current())) {
    return ParseList<double>(lexer, [&] { return ExpectFloat(lexer); });
  }
  return ParseList<int64_t>(lexer, [&] { return ExpectInt(lexer, "an integer"); });
}

// Writes element i. False if the text is not an element of the tensor's dtype.
bool SetElement(TensorData& data, int64_t i, const Element& element) {
  const Dtype dtype = data.dtype();
  if (element.is_bits) {
    const std::optional<uint64_t> bits = Number<uint64_t>(element.text);
    const size_t width = static_cast<size_t>(DtypeBytes(dtype));
    if (!bits || !IsFloat(dtype) || (width < 8 && *bits >> (8 * width) != 0)) return false;
    std::memcpy(data.mutable_bytes() + static_cast<size_t>(i) * width, &*bits, width);
    return true;
  }
  if (dtype == Dtype::kBool) {
    data.SetInt(i, element.text == "true");
    return element.text == "true" || element.text == "false";
  }
  if (dtype == Dtype::kU64) {
    const std::optional<uint64_t> value = Number<uint64_t>(element.text);
    if (value) data.SetInt(i, static_cast<int64_t>(*value));
    return value.has_value();
  }
  if (!IsFloat(dtype)) {
    const std::optional<int64_t> value = Number<int64_t>(element.text);
    if (value) data.SetInt(i, *value);
    return value.has_value() && data.GetInt(i) == *value;
  }
  // Parsed as float, because reading a double first would round twice.
  if (dtype == Dtype::kF32 && element.text != "nan") {
    const std::optional<float> value = Number<float>(element.text);
    if (value) data.SetDouble(i, *value);
    return value.has_value();
  }
  // The word nan stands for the quiet NaN without a sign.
  const std::optional<double> value = element.text == "nan"
                                          ? std::numeric_limits<double>::quiet_NaN()
                                          : Number<double>(element.text);
  if (value) data.SetDouble(i, *value);
  return value.has_value();
}

}  // namespace

Result<void> Expect(Lexer& lexer, std::string_view symbol) {
  if (!lexer.At(symbol)) return lexer.Expected(fmt::format("'{}'", symbol));
  return lexer.Advance();
}

Result<bool> Accept(Lexer& lexer, std::string_view symbol) {
  if (!lexer.At(symbol)) return false;
  FUSEC_TRY(lexer.Advance());
  return true;
}

Result<std::string> ExpectWord(Lexer& lexer, const std::string& what) {
  if (lexer.current().kind != Token::Kind::kWord) return lexer.Expected(what);
  std::string word(lexer.current().text);
  FUSEC_TRY(lexer.Advance());
  return word;
}

Result<std::string> ExpectString(Lexer& lexer, const std::string& what) {
  if (lexer.current().kind != Token::Kind::kString) return lexer.Expected(what);
  std::string value = lexer.current().value;
  FUSEC_TRY(lexer.Advance());
  return value;
}

Result<int64_t> ExpectInt(Lexer& lexer, const std::string& what) {
  std::optional<int64_t> value;
  if (lexer.current().kind == Token::Kind::kNumber) value = Number<int64_t>(lexer.current().text);
  if (!value) return lexer.Expected(what);
  FUSEC_TRY(lexer.Advance());
  return *value;
}

Result<TensorType> ParseType(Lexer& lexer) {
  std::optional<Dtype> dtype;
  if (lexer.current().kind == Token::Kind::kWord) dtype = ParseDtype(lexer.current().text);
  if (!dtype) return lexer.Expected("a type such as f32[batch, 13]");
  FUSEC_TRY(lexer.Advance());
  FUSEC_ASSIGN(Shape shape, ParseDims(lexer));
  return TensorType{*dtype, std::move(shape)};
}

Result<Attribute> ParseAttribute(Lexer& lexer) {
  const Token& token = lexer.current();
  if (token.kind == Token::Kind::kString) {
    FUSEC_ASSIGN(std::string value, ExpectString(lexer, "a string"));
    return Attribute(std::move(value));
  }
  if (lexer.At("[")) return ParseBracketList(lexer);
  if (IsFloatToken(token)) {
    FUSEC_ASSIGN(const double value, ExpectFloat(lexer));
    return Attribute(value);
  }
  if (token.kind == Token::Kind::kNumber) {
    FUSEC_ASSIGN(const int64_t value, ExpectInt(lexer, "an integer of 64 bits"));
    return Attribute(value);
  }
  if (lexer.At("dims")) {
    FUSEC_TRY(lexer.Advance());
    FUSEC_ASSIGN(Shape dims, ParseDims(lexer));
    return Attribute(std::move(dims));
  }
  if (lexer.At("floats")) {
    FUSEC_TRY(lexer.Advance());
    FUSEC_TRY(Expect(lexer, "["));
    return ParseList<double>(lexer, [&] { return ExpectFloat(lexer); });
  }
  if (token.kind == Token::Kind::kWord) {
    if (const std::optional<Dtype> dtype = ParseDtype(token.text)) {
      FUSEC_TRY(lexer.Advance());
      return Attribute(*dtype);
    }
  }
  return lexer.Expected("a number, string, list, dims[...] or dtype");
}

Result<std::vector<Element>> ParseElements(Lexer& lexer) {
  std::vector<Element> elements;
  FUSEC_TRY(Expect(lexer, "["));
  while (!lexer.At("]")) {
    const Token& token = lexer.current();
    if (token.kind != Token::Kind::kWord && token.kind != Token::Kind::kNumber) {
      return lexer.Expected("an element");
    }
    Element element{std::string(token.text)};
    FUSEC_TRY(lexer.Advance());
    FUSEC_ASSIGN(element.is_bits, Accept(lexer, "("));
    if (element.is_bits) {
      if (element.text != "nan" || lexer.current().kind != Token::Kind::kNumber) {
        return lexer.Expected("the bits of a nan");
      }
      element.text = lexer.current().text;
      FUSEC_TRY(lexer.Advance());
      FUSEC_TRY(Expect(lexer, ")"));
    }
    elements.push_back(std::move(element));
    if (lexer.At("]")) break;
    FUSEC_TRY(Expect(lexer, ","));
  }
  FUSEC_TRY(lexer.Advance());
  return elements;
}

Result<TensorData> MakeConstant(const TensorType& type, ArrayRef<Element> elements) {
  const std::optional<std::vector<int64_t>> dims = StaticShape(type.shape);
  if (!dims) return ModelError("a constant of " + type.ToString() + " has symbolic dims");
  for (const int64_t dim : *dims) {
    if (dim < 0) return ModelError("a constant of " + type.ToString() + " has a negative dim");
  }
  if (type.ElementCount() != Expr(static_cast<int64_t>(elements.size()))) {
    return ModelError(fmt::format("a constant of {} has {} elements, expected {}",
                                  type.ToString(), elements.size(),
                                  type.ElementCount().ToString()));
  }
  TensorData data(type.dtype, *dims);
  for (size_t i = 0; i < elements.size(); ++i) {
    if (!SetElement(data, static_cast<int64_t>(i), elements[i])) {
      return ModelError(fmt::format("{} is no element of {}", elements[i].text, type.ToString()));
    }
  }
  return data;
}

}  // namespace fusec
