// Narrow layers, rows of tables and their interactions: chains that a block program keeps in shared memory, with parts that are stored
// early.
#include <gtest/gtest.h>

#include "compiler/driver/build/pipeline.h"
#include "passes/pass_manager.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

class InteractionGenerator {
 public:
  InteractionGenerator(uint64_t seed, Dtype dtype)
      : random_(seed), dtype_(dtype), graph_(std::make_unique<Graph>()), width_(4 * (1 + random_.Below(4))) {
    graph_->name = fmt::format("interaction_{}", seed);
    graph_->symbols = {{"batch", 0, 9000}};
  }

  std::unique_ptr<Graph> Run() {
    ValueList flat = {Tower(), Input({5 + random_.Below(8)})};
    ValueList lines = {AsLine(flat[0])};
    AddTables(lines);
    if (random_.OneIn(2)) lines.push_back(Input({1 + random_.Below(12), width_}));
    if (random_.OneIn(3)) flat.push_back(Tower()), lines.push_back(AsLine(flat.back()));
    if (random_.OneIn(4)) lines.push_back(lines[0]);
    Shuffle(lines);
    Value* matrix = Joined(lines);
    flat.push_back(Interaction(matrix));
    if (random_.OneIn(4)) flat.push_back(flat[0]);
    if (random_.OneIn(5)) flat.push_back(Reshaped(matrix, {ElementsOf(matrix)}));
    Shuffle(flat);
    Value* out = Joined(flat);
    Return(out);
    if (random_.OneIn(3)) Return(Product(out, 3));
    return std::move(graph_);
  }

