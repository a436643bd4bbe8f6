#include "passes/pad_depth.h"

#include <algorithm>

#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

constexpr int64_t kAlignment = 16;  // bytes
constexpr int64_t kShortest = 32;   // elements; reading shorter rows takes little time in any case

// The number of elements to add so that rows begin at multiples of kAlignment; 0 if the
// concatenation is left as it is.
int64_t MissingElements(const Node& concat) {
  const TensorType& type = concat.result()->type;
  const int64_t length = type.shape.back().AsConstant().value_or(0);
  if (concat.Int("axis") != type.rank() - 1 || length < kShortest) return 0;
  const int64_t pack = kAlignment / DtypeBytes(type.dtype);
  return (pack - length % pack) % pack;
}

MadeConstant Padded(const ConstantMatrix& weights, int64_t terms) {
  ConstantMatrix padded = weights;
  const int64_t results = weights.results();
  TensorData data(weights.data->dtype(), weights.transposed ? std::vector<int64_t>{results, terms}
                                                            : std::vector<int64_t>{terms, results});
  padded.data = &data;
  for (int64_t k = 0; k < weights.terms(); ++k) {
    for (int64_t n = 0; n < results; ++n) data.SetDouble(padded.Position(k, n), weights.At(k, n));
  }
  Recipe recipe;
  Value* rows = recipe.Padded(recipe.Use(weights.constant), weights.transposed ? 1 : 0,
                              terms - weights.terms());
  return recipe.Finish(rows, std::move(data));
}

bool PadRows(Graph& graph, size_t place) {
  Node& concat = *graph.nodes[place];
  if (concat.kind != OpKind::kConcat || !IsFloat(concat.result()->type.dtype)) return false;
  const int64_t missing = MissingElements(concat);
  const auto readers = Readers(graph);
  const auto found = readers.find(concat.result());
  if (missing == 0 || found == readers.end() || IsOutput(graph, concat.result())) return false;
  const auto takes_padding = [&](const Node* reader) {
    return RightWeights(*reader).has_value() && reader->operand(0) == concat.result();
  };
  if (!std::all_of(found->second.begin(), found->second.end(), takes_padding)) return false;

  Builder builder(graph, place);
  builder.set_provenance(concat.provenance);
  Value* padded = WithZeros(builder, concat.operands, missing, concat.result()->name);
  const int64_t terms = *padded->type.shape.back().AsConstant();
  for (Node* reader : found->second) {
    const ConstantMatrix weights = *RightWeights(*reader);
    reader->operands[1] =
        AddConstant(builder, Padded(weights, terms), reader->operand(1)->name + "_padded");
    reader->operands[0] = padded;
  }
  std::swap(padded->name, concat.result()->name);
  return true;
}

}  // namespace

Result<bool> PadDepth(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const size_t before = graph.nodes.size();
    if (!PadRows(graph, i)) continue;
    i += graph.nodes.size() - before;
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
