#include "compiler/ir/recurrence.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "compiler/ir/op_def.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr std::optional<double> kNone;
constexpr int64_t kMostZeros = 65536;  // initial states of more elements are not examined

// clang-format off
const CellActivation kActivations[] = {
    {"Affine", true, true, kNone, kNone,
     [](double x, double a, double b) { return a * x + b; }, "{alpha} * {x} + {beta}", nullptr},
    {"Elu", true, false, 1.0, kNone,
     [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; },
     "{x} < 0.0{f} ? {alpha} * expm1{f}({x}) : {x}", nullptr},
    {"HardSigmoid", true, true, 0.2f, 0.5f,
     [](double x, double a, double b) {
       const double line = a * x + b;
       return line < 0 ? 0 : line > 1 ? 1 : line;
     },
     "HardSigmoid({x}, {alpha}, {beta})", "hard_sigmoid.cuh"},
    {"LeakyRelu", true, false, 0.01f, kNone,
     [](double x, double a, double) { return x < 0 ? a * x : x; },
     "{x} < 0.0{f} ? {alpha} * {x} : {x}", nullptr},
    {"Relu", false, false, kNone, kNone,
     [](double x, double, double) { return x < 0 ? 0 : x; },
     "{x} < 0.0{f} ? 0.0{f} : {x}", nullptr},
    {"ScaledTanh", true, true, kNone, kNone,
     [](double x, double a, double b) { return a * std::tanh(b * x); },
     "{alpha} * tanh{f}({beta} * {x})", nullptr},
    {"Sigmoid", false, false, kNone, kNone,
     [](double x, double, double) { return 1 / (1 + std::exp(-x)); },
     "Sigmoid({x})", "sigmoid.cuh"},
    {"Softplus", false, false, kNone, kNone,
     [](double x, double, double) { return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x))); },
     "Softplus({x})", "softplus.cuh"},
    {"Softsign", false, false, kNone, kNone,
     [](double x, double, double) { return x / (1 + std::fabs(x)); },
     "{x} / (1.0{f} + fabs{f}({x}))", nullptr},
    {"Tanh", false, false, kNone, kNone,
     [](double x, double, double) { return std::tanh(x); }, "tanh{f}({x})", nullptr},
    {"ThresholdedRelu", true, false, 1.0, kNone,
     [](double x, double a, double) { return x > a ? x : 0; },
     "{x} > {alpha} ? {x} : 0.0{f}", nullptr},
};
// clang-format on

}  // namespace

const std::vector<CellKind>& CellKinds() {
  static const std::vector<CellKind>& kinds = *new std::vector<CellKind>{
      {Cell::kGru, "gru", "GRU", 3, "update reset candidate", {"Sigmoid", "Tanh"}},
      {Cell::kLstm, "lstm", "LSTM", 4, "input output forget cell", {"Sigmoid", "Tanh", "Tanh"}},
      {Cell::kRnn, "rnn", "RNN", 1, "hidden", {"Tanh"}},
  };
  return kinds;
}

const CellActivation* FindCellActivation(const std::string& name) {
  const auto found = std::find_if(std::begin(kActivations), std::end(kActivations),
                                  [&](const CellActivation& known) { return known.name == name; });
  return found == std::end(kActivations) ? nullptr : found;
}

std::string CellActivationNames() {
  std::string names;
  for (const CellActivation& known : kActivations)
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

RecurrenceSizes SizesOfRecurrence(const Node& node) {
  const auto kind = std::find_if(
      CellKinds().begin(), CellKinds().end(),
      [&](const CellKind& known) { return known.name == node.Get<std::string>("cell"); });
  FUSEC_CHECK(kind != CellKinds().end(), "no such cell: " + PrintNode(node));
  const Shape& gates = node.operand(kGates)->type.shape;
  const Shape& weights = node.operand(kWeights)->type.shape;
  const bool batch_first = node.Int("batch_first") != 0;
  return {&*kind, *weights[0].AsConstant(), *weights[1].AsConstant(), gates[batch_first ? 1 : 0],
          gates[batch_first ? 0 : 1]};
}

std::vector<std::string> ActivationNames(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> names;
  for (std::string word; words >> word;) names.push_back(word);
  return names;
}

std::vector<ChosenActivation> ActivationsOf(const Node& node) {
  std::vector<ChosenActivation> chosen;
  const auto& alphas = node.Get<std::vector<double>>("alphas");
  const auto& betas = node.Get<std::vector<double>>("betas");
  for (const std::string& name : ActivationNames(node.Get<std::string>("activations"))) {
    const size_t i = chosen.size();
    chosen.push_back({FindCellActivation(name), alphas[i], betas[i]});
  }
  return chosen;
}

int64_t StateBytesPerRow(const CellKind& kind, int64_t units, bool linear_before_reset,
                         Dtype dtype) {
  const bool resets_first = kind.cell == Cell::kGru && !linear_before_reset;
  const int64_t arrays = kind.cell == Cell::kLstm ? 3 : resets_first ? 4 : 2;
  return arrays * units * std::max(4, DtypeBytes(dtype));
}

bool IsZeroState(const Value* value) {
  while (!IsConstant(value)) {
    if (value->producer == nullptr || value->producer->operands.size() != 1 ||
        GetOpDef(value->producer->kind).op_class != OpClass::kView)
      return false;
    value = value->producer->operand(0);
  }
  const TensorData* data = Payload(value);
  return data != nullptr && data->element_count() <= kMostZeros && data->IsZero();
}

}  // namespace fusec
