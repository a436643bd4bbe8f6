#include "tests/property/random_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/driver/build/pipeline.h"
#include "compiler/ir/recurrence.h"
#include "compiler/region/slot_product.h"
#include "compiler/support/check.h"
#include "passes/pass_manager.h"
#include "tests/property/random_generator.h"

namespace fusec {

std::unique_ptr<Graph> Generator::Run() {
  const Expr batch = Expr::Symbol("batch");
  const int64_t width = 1 + random_.Below(9);
  AddFloat({batch, Expr(width)});
  AddFloat({batch, Expr(width)});
  if (random_.OneIn(2)) AddFloat({batch, Expr(1)});
  if (random_.OneIn(2)) AddFloat({Expr(width)});
  if (random_.OneIn(4)) AddFloat({});
  if (random_.OneIn(2)) AddFloat({batch, Expr(random_.Size()), Expr(random_.Size())});
  if (random_.OneIn(3)) {  // a second symbol, as ranking models have one
    graph_->symbols.push_back({"items", options_.least_batch, kMaxBatch});
    AddFloat({Expr::Symbol("items"), Expr(width)});
    if (random_.OneIn(2)) AddFloat({batch, Expr::Symbol("items"), Expr(random_.Size())});
  }
  // A size that is a multiple of another one, as for the look-ups of several features.
  if (random_.OneIn(4)) AddFloat({batch * (2 + random_.Below(2)), Expr(width)});
  if (random_.OneIn(2)) floats_.push_back(Constant({1 + random_.Below(3), width}));

  using Step = void (Generator::*)();
  std::vector<Step> steps;
  auto offer = [&](bool wanted, Step step, int weight) {
    if (wanted) steps.insert(steps.end(), static_cast<size_t>(weight), step);
  };
  offer(options_.pointwise, &Generator::Unary, 3);
  offer(options_.pointwise, &Generator::Binary, 4);
  offer(options_.pointwise, &Generator::Choice, 1);
  offer(options_.views, &Generator::Transpose, 1);
  offer(options_.views, &Generator::Reshape, 2);
  offer(options_.views, &Generator::Slice, 2);
  offer(options_.views, &Generator::First, 1);
  offer(options_.views, &Generator::Group, 1);
  offer(options_.views, &Generator::Concat, 2);
  offer(options_.views, &Generator::Pad, 1);
  offer(options_.views, &Generator::Expand, 1);
  offer(options_.gathers, &Generator::Gather, 2);
  offer(options_.reductions, &Generator::Reduce, 2);
  offer(options_.matmuls, &Generator::MatMul, 2);
  offer(options_.composites, &Generator::Softmax, 1);
  offer(options_.composites, &Generator::Normalize, 1);
  offer(options_.views, &Generator::Tile, 1);
  offer(options_.views, &Generator::Trilu, 1);
  offer(options_.views, &Generator::Unfold, 1);
  offer(options_.gathers, &Generator::Embeddings, 1);
  offer(options_.gathers, &Generator::HashedGather, 1);
  offer(options_.scans, &Generator::CumSum, 1);
  offer(options_.scans, &Generator::TopK, 1);
  offer(options_.reductions, &Generator::ArgMax, 1);
  // Operands that do not fit cost a try; unary ops always fit.
  for (int tries = 0; made_ < options_.nodes && tries < 40 * options_.nodes; ++tries) {
    (this->*random_.From(steps))();
  }
  const DenseMap<const Value*, int> uses = graph_->CountUses();
  for (Value* value : floats_) {
    const bool is_given = value->producer == nullptr || value->producer->kind == OpKind::kConstant;
    if (!is_given && (uses.count(value) == 0 || random_.OneIn(8))) {
      graph_->outputs.push_back(value);
    }
  }
  if (graph_->outputs.empty()) graph_->outputs.push_back(floats_.back());
  const Result<void> verdict = Verify(*graph_);
  FUSEC_CHECK(verdict.has_value(), verdict.error().message + "\n" + Print(*graph_));
  for (const auto& input : graph_->inputs) graph_->input_names.push_back(input->name);
  for (size_t i = 0; i < graph_->outputs.size(); ++i) {
    graph_->output_names.push_back(fmt::format("y{}", i));
  }
  return std::move(graph_);
}

namespace {

// The input whose values, unchanged, are the indices of a gather or a scatter.
const Value* SourceOf(const Value* indices) {
  while (indices->producer != nullptr) {
    const OpKind kind = indices->producer->kind;
    if (kind != OpKind::kSlice && kind != OpKind::kReshape) break;
    indices = indices->producer->operand(0);
  }
  return indices;
}

// The smallest axis that this input's values index.
int64_t SmallestTable(const Graph& graph, const Value* indices,
                      const std::map<std::string, int64_t>& symbols) {
  int64_t smallest = 1 << 20;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kTensorScatter && SourceOf(node->operand(2)) == indices) {
      const auto axis = static_cast<size_t>(node->Int("axis"));
      const Expr places = node->operand(0)->type.shape[axis] - node->operand(1)->type.shape[axis] + 1;
      smallest = std::min(smallest, std::max<int64_t>(places.Evaluate(symbols).value(), 1));
    }
    const bool has_tuples = node->kind == OpKind::kScatterND;
    const bool has_axis = node->kind == OpKind::kGather || node->kind == OpKind::kScatterElements;
    if ((!has_axis && !has_tuples) || SourceOf(node->operand(1)) != indices) continue;
    const int64_t first = has_axis ? node->Int("axis") : 0;
    const int64_t count = has_axis ? 1 : *node->operand(1)->type.shape.back().AsConstant();
    for (int64_t axis = first; axis < first + count; ++axis) {
      const Expr& extent = node->operand(0)->type.shape[static_cast<size_t>(axis)];
      smallest = std::min(smallest, extent.Evaluate(symbols).value());
    }
  }
  return smallest;
}

