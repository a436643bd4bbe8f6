#include "compiler/reference/interpreter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "compiler/ir/op_def.h"
#include "compiler/reference/true_sizes.h"
#include "compiler/support/check.h"
#include "compiler/support/interrupt.h"

namespace fusec {
namespace {

using Symbols = std::map<std::string, int64_t>;
using Tensors = std::vector<ReferenceTensor>;

// The spacing of floats of `dtype` near `value`, which must be finite.
double Spacing(Dtype dtype, double value) {
  struct Format {
    int digits, least_exponent;
  };
  const Format format = dtype == Dtype::kF64    ? Format{53, -1074}
                        : dtype == Dtype::kF32  ? Format{24, -149}
                        : dtype == Dtype::kBF16 ? Format{8, -133}
                                                : Format{11, -24};
  // The exponent of a double is in 11 bits above those of its fraction, and 0 for subnormal
  // numbers.
  constexpr int kFractionBits = 52, kBias = 1023;
  const int exponent =
      static_cast<int>(std::bit_cast<uint64_t>(value) >> kFractionBits & 0x7ff) - kBias;
  return std::ldexp(1.0, std::max(exponent + 1 - format.digits, format.least_exponent));
}

bool IsWhole(const ReferenceTensor* tensor) {
  return tensor == nullptr ||
         std::all_of(tensor->reals.begin(), tensor->reals.end(),
                     [](double value) { return value == std::nearbyint(value); });
}

bool AddsUp(const Node& node) {
  return node.kind == OpKind::kReduceSum || node.kind == OpKind::kReduceMean ||
         node.kind == OpKind::kReduceProd || GetOpDef(node.kind).op_class == OpClass::kContraction;
}

class RandomRounding {
 public:
  explicit RandomRounding(uint64_t seed) : bits_(seed * 2 + 1) {}

  // Moves floats by `units` in the last place, up or down, or leaves them; zeros stay.
  ReferenceTensor Moved(const ReferenceTensor& tensor, double units = 1) {
    ReferenceTensor moved = tensor;
    for (double& value : moved.reals) {
      const double step = Bit() ? 0 : Bit() ? units : -units;
      if (value != 0 && std::isfinite(value)) value += step * Spacing(tensor.dtype, value);
    }
    return moved;
  }

  // Rounds to the dtype, up or down at random. Values that the dtype represents exactly are kept,
  // so that ops without rounding error have none. 16-bit results are rounded to their dtype or, at
  // random, to f32, as if they stayed within a kernel.
  void Round(ReferenceTensor& tensor) {
    if (!IsFloat(tensor.dtype) || tensor.dtype == Dtype::kF64) return;
    const Dtype dtype = tensor.dtype != Dtype::kF32 && Bit() ? Dtype::kF32 : tensor.dtype;
    for (double& value : tensor.reals) {
      if (value == 0 || !std::isfinite(value)) continue;
      const double spacing = Spacing(dtype, value),
                   nearest = std::nearbyint(value / spacing) * spacing;
      const bool is_kept = nearest == value || nearest == 0;  // exact, or it underflows
      const double rounded = is_kept || !Bit() ? nearest
                             : value > nearest ? nearest + spacing
                                               : nearest - spacing;
      value = RoundedTo(dtype, rounded);  // may overflow
    }
  }

  // About how many terms each of `sums` has: those of a reduction, or of a product of two matrices.
  static double TermsOf(const ReferenceTensor& sums, ArrayRef<const ReferenceTensor*> operands) {
    const auto count = [](const ReferenceTensor* tensor) {
      return static_cast<double>(tensor->element_count());
    };
    const double results = std::max(1.0, count(&sums));
    if (operands.size() == 1 || operands[1] == nullptr) return count(operands[0]) / results;
    return std::sqrt(count(operands[0]) * count(operands[1]) / results);
  }

