// Products and convolutions with what onnxruntime fuses into them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compiler/import/contrib/contrib_ops.h"

namespace fusec {
namespace {

// Sets Y to the activation, an op of ONNX, of `x`. `parameters` are its attributes in the order of
// `names`; missing ones keep ONNX's defaults.
Result<void> Activate(Statements& s, const ContribNode& node, const std::string& x,
                      ArrayRef<double> parameters) {
  const std::string name = node.context().String("activation", "");
  const auto attribute = [&](size_t i, const char* text) {
    return i < parameters.size() ? fmt::format("{} = {}", text, FloatText(parameters[i])) : "";
  };
  if (!std::all_of(parameters.begin(), parameters.end(),
                   [](double parameter) { return std::isfinite(parameter); }))
    return node.Fail("a parameter of the activation is not finite");
  std::string attributes;
  if (name.empty()) {
    s.Set("Y", fmt::format("Identity({})", x));
    return {};
  }
  if (name == "Clip") {
    const std::string least = parameters.empty() ? "" : s.Number(parameters[0], x);
    const std::string most = parameters.size() < 2 ? "" : s.Number(parameters[1], x);
    s.Set("Y", fmt::format("Clip({}, {}, {})", x, least, most));
    return {};
  }
  if (name == "LeakyRelu" || name == "Elu") {
    attributes = attribute(0, "alpha: float");
  } else if (name == "HardSigmoid") {
    attributes = attribute(0, "alpha: float");
    if (parameters.size() > 1) attributes += ", " + attribute(1, "beta: float");
  } else if (name != "Relu" && name != "Tanh" && name != "Sigmoid" && name != "Softplus" &&
             name != "Softsign" && name != "HardSwish") {
    return node.Fail("activation \"" + name + "\" is not supported");
  }
  if (!attributes.empty()) attributes = "<" + attributes + ">";
  s.Set("Y", fmt::format("{}{}({})", name, attributes, x));
  return {};
}

// The activation's parameters, which FusedGemm and FusedMatMulActivation have by name.
std::vector<double> NamedParameters(const ContribNode& node) {
  std::vector<double> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (!node.context().Has(name)) break;
    parameters.push_back(node.Float(name, 0));
  }
  return parameters;
}

// A factor with its first dim behind the batch dims if `moves_first`, and then, if `is_transposed`,
// with its two last dims swapped.
std::string Factor(Statements& s, const std::string& x, int rank, bool moves_first,
                   bool is_transposed) {
  std::string factor = x;
  if (moves_first && rank > 2) {
    std::vector<int64_t> perm;
    for (int i = 1; i < rank - 1; ++i) perm.push_back(i);
    perm.push_back(0);
    perm.push_back(rank - 1);
    factor = s.Let(fmt::format("Transpose<perm = [{}]>({})", fmt::join(perm, ", "), factor));
  }
  return is_transposed ? s.Transposed(factor, rank) : factor;
}

std::string Product(const ContribNode& node, Statements& s) {
  const std::string a =
      Factor(s, "A", node.Rank("A"), node.Int("transBatchA") != 0, node.Int("transA") != 0);
  const std::string b =
      Factor(s, "B", node.Rank("B"), node.Int("transBatchB") != 0, node.Int("transB") != 0);
  const std::string product = s.Of("MatMul", a, b);
  const double alpha = node.Float("alpha", 1);
  if (alpha == 1) return product;
  const std::string factor = s.Number(alpha, product);
  return s.Of("Mul", product, factor);
}

Result<std::string> FusedMatMul(const ContribNode& node) {
  Statements s;
  s.Set("Y", fmt::format("Identity({})", Product(node, s)));
  return s.text();
}

Result<std::string> FusedMatMulActivation(const ContribNode& node) {
  Statements s;
  FUSEC_TRY(node.Refuse({}, {"activation_axis"}));
  FUSEC_TRY(Activate(s, node, Product(node, s), NamedParameters(node)));
  return s.text();
}

Result<std::string> FusedGemm(const ContribNode& node) {
  Statements s;
  const std::string product = s.Let(
      "Gemm<alpha: float = @alpha, beta: float = @beta, transA: int = @transA, transB: int = "
      "@transB>(A, B, C)");
  FUSEC_TRY(Activate(s, node, product, NamedParameters(node)));
  return s.text();
}

Result<std::string> FusedConv(const ContribNode& node) {
  Statements s;
  const std::string y = s.Let(
      "Conv<auto_pad: string = @auto_pad, dilations: ints = @dilations, group: int = @group, "
      "kernel_shape: ints = @kernel_shape, pads: ints = @pads, strides: ints = @strides>(X, W, B)");
  FUSEC_TRY(Activate(s, node, s.Plus(y, node, "Z"), node.context().Floats("activation_params")));
  return s.text();
}

constexpr ContribOp kOps[] = {
    {"FusedMatMul <alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0, "
     "transBatchB: int = 0> (A, B) => (Y)",
     2, nullptr, &FusedMatMul},
    {"TransposeMatMul <alpha: float = 1.0, transA: int = 0, transB: int = 0> (A, B) => (Y)", 2,
     nullptr, &FusedMatMul},
    {"FusedMatMulActivation <activation, activation_alpha, activation_beta, activation_gamma, "
     "activation_axis, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0, "
     "transBatchB: int = 0> (A, B) => (Y)",
     2, nullptr, &FusedMatMulActivation},
    {"FusedGemm <activation, activation_alpha, activation_beta, activation_gamma, alpha: float = "
     "1.0, beta: float = 1.0, transA: int = 0, transB: int = 0> (A, B, C) => (Y)",
     2, nullptr, &FusedGemm},
    {"FusedConv <activation, activation_params, auto_pad, dilations, group: int = 1, "
     "kernel_shape, pads, strides> (X, W, B, Z) => (Y)",
     2, nullptr, &FusedConv},
};

}  // namespace

ArrayRef<ContribOp> ContribProducts() { return kOps; }

}  // namespace fusec
