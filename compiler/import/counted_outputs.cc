#include "compiler/import/counted_outputs.h"

#include <algorithm>

#include "compiler/import/counted_views.h"

namespace fusec {
namespace {

constexpr char kSizesName[] = "run_time_sizes";

// `x` with its valid elements moved to the front, row-major by their true sizes.
Value* Dense(Value* x, CountLookup count_of, Formula& f) {
  const Shape shape = x->type.shape;
  const int first = CountedAxes(shape)[0];
  const bool is_dense = Product(Shape(shape.begin(), shape.begin() + first)).IsConstant(1) &&
                        CountedAxes(shape).size() == 1;
  if (is_dense) return x;
  return f.Reshape(ReshapeBeforeCounts(x, {Product(shape)}, count_of, f), shape);
}

}  // namespace

void AddRunTimeSizes(CountLookup count_of, Builder& builder, Problems& problems) {
  Graph& graph = builder.graph();
  Formula f(builder);
  ValueList sizes;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    Value* output = graph.outputs[i];
    if (!IsCounted(output->type.shape)) continue;
    builder.set_provenance(output->producer->provenance);
    const std::vector<int> axes = CountedAxes(output->type.shape);
    const bool is_known = std::all_of(axes.begin(), axes.end(), [&](int axis) {
      return IsSumOfCounts(output->type.shape[axis]);
    });
    if (!is_known) {
      problems.Add("output \"" + graph.OutputName(i) + "\" is " + output->type.ToString() +
                   ", sizes that are computed from run-time data in a way that fusec does not "
                   "support");
      continue;
    }
    for (const int axis : axes) {
      sizes.push_back(f.Reshape(SizeAsData(output->type.shape[axis], count_of, f), {1}));
      graph.run_time_sizes.push_back({static_cast<int>(i), axis});
    }
    graph.outputs[i] = Dense(output, count_of, f);
  }
  if (sizes.empty()) return;
  Value* vector = f.Concat(sizes, 0);
  vector->name = graph.UniqueName(kSizesName);
  graph.outputs.push_back(vector);
  graph.output_names.push_back(kSizesName);
}

}  // namespace fusec