  // The same for sums of several terms. Partial sums are rounded as well, which moves even sums
  // that the dtype represents exactly, unless all terms are whole numbers: the errors of n terms
  // add up to about the root of n. A zero gets a random sign, because a sum may start with its
  // first term or with 0.
  void RoundSums(ReferenceTensor& sums, ArrayRef<const ReferenceTensor*> operands) {
    Round(sums);
    if (!std::all_of(operands.begin(), operands.end(), IsWhole)) {
      const bool is_short = DtypeBytes(sums.dtype) < 4;  // its sums are f32
      const double root = is_short ? 1 : std::sqrt(TermsOf(sums, operands));
      sums = Moved(sums, std::max(1.0, std::round(root / 4)));
    }
    for (double& value : sums.reals) {
      if (value == 0) value = Bit() ? 0.0 : -0.0;
    }
  }

  // Moves each result x * factor(x), where the factor lies in 0..1 and is a sum of numbers of
  // magnitude up to 1, as far as rounding moves the factor.
  void MoveByFactor(ReferenceTensor& results, const ReferenceTensor& x) {
    const double spacing = Spacing(results.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32, 0.5);
    for (size_t i = 0; i < results.reals.size(); ++i) {
      const double step = Bit() ? 0 : Bit() ? 1 : -1;
      if (std::isfinite(results.reals[i])) results.reals[i] += step * spacing * x.reals[i];
    }
  }

  bool Bit() {  // linear congruential generator of Knuth's MMIX
    bits_ = bits_ * 6364136223846793005u + 1442695040888963407u;
    return (bits_ >> 63) != 0;
  }

 private:
  uint64_t bits_;
};

// The context of a run besides its inputs.
struct RunContext {
  const Symbols& symbols;
  RandomRounding* rounding = nullptr;  // null: results stay doubles
};

Result<Tensors> RunGraph(const Graph& graph, ArrayRef<const ReferenceTensor*> inputs,
                         const RunContext& context);

Result<ReferenceTensor> Evaluate(const Node& constant) {
  if (constant.constant.bytes() == nullptr) {
    return ModelError("constant \"" + constant.result()->name + "\" was read without its data (" +
                      constant.constant_hash + ")");
  }
  return ReferenceTensor::FromData(constant.constant);
}

// Runs a composite op as the graph of its decomposition. Constant operands stay constants in that
// graph, because decompositions may look at them.
Result<Tensors> RunComposite(const Graph& graph, const Node& node,
                             ArrayRef<const ReferenceTensor*> operands, const RunContext& context) {
  Graph parts;
  parts.name = GetOpDef(node.kind).text;
  parts.symbols = graph.symbols;
  Builder builder(parts);
  Node composite;
  composite.kind = node.kind;
  composite.attributes = node.attributes;
  composite.provenance = node.provenance;
  std::vector<const ReferenceTensor*> inputs;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Value* operand = node.operands[i];
    if (operand == nullptr) {
      composite.operands.push_back(nullptr);
    } else if (IsConstant(operand)) {
      composite.operands.push_back(builder.Constant(operand->producer->constant, operand->name));
    } else {
      composite.operands.push_back(parts.AddInput(operand->name, operand->type));
      inputs.push_back(operands[i]);
    }
  }
  for (const auto& result : node.results) {
    composite.results.push_back(std::make_unique<Value>(*result));
    composite.results.back()->producer = &composite;
  }
  FUSEC_ASSIGN(parts.outputs, GetOpDef(node.kind).functions.decompose(composite, builder));
  return RunGraph(parts, inputs, context);
}

class Run {
 public:
  Run(const Graph& graph, const RunContext& context)
      : graph_(graph), context_(context), uses_left_(graph.CountUses()) {}

  Result<Tensors> Outputs(ArrayRef<const ReferenceTensor*> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) given_[graph_.inputs[i].get()] = inputs[i];
    for (const auto& node : graph_.nodes) {
      if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
      if (node->kind != OpKind::kConstant) FUSEC_TRY(Execute(*node));
    }
    Tensors outputs;
    for (const Value* output : graph_.outputs) {
      FUSEC_ASSIGN(const ReferenceTensor* tensor, Find(output));
      const auto computed = computed_.find(output);
      const bool last_use = computed != computed_.end() && --uses_left_[output] == 0;
      outputs.push_back(last_use ? std::move(computed->second) : *tensor);
    }
    return outputs;
  }

