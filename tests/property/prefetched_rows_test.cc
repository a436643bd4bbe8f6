// Look-ups in tables that are so large that kernels of the CPU prefetch their rows (compiler/kernel/prefetch_rows.h): of one id, side by
// side, in bags, of codes with scales, by hashed ids, and by ids that are looked up themselves; and ids that are out of range.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"

namespace fusec {
namespace {

constexpr int64_t kRows = 70000, kColumns = 32;

class PrefetchedRows : public testing::Test {
 protected:
  PrefetchedRows() {
    graph_.name = "rows";
    graph_.symbols = {{"batch", 0, 9000}};
  }

  Value* Table(Dtype dtype, int64_t columns) {
    TensorData data(dtype, {kRows, columns});
    for (int64_t i = 0; i < data.element_count(); ++i)
      data.SetDouble(i, IsFloat(dtype) ? random_.Eighths() : static_cast<double>(random_.Below(256)));
    return builder_.Constant(std::move(data));
  }
  Value* Ids(const std::string& name, int64_t columns) { return graph_.AddInput(name, {Dtype::kI64, {Expr::Symbol("batch"), columns}}); }
  Value* Rows(Value* table, Value* ids) { return builder_.Make(OpKind::kGather, {table, ids}, {{"axis", int64_t{0}}}); }
  Value* Sum(Value* rows) {
    return builder_.Make(OpKind::kReduceSum, {rows}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
  }
  void Return(std::vector<Value*> outputs) {
    for (Value* output : outputs) {
      graph_.output_names.push_back("y" + std::to_string(graph_.outputs.size()));
      graph_.outputs.push_back(output);
    }
  }
  void ExpectRight() { ExpectRightAnswers(graph_, RunOn::kCpu, "highest", /*seed=*/1, {0, 1, 2, 31, 32, 33, 700}, 1e-5); }

  Graph graph_;
  Builder builder_{graph_};
  Random random_{1};
};

TEST_F(PrefetchedRows, OfOneId) {
  Return({Rows(Table(Dtype::kF32, kColumns), Ids("ids", 3)), Rows(Table(Dtype::kF16, kColumns), Ids("other_ids", 1))});
  ExpectRight();
}

TEST_F(PrefetchedRows, SideBySide) {
  const Expr batch = Expr::Symbol("batch");
  const auto flat = [&](Value* x, Shape shape) { return builder_.Make(OpKind::kReshape, {x}, {{"shape", std::move(shape)}}); };
  Value* rows = Rows(Table(Dtype::kF32, kColumns), Ids("ids", 6));
  Value* in_two = builder_.Make(OpKind::kRelu, {flat(rows, {batch, 2, 3 * kColumns})});
  Return({flat(rows, {batch, 6 * kColumns}), in_two, flat(rows, {batch * 3, 2 * kColumns})});
  ExpectRight();
}

TEST_F(PrefetchedRows, OfBags) {
  Value* sum = Sum(Rows(Table(Dtype::kF32, kColumns), Ids("ids", 5)));
  Return({sum, builder_.Make(OpKind::kRelu, {Sum(Rows(Table(Dtype::kF32, 128), Ids("many_ids", 40)))})});
  ExpectRight();
}

TEST_F(PrefetchedRows, OfCodes) {
  Value* ids = Ids("ids", 7);
  Value* codes = builder_.Make(OpKind::kCast, {Rows(Table(Dtype::kU8, kColumns), ids)}, {{"to", Dtype::kF32}});
  Value* scales = Rows(Table(Dtype::kF32, 1), ids);
  Return({Sum(builder_.Make(OpKind::kMul, {codes, scales}))});
  ExpectRight();
}

TEST_F(PrefetchedRows, OfHashedIds) {
  Value* rows = builder_.Scalar(Dtype::kI64, static_cast<double>(kRows));
  Value* hashed = builder_.Make(OpKind::kMod, {Ids("ids", 3), rows}, {{"fmod", int64_t{0}}});
  Return({Rows(Table(Dtype::kF32, kColumns), hashed)});
  ExpectRight();
}

TEST_F(PrefetchedRows, OfIdsOfSeveralTensors) {
  graph_.symbols.push_back({"others", 1, 4096});
  const Expr others = Expr::Symbol("others");
  Value* other_ids = graph_.AddInput("other_ids", {Dtype::kI64, {others, 2}});
  Value* ids = builder_.Make(OpKind::kConcat, {Ids("ids", 2), other_ids}, {{"axis", int64_t{0}}});
  Return({Rows(Table(Dtype::kF32, kColumns), ids)});
  const auto compiled = CompiledGraphs::Make({&graph_});
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  for (const int64_t count : {1, 3, 40, 700}) {
    auto inputs = RandomInputs(graph_, /*seed=*/1, {{"batch", count}, {"others", 50}});
    for (ReferenceTensor& of_tensor : inputs) {
      for (int64_t& id : of_tensor.ints) id %= kRows;
    }
    ExpectAnswers(**compiled, {&graph_}, {inputs}, 1e-5, std::to_string(count));
  }
}

TEST_F(PrefetchedRows, OfBagsOfVariableLength) {
  graph_.symbols.push_back({"n", 1, 1 << 20});
  Value* ids = graph_.AddInput("ids", {Dtype::kI64, {Expr::Symbol("n")}});
  Value* begins = graph_.AddInput("begins", {Dtype::kI64, {Expr::Symbol("batch")}});
  Return({builder_.Make(OpKind::kSegmentReduce, {Rows(Table(Dtype::kF32, kColumns), ids), begins},
                        {{"mode", std::string("sum")}, {"zero_if_empty", int64_t{0}}})});
  const auto compiled = CompiledGraphs::Make({&graph_});
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  for (const int64_t bags : {1, 7, 300}) {
    for (const int64_t length : {1, 15, 16, 17, 40}) {
      auto inputs = RandomInputs(graph_, /*seed=*/1, {{"batch", bags}, {"n", bags * length}});
      for (int64_t i = 0, at = 0; i < bags; ++i, at += random_.Below(2 * length)) inputs[1].ints[i] = std::min(at, bags * length);
      ExpectAnswers(**compiled, {&graph_}, {inputs}, 1e-5, std::to_string(bags) + " bags of about " + std::to_string(length));
    }
  }
}

TEST_F(PrefetchedRows, ByIdsThatAreLookedUp) {
  TensorData places(Dtype::kI64, {kRows});
  for (int64_t i = 0; i < kRows; ++i) places.SetInt(i, random_.Below(kRows));
  Return({Rows(Table(Dtype::kF32, kColumns), Rows(builder_.Constant(std::move(places)), Ids("ids", 2)))});
  ExpectRight();
}

TEST_F(PrefetchedRows, OfIdsOutOfRangeAreNotRead) {
  Return({Rows(Table(Dtype::kF32, kColumns), Ids("ids", 1))});
  const auto compiled = CompiledGraphs::Make({&graph_});
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  for (const int64_t bad : {kRows, -kRows - 1, INT64_MAX, INT64_MIN}) {
    auto inputs = RandomInputs(graph_, /*seed=*/1, {{"batch", 100}});
    inputs[0].ints[99] = bad;
    const auto found = (*compiled)->Run(std::vector{inputs});
    ASSERT_FALSE(found.has_value());
    EXPECT_NE(found.error().message.find(std::to_string(bad)), std::string::npos) << found.error().message;
  }
}

}  // namespace
}  // namespace fusec