// For an input with the numbers of steps of sequences: the largest number; -1 for other inputs.
int64_t MostSteps(const Graph& graph, const Value* lengths, const std::map<std::string, int64_t>& symbols) {
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kRecurrence && node->operand(kLengths) == lengths)
      return SizesOfRecurrence(*node).steps.Evaluate(symbols).value();
  }
  return -1;
}

// For an input that chooses the slot of each row: the number of slots; -1 for other inputs.
int64_t CountSlots(const Graph& graph, const Value* slots) {
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kSlotMatMul && node->operand(kSlotsOfProduct) == slots)
      return node->operand(kBankOfProduct)->type.shape[0].AsConstant().value();
  }
  return -1;
}

bool Same(double expected, double found, double tolerance) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) == std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) return expected == found;
  return std::abs(expected - found) <= tolerance * std::max(1.0, std::abs(expected));
}

}  // namespace

std::unique_ptr<Graph> RandomGraph(uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).Run();
}

std::vector<ReferenceTensor> RandomInputs(const Graph& graph, uint64_t seed,
                                          std::map<std::string, int64_t> symbols) {
  Random random(seed);
  for (const DimSymbol& symbol : graph.symbols) {
    symbols.emplace(symbol.name, symbol.low + static_cast<int64_t>(seed % 4));
  }
  std::vector<ReferenceTensor> inputs;
  for (const auto& input : graph.inputs) {
    std::vector<int64_t> dims;
    for (const Expr& dim : input->type.shape) dims.push_back(dim.Evaluate(symbols).value());
    ReferenceTensor tensor(input->type.dtype, dims);
    for (double& value : tensor.reals) value = random.Eighths();
    const int64_t extent = SmallestTable(graph, input.get(), symbols), steps = MostSteps(graph, input.get(), symbols);
    const int64_t slots = CountSlots(graph, input.get());
    for (int64_t& value : tensor.ints) {
      value = slots >= 0 ? random.Below(slots + 1) - 1 : steps >= 0 ? random.Below(steps + 1) : random.Below(2 * extent) - extent;
    }
    tensor.WrapInts();
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

void MakeWeights(Graph& graph, const std::string& name) {
  const auto found = std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const auto& input) { return input->name == name; });
  FUSEC_CHECK(found != graph.inputs.end(), "no input " + name);
  const std::unique_ptr<Value> input = std::move(*found);
  if (!graph.input_names.empty()) graph.input_names.erase(graph.input_names.begin() + (found - graph.inputs.begin()));
  graph.inputs.erase(found);
  TensorData data(input->type.dtype, StaticShape(input->type.shape).value());
  for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, std::sin(static_cast<double>(i)));
  graph.ReplaceAllUses(input.get(), Builder(graph, 0).Constant(std::move(data), name));
}

bool MergesWeights(const std::string& pass) {
  return pass == "merge-linear" || pass == "merge-lora" || pass == "pull-normalization";
}

bool LosesInfinities(const Graph& before, const Graph& after, ArrayRef<ReferenceTensor> inputs) {
  std::set<std::string> left;
  for (const auto& node : after.nodes) {
    for (const auto& result : node->results) left.insert(result->name);
  }
  const auto lost = before.Clone();
  lost->outputs.clear();
  lost->output_names.clear();
  for (const auto& node : lost->nodes) {
    for (const auto& result : node->results) {
      if (left.count(result->name) != 0) continue;
      lost->outputs.push_back(result.get());
      lost->output_names.push_back(result->name);
    }
  }
  const auto values = Interpret(*lost, inputs);
  if (!values) return false;  // the comparison of answers reports the error
  return std::any_of(values->begin(), values->end(), [](const ReferenceTensor& value) {
    return std::any_of(value.reals.begin(), value.reals.end(), [](double real) { return !std::isfinite(real); });
  });
}

bool MergedWeightsMeetInfinities(const Graph& graph, ArrayRef<ReferenceTensor> inputs) {
  const auto now = graph.Clone();
  for (const std::string& pass : SharedPasses()) {
    const auto before = now->Clone();
    PassManager manager;
    const auto done = manager.Run(*now, {pass});
    FUSEC_CHECK(done.has_value(), Print(graph));
    const bool merged = MergesWeights(pass) && manager.timings().back().changed;
    if (merged && LosesInfinities(*before, *now, inputs)) return true;
  }
  return false;
}

std::string FirstDifference(ArrayRef<ReferenceTensor> expected,
                            ArrayRef<ReferenceTensor> found, double tolerance) {
  if (expected.size() != found.size()) {
    return fmt::format("{} results, expected {}", found.size(), expected.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const ReferenceTensor& want = expected[i];
    const ReferenceTensor& have = found[i];
    if (want.dtype != have.dtype || want.dims != have.dims) {
      return fmt::format("result {} is {}{}, expected {}{}", i, DtypeName(have.dtype), have.dims,
                         DtypeName(want.dtype), want.dims);
    }
    for (int64_t j = 0; j < want.element_count(); ++j) {
      const bool same = IsFloat(want.dtype) ? Same(want.reals[j], have.reals[j], tolerance)
                                            : want.ints[j] == have.ints[j];
      if (!same) {
        return fmt::format("result {} at {} is {}, expected {}", i, j, have.Real(j), want.Real(j));
      }
    }
  }
  return "";
}

}  // namespace fusec