 private:
  // Constants are converted to tensors of doubles, which takes more memory, only when they are
  // first used.
  Result<const ReferenceTensor*> Find(const Value* value) {
    const auto given = given_.find(value);
    if (given != given_.end()) return given->second;
    const auto computed = computed_.find(value);
    if (computed != computed_.end()) return &computed->second;
    FUSEC_CHECK(IsConstant(value),
                "%" + value->name + " is used before it is computed\n" + Print(graph_));
    FUSEC_ASSIGN(ReferenceTensor tensor, Evaluate(*value->producer));
    // Weights are moved like inputs. A single number, such as the exponent 2 of a square, is not.
    if (context_.rounding != nullptr && tensor.element_count() > 1)
      tensor = context_.rounding->Moved(tensor);
    return &computed_.try_emplace(value, std::move(tensor)).first->second;
  }

  Result<void> Execute(const Node& node) {
    std::vector<const ReferenceTensor*> operands;
    for (const Value* operand : node.operands) {
      operands.push_back(nullptr);
      if (operand == nullptr) continue;
      FUSEC_ASSIGN(operands.back(), Find(operand));
    }
    FUSEC_ASSIGN(Tensors results, Compute(node, operands));
    FUSEC_CHECK(results.size() == node.results.size(), PrintNode(node));
    for (size_t i = 0; i < results.size(); ++i) {
      const Value* value = node.results[i].get();
      if (uses_left_[value] != 0) computed_[value] = std::move(results[i]);
    }
    for (const Value* operand : node.operands) {
      if (operand != nullptr && --uses_left_[operand] == 0) computed_.erase(operand);
    }
    return {};
  }

  // A product overflows in f32 if it begins with its large factors, even where the small ones would
  // make it finite.
  Result<void> OverflowAtRandom(const Node& node, const ReferenceTensor& factors,
                                ReferenceTensor& products) {
    ReferenceTensor large = factors;
    for (double& factor : large.reals) factor = std::max(1.0, std::abs(factor));
    Tensors greatest = {products};
    const std::vector<const ReferenceTensor*> operands = {&large};
    ReferenceContext context(node, operands, greatest, context_.symbols);
    FUSEC_TRY(GetOpDef(node.kind).functions.reference(context));
    constexpr double kGreatestOfFloats = std::numeric_limits<float>::max();
    for (size_t i = 0; i < products.reals.size(); ++i) {
      double& product = products.reals[i];
      if (greatest[0].reals[i] > kGreatestOfFloats && product != 0 && context_.rounding->Bit())
        product = std::copysign(std::numeric_limits<double>::infinity(), product);
    }
    return {};
  }

  Result<Tensors> Compute(const Node& node, ArrayRef<const ReferenceTensor*> operands) {
    if (node.kind == OpKind::kRegion) return RunGraph(*node.body, operands, context_);
    const OpFunctions& functions = GetOpDef(node.kind).functions;
    // Compiled programs also round the intermediate results of composite ops.
    const bool takes_parts = functions.decompose != nullptr &&
                             (functions.reference == nullptr || context_.rounding != nullptr);
    if (takes_parts) return RunComposite(graph_, node, operands, context_);
    FUSEC_CHECK(functions.reference != nullptr, "no reference for " + PrintNode(node));
    Tensors results;
    for (const auto& result : node.results) {
      std::vector<int64_t> dims;
      for (const Expr& dim : result->type.shape) {
        FUSEC_ASSIGN(const int64_t extent, dim.Evaluate(context_.symbols));
        if (extent < 0) {
          return Fail(ErrorKind::kInput, "dim " + dim.ToString() + " of \"" + result->name +
                                             "\" is " + std::to_string(extent) +
                                             ", expected no less than 0");
        }
        dims.push_back(extent);
      }
      results.emplace_back(result->type.dtype, std::move(dims));
    }
    ReferenceContext context(node, operands, results, context_.symbols);
    FUSEC_TRY(functions.reference(context));
    for (ReferenceTensor& result : results) {
      if (context_.rounding == nullptr) break;
      if (AddsUp(node) && IsFloat(result.dtype))
        context_.rounding->RoundSums(result, operands);
      else
        context_.rounding->Round(result);
      if (node.kind == OpKind::kReduceProd && IsFloat(result.dtype))
        FUSEC_TRY(OverflowAtRandom(node, *operands[0], result));
      // Far below zero, 1 + erf cancels and has few correct digits.
      if (node.kind == OpKind::kGelu) context_.rounding->MoveByFactor(result, *operands[0]);
    }
    return results;
  }

