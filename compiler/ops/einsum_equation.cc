#include "compiler/ops/einsum_equation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace fusec {
namespace {

constexpr EinsumLabel kFirstEllipsisLabel = 256;

std::string LabelText(EinsumLabel label) {
  if (label >= kFirstEllipsisLabel) return "...";
  return std::string(1, static_cast<char>(label));
}

std::vector<std::string> SplitTerms(const std::string& text) {
  std::vector<std::string> terms(1);
  for (const char c : text) {
    if (c == ',') terms.emplace_back();
    else terms.back() += c;
  }
  return terms;
}

// The labels of a term; its ellipsis, if any, stands for `ellipsis_rank` dims.
Result<EinsumLabels> ParseTerm(const std::string& term, int ellipsis_rank) {
  EinsumLabels labels;
  bool has_ellipsis = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels.push_back(term[i]);
    } else if (term.compare(i, 3, "...") == 0 && !has_ellipsis) {
      for (int k = ellipsis_rank - 1; k >= 0; --k) labels.push_back(kFirstEllipsisLabel + k);
      has_ellipsis = true;
      i += 2;
    } else {
      return ModelError(fmt::format("the term \"{}\" has \"{}\", expected letters and one ellipsis",
                                    term, term[i]));
    }
  }
  return labels;
}

// The result of an equation without "->": the ellipsis, then the letters that occur once, in
// alphabetical order.
std::string ImplicitResult(const std::string& operands) {
  std::map<char, int> counts;
  for (const char c : operands) {
    if (std::isalpha(static_cast<unsigned char>(c))) ++counts[c];
  }
  std::string result = operands.find("...") == std::string::npos ? "" : "...";
  for (const auto& [letter, count] : counts) {
    if (count == 1) result += letter;
  }
  return result;
}

}  // namespace

Result<EinsumEquation> EinsumEquation::Parse(const std::string& equation, ArrayRef<Shape> shapes) {
  const size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  const std::string right =
      arrow == std::string::npos ? ImplicitResult(left) : equation.substr(arrow + 2);
  const std::vector<std::string> terms = SplitTerms(left);
  if (terms.size() != shapes.size()) {
    return ModelError(fmt::format("the equation \"{}\" has {} terms for {} operands", equation,
                                  terms.size(), shapes.size()));
  }
  EinsumEquation parsed;
  int ellipsis_rank = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const int rank = static_cast<int>(shapes[i].size());
    const bool has_ellipsis = terms[i].find("...") != std::string::npos;
    const int hidden = has_ellipsis ? rank - static_cast<int>(terms[i].size() - 3) : 0;
    FUSEC_ASSIGN(EinsumLabels labels, ParseTerm(terms[i], std::max(hidden, 0)));
    if (static_cast<int>(labels.size()) != rank) {
      return ModelError(fmt::format("the term \"{}\" does not fit operand {}, which has rank {}",
                                    terms[i], i, rank));
    }
    ellipsis_rank = std::max(ellipsis_rank, hidden);
    for (int axis = 0; axis < rank; ++axis) {
      const Expr& dim = shapes[i][axis];
      Expr& size = parsed.sizes.emplace(labels[axis], Expr(1)).first->second;
      if (size.IsConstant(1)) {
        size = dim;
      } else if (size != dim && !dim.IsConstant(1)) {
        return ModelError(fmt::format("\"{}\" is {} and {} in the equation \"{}\"",
                                      LabelText(labels[axis]), size.ToString(), dim.ToString(),
                                      equation));
      }
    }
    parsed.operands.push_back(std::move(labels));
  }
  FUSEC_ASSIGN(parsed.result, ParseTerm(right, ellipsis_rank));
  for (size_t i = 0; i < parsed.result.size(); ++i) {
    const EinsumLabel label = parsed.result[i];
    if (parsed.sizes.count(label) == 0) {
      return ModelError(fmt::format("\"{}\" of the result is in no term of the equation \"{}\"",
                                    LabelText(label), equation));
    }
    if (std::count(parsed.result.begin(), parsed.result.end(), label) != 1) {
      return ModelError(fmt::format("\"{}\" is twice in the result of the equation \"{}\"",
                                    LabelText(label), equation));
    }
  }
  return parsed;
}

Shape EinsumEquation::ResultShape() const {
  Shape shape;
  for (const EinsumLabel label : result) shape.push_back(sizes.at(label));
  return shape;
}

}  // namespace fusec