 private:
  Value* Make(OpKind kind, ValueList operands, Attributes attributes = {}) {
    return Builder(*graph_).Make(kind, std::move(operands), std::move(attributes));
  }
  void Return(Value* value) {
    graph_->outputs.push_back(value);
    graph_->output_names.push_back(fmt::format("y{}", graph_->outputs.size()));
  }
  static Shape Rows(Shape inner) {
    inner.insert(inner.begin(), Expr::Symbol("batch"));
    return inner;
  }
  Value* Input(ShapeRef inner) { return graph_->AddInput(graph_->UniqueName("x"), {dtype_, Rows(Shape(inner))}); }
  Value* Constant(std::vector<int64_t> dims) {
    TensorData data(dtype_, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random_.Eighths() / 4);
    return Builder(*graph_).Constant(std::move(data));
  }
  static int64_t Extent(const Value* x, size_t axis) { return *x->type.shape[axis].AsConstant(); }
  static int64_t ElementsOf(const Value* x) { return Extent(x, 1) * (x->type.rank() > 2 ? Extent(x, 2) : 1); }
  Value* Reshaped(Value* x, ShapeRef inner) { return Make(OpKind::kReshape, {x}, {{"shape", Rows(Shape(inner))}}); }
  Value* AsLine(Value* x) { return Reshaped(x, {1, width_}); }
  Value* Product(Value* x, int64_t columns) {
    const bool transposed = random_.OneIn(2);
    std::vector<int64_t> dims = {Extent(x, 1), columns};
    if (transposed) std::swap(dims[0], dims[1]);
    return Make(OpKind::kMatMul, {x, Constant(dims)}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{transposed}}});
  }
  void Shuffle(ValueList& values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<size_t>(random_.Below(static_cast<int64_t>(i)))]);
  }

  // Concatenates the parts along axis 1; now and then two parts are concatenated first.
  Value* Joined(ValueList parts) {
    if (parts.size() > 2 && random_.OneIn(3)) {
      Value* first = Make(OpKind::kConcat, {parts[0], parts[1]}, {{"axis", int64_t{1}}});
      if (random_.OneIn(4)) Return(first);
      parts.erase(parts.begin());
      parts[0] = first;
    }
    return Make(OpKind::kConcat, parts, {{"axis", int64_t{1}}});
  }

  // Layers down to `width_` columns.
  Value* Tower() {
    Value* top = Input({4 * (1 + random_.Below(8))});
    for (int64_t layer = random_.Below(3); layer >= 0; --layer) {
      top = Product(top, layer == 0 ? width_ : 6 + random_.Below(20));
      if (random_.OneIn(2)) top = Make(OpKind::kAdd, {top, Constant({Extent(top, 1)})});
      if (random_.OneIn(2)) top = Make(random_.OneIn(2) ? OpKind::kRelu : OpKind::kTanh, {top});
      if (random_.OneIn(6)) Return(top);
    }
    return top;
  }

  // Equal tables with one id each, which one loop looks up, or one table with several ids.
  void AddTables(ValueList& lines) {
    const int64_t count = 1 + random_.Below(8);
    Value* ids = graph_->AddInput(graph_->UniqueName("ids"), {Dtype::kI64, {Expr::Symbol("batch"), count}});
    if (random_.OneIn(3)) {
      lines.push_back(Make(OpKind::kGather, {Constant({9, width_}), ids}, {{"axis", int64_t{0}}}));
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      Value* id = Make(OpKind::kSlice, {ids},
                       {{"starts", Exprs{0, i}}, {"steps", std::vector<int64_t>{1, 1}}, {"shape", Rows({1})}});
      lines.push_back(Make(OpKind::kGather, {Constant({3 + random_.Below(9), width_}), id}, {{"axis", int64_t{0}}}));
    }
  }

  Value* Interaction(Value* lines) {
    const int64_t count = Extent(lines, 1);
    if (random_.OneIn(5)) return Make(OpKind::kReduceSum, {lines}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
    Value* other = random_.OneIn(3) ? Make(OpKind::kTanh, {lines}) : lines;
    Value* dots = Make(OpKind::kMatMul, {lines, other}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
    Value* flat = Reshaped(dots, {count * count});
    if (count < 2 || random_.OneIn(3)) return flat;
    TensorData triangle(Dtype::kI64, {count * (count - 1) / 2});
    for (int64_t line = 1, i = 0; line < count; ++line) {
      for (int64_t column = 0; column < line; ++column) triangle.SetInt(i++, line * count + column);
    }
    return Make(OpKind::kGather, {flat, Builder(*graph_).Constant(std::move(triangle))}, {{"axis", int64_t{1}}});
  }

  Random random_;
  const Dtype dtype_;
  std::unique_ptr<Graph> graph_;
  const int64_t width_;
};

// Tolerances as in tests/codegen/goldens_test.cc. With few rows a block owns one row, and with many it owns several.
void Compare(uint64_t seed, Dtype dtype, const std::string& precision, double relative) {
  const auto graph = InteractionGenerator(seed, dtype).Run();
  const NowTrying trying(seed, *graph);
  ExpectRightAnswers(*graph, GpuOrItsText(), precision, seed, {0, 1, 5, 1027}, relative);
}

TEST(BlockProgramProperty, InteractionsMatch) {
  for (const uint64_t seed : SeedsToRun(10)) {
    Compare(seed, Dtype::kF32, "highest", 1e-5);
    Compare(seed, Dtype::kF32, "high", 4e-3);
    Compare(seed, Dtype::kF16, "highest", 4e-3);
  }
}

// Most of them are few launches.
TEST(BlockProgramProperty, InteractionsAreBlockPrograms) {
  int programs = 0;
  const std::vector<uint64_t> seeds = SeedsToRun(60);
  for (const uint64_t seed : seeds) {
    const auto graph = InteractionGenerator(seed, Dtype::kF32).Run();
    PassManager manager;
    ASSERT_TRUE(manager.Run(*graph, PipelinePasses(TargetKind::kGpu)).has_value());
    programs += std::any_of(graph->nodes.begin(), graph->nodes.end(), [](const auto& node) {
      return node->kind == OpKind::kRegion && RegionClassOf(*node) == RegionClass::kBlockProgram;
    });
  }
  EXPECT_GT(programs, static_cast<int>(seeds.size()) / 2);
}

}  // namespace
}  // namespace fusec
