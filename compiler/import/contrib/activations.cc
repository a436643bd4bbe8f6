// Activations, and sums in front of them.
#include "compiler/import/contrib/contrib_ops.h"

namespace fusec {
namespace {

Result<std::string> FastGelu(const ContribNode& node) {
  Statements s;
  s.Set("Y", "Gelu<approximate = \"tanh\">(" + s.Plus("X", node, "bias") + ")");
  return s.text();
}

constexpr ContribOp kOps[] = {
    {"Gelu (X) => (Y)", 1, "Y = Gelu(X)"},
    {"BiasGelu (A, B) => (C)", 2, "S = Add(A, B) C = Gelu(S)"},
    {"FastGelu (X, bias) => (Y)", 1, nullptr, &FastGelu},
    {"QuickGelu <alpha: float = 1.702> (X) => (Y)", 1, "Y = Swish<alpha: float = @alpha>(X)"},
};

}  // namespace

ArrayRef<ContribOp> ContribActivations() { return kOps; }

}  // namespace fusec
