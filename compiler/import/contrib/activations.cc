// Activations, and sums and products in front of them.
#include <fmt/format.h>

#include "compiler/import/contrib/contrib_ops.h"

namespace fusec {
namespace {

Result<std::string> FastGelu(const ContribNode& node) {
  Statements s;
  s.Set("Y", "Gelu<approximate = \"tanh\">(" + s.Plus("X", node, "bias") + ")");
  return s.text();
}

// The gate, activated, times the rest, both clamped if `limit` is above 0.
std::string Gated(const ContribNode& node, Statements& s, std::string gate, std::string up) {
  const double limit = node.Float("limit", 0), beta = node.Float("activation_beta", 0);
  if (limit > 0) {
    const std::string most = s.Number(limit, gate);
    up = s.Of("Clip", up, s.Number(-limit, gate), most);
    gate = s.Let(fmt::format("Clip({}, , {})", gate, most));
  }
  const std::string activated = s.Let(fmt::format(
      "Swish<alpha: float = {}>({})", FloatText(node.Float("activation_alpha", 1)), gate));
  if (beta != 0) up = s.Of("Add", up, s.Number(beta, up));
  return s.Of("Mul", activated, up);
}

// Of one projection, the gate is the first half of a row.
Result<std::string> SwiGLU(const ContribNode& node) {
  Statements s;
  std::vector<std::string> parts = {"gate", "up"};
  if (!node.Has("up")) {
    FUSEC_ASSIGN(const int64_t columns, node.FixedDim("gate", -1));
    if (columns % 2 != 0)
      return node.Fail(fmt::format("a row has {} elements, expected two halves", columns));
    parts = s.Split("gate", -1, {columns / 2, columns / 2});
  }
  s.Set("output", fmt::format("Identity({})", Gated(node, s, parts[0], parts[1])));
  return s.text();
}

// A product whose columns are the logits of a router, and the gate and the rest of an expert.
Result<std::string> RouterGateUpProj(const ContribNode& node) {
  const std::string activation = node.context().String("activation", "swiglu");
  if (activation != "swiglu")
    return node.Fail("activation \"" + activation + "\" is not supported");
  FUSEC_ASSIGN(const int64_t columns, node.FixedDim("W", -1));
  const int64_t routed = node.Int("router_size"), rest = columns - routed;
  if (routed < 1 || rest < 2 || rest % 2 != 0) {
    return node.Fail(fmt::format(
        "router_size is {}, and W has {} columns, expected two halves behind the router's", routed,
        columns));
  }
  Statements s;
  const std::vector<std::string> parts =
      s.Split(s.Of("MatMul", "X", "W"), -1, {routed, rest / 2, rest / 2});
  s.Set("router", fmt::format("Identity({})", parts[0]));
  s.Set("activated", fmt::format("Identity({})", Gated(node, s, parts[1], parts[2])));
  return s.text();
}

constexpr ContribOp kOps[] = {
    {"Gelu (X) => (Y)", 1, "Y = Gelu(X)"},
    {"BiasGelu (A, B) => (C)", 2, "S = Add(A, B) C = Gelu(S)"},
    {"FastGelu (X, bias) => (Y)", 1, nullptr, &FastGelu},
    {"QuickGelu <alpha: float = 1.702> (X) => (Y)", 1, "Y = Swish<alpha: float = @alpha>(X)"},
    {"SwiGLU <activation_alpha: float = 1.0, activation_beta: float = 0.0, limit: float = 0.0, "
     "round_activation> (gate, up) => (output)",
     1, nullptr, &SwiGLU},
    {"RouterGateUpProj <activation, activation_alpha: float = 1.0, activation_beta: float = 0.0, "
     "limit: float = 0.0, router_size> (X, W) => (router, activated)",
     2, nullptr, &RouterGateUpProj},
};

}  // namespace

ArrayRef<ContribOp> ContribActivations() { return kOps; }

}  // namespace fusec
