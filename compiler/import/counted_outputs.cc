#include "compiler/import/counted_outputs.h"

namespace fusec {
namespace {

constexpr char kSizesName[] = "run_time_sizes";

// The counted axis, if there is one and no other; else -1.
int OnlyCountedAxis(ShapeRef shape) {
  int found = -1;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    if (!IsCounted(shape[axis])) continue;
    if (found >= 0) return -1;
    found = axis;
  }
  return found;
}

// The elements of `x` before `count` of its `axis`, one after the other. The others become copies
// of the first element. Sizes with counts in them turn into their bounds later.
Value* Dense(Value* x, int axis, Value* count, Formula& f) {
  const Shape& shape = x->type.shape;
  const Expr outer = Product(Shape(shape.begin(), shape.begin() + axis));
  const Expr inner = Product(Shape(shape.begin() + axis + 1, shape.end()));
  if (outer.IsConstant(1)) return x;
  const auto size = [&](const Expr& dim) {
    return f.Make(OpKind::kSymbolicDims, {}, {{"values", Exprs{dim}}, {"scalar", int64_t{1}}});
  };
  Value* zero = f.Number(0, Dtype::kI64);
  Value* block = f.Mul(count, size(inner));  // elements that count, of each outer index
  Value* divisor = f.Make(OpKind::kMax, {block, f.Number(1, Dtype::kI64)});
  Value* place = f.Iota(0, Product(shape));
  Value* outer_index = f.Div(place, divisor);
  Value* in_block = f.Sub(place, f.Mul(outer_index, divisor));
  Value* source = f.Add(f.Mul(outer_index, size(shape[axis] * inner)), in_block);
  Value* is_before = f.Make(OpKind::kLess, {place, f.Mul(block, size(outer))});
  Value* index = f.Where(is_before, source, zero);
  return f.Reshape(f.Gather(f.Reshape(x, {Product(shape)}), index), shape);
}

}  // namespace

void AddRunTimeSizes(CountLookup count_of, Builder& builder, Problems& problems) {
  Graph& graph = builder.graph();
  Formula f(builder);
  ValueList sizes;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    Value* output = graph.outputs[i];
    if (!IsCounted(output->type.shape)) continue;
    const int axis = OnlyCountedAxis(output->type.shape);
    builder.set_provenance(output->producer->provenance);
    Value* size = axis < 0 ? nullptr : SizeAsData(output->type.shape[axis], count_of, f);
    if (size == nullptr) {
      problems.Add("output \"" + graph.OutputName(i) + "\" is " + output->type.ToString() +
                   ", sizes that are computed from run-time data in a way that fusec does not "
                   "support");
      continue;
    }
    graph.outputs[i] = Dense(output, axis, size, f);
    sizes.push_back(f.Reshape(size, {1}));
    graph.run_time_sizes.push_back({static_cast<int>(i), axis});
  }
  if (sizes.empty()) return;
  Value* vector = f.Concat(sizes, 0);
  vector->name = graph.UniqueName(kSizesName);
  graph.outputs.push_back(vector);
  graph.output_names.push_back(kSizesName);
}

}  // namespace fusec