  const Graph& graph_;
  const RunContext context_;
  DenseMap<const Value*, int> uses_left_;
  DenseMap<const Value*, const ReferenceTensor*> given_;
  std::unordered_map<const Value*, ReferenceTensor> computed_;  // erased after the last use
};

Result<Tensors> RunGraph(const Graph& graph, ArrayRef<const ReferenceTensor*> inputs,
                         const RunContext& context) {
  FUSEC_CHECK(inputs.size() == graph.inputs.size(), Print(graph));
  return Run(graph, context).Outputs(inputs);
}

Result<Tensors> InterpretWith(const Graph& graph, ArrayRef<ReferenceTensor> inputs,
                              RandomRounding* rounding) {
  std::vector<std::vector<int64_t>> dims;
  std::vector<const ReferenceTensor*> pointers;
  for (const ReferenceTensor& input : inputs) {
    dims.push_back(input.dims);
    pointers.push_back(&input);
  }
  FUSEC_ASSIGN(const Symbols symbols, BindSymbols(graph, dims));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Dtype expected = graph.inputs[i]->type.dtype;
    if (inputs[i].dtype == expected) continue;
    return Fail(ErrorKind::kInput, "input \"" + graph.InputName(i) + "\" is " +
                                       std::string(DtypeName(inputs[i].dtype)) + ", expected " +
                                       std::string(DtypeName(expected)));
  }
  FUSEC_ASSIGN(Tensors outputs, RunGraph(graph, pointers, {symbols, rounding}));
  TakeTrueSizes(graph, outputs);
  return outputs;
}

}  // namespace

Result<Tensors> Interpret(const Graph& graph, ArrayRef<ReferenceTensor> inputs) {
  return InterpretWith(graph, inputs, nullptr);
}

Result<Tensors> InterpretRounded(const Graph& graph, ArrayRef<ReferenceTensor> inputs,
                                 uint64_t seed) {
  RandomRounding rounding(seed);
  Tensors moved;
  for (const ReferenceTensor& input : inputs) moved.push_back(rounding.Moved(input));
  return InterpretWith(graph, moved, &rounding);
}

Result<std::vector<ReferenceTensor>> InterpretNode(const Node& node,
                                                   ArrayRef<ReferenceTensor> inputs) {
  Graph graph;
  graph.name = "alone";
  ValueList operands;
  size_t next = 0;
  for (const Value* operand : node.operands) {
    operands.push_back(nullptr);
    if (!operand) continue;
    const ReferenceTensor& input = inputs[next++];
    operands.back() =
        graph.AddInput(operand->name, {input.dtype, Shape(input.dims.begin(), input.dims.end())});
    graph.input_names.push_back(operand->name);
  }
  Builder builder(graph);
  builder.set_provenance(node.provenance);  // for errors
  FUSEC_ASSIGN(Node * added, builder.Add(node.kind, operands, node.attributes));
  for (const auto& result : added->results) {
    graph.outputs.push_back(result.get());
    graph.output_names.push_back(result->name);
  }
  return Interpret(graph, inputs);
}

}  // namespace fusec
