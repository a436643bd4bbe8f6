#include "tests/unit/ops/view_harness.h"

namespace fusec {
namespace {

// The answer of a single node for `data` and `indices`, or the error of importing or running it.
struct Gathered {
  std::string type, error;
  std::vector<double> values;
};
Gathered Gather(const std::string& op, const ReferenceTensor& data, const ReferenceTensor& indices,
                const std::string& attribute, int64_t value) {
  Graph graph;
  ValueList inputs;
  for (const ReferenceTensor* tensor : {&data, &indices}) {
    inputs.push_back(
        graph.AddInput("x", {tensor->dtype, Shape(tensor->dims.begin(), tensor->dims.end())}));
  }
  FakeImport import(graph, op, 13, inputs);
  const Result<void> done = import.With(attribute, value).Run();
  if (!done) return {"", done.error().message, {}};
  graph.outputs = {import.outputs[0]};
  const Result<std::vector<ReferenceTensor>> answer = Interpret(graph, {data, indices});
  if (!answer) return {"", answer.error().message, {}};
  RunOutput(graph, import.outputs[0], {data, indices});  // compares Lower with the reference
  return {import.outputs[0]->type.ToString(), "", Values((*answer)[0])};
}

const ReferenceTensor kTable = Iota(Dtype::kF32, {3, 2});

TEST(Gather, RowsColumnsAndScalars) {
  const Gathered rows = Gather("Gather", kTable, Tensor(Dtype::kI64, {2, 1}, {2, -3}), "axis", 0);
  EXPECT_EQ(rows.type, "f32[2, 1, 2]");
  EXPECT_EQ(rows.values, (std::vector<double>{4, 5, 0, 1}));
  const Gathered columns = Gather("Gather", kTable, Tensor(Dtype::kI32, {}, {1}), "axis", -1);
  EXPECT_EQ(columns.type, "f32[3]");
  EXPECT_EQ(columns.values, (std::vector<double>{1, 3, 5}));
  EXPECT_EQ(Gather("Gather", kTable, Tensor(Dtype::kI64, {0}, {}), "axis", 0).type, "f32[0, 2]");
}

TEST(Gather, ErrorsNameTheIndex) {
  const std::string error =
      Gather("Gather", kTable, Tensor(Dtype::kI64, {2}, {0, 3}), "axis", 0).error;
  EXPECT_NE(error.find("3"), std::string::npos) << error;
  EXPECT_NE(Gather("Gather", ReferenceTensor(Dtype::kF32, {0, 2}), Tensor(Dtype::kI64, {1}, {0}),
                   "axis", 0)
                .error,
            "");
  EXPECT_EQ(Gather("Gather", kTable, Tensor(Dtype::kF32, {1}, {0}), "axis", 0).error,
            "the indices are f32[1], expected integers");
  EXPECT_EQ(Gather("Gather", kTable, Tensor(Dtype::kI64, {1}, {0}), "axis", 2).error,
            "axis is 2, but the rank is 2");
}

TEST(GatherElements, ReplacesOneCoordinate) {
  const Gathered g =
      Gather("GatherElements", kTable, Tensor(Dtype::kI64, {2, 2}, {2, 0, -1, 1}), "axis", 0);
  EXPECT_EQ(g.type, "f32[2, 2]");
  EXPECT_EQ(g.values, (std::vector<double>{4, 1, 4, 3}));
  EXPECT_NE(
      Gather("GatherElements", kTable, Tensor(Dtype::kI64, {1, 3}, {0, 0, 0}), "axis", 0).error,
      "");
  EXPECT_NE(Gather("GatherElements", kTable, Tensor(Dtype::kI64, {1, 1}, {5}), "axis", 0).error,
            "");
}

TEST(GatherND, TuplesWithAndWithoutBatchDims) {
  const ReferenceTensor data = Iota(Dtype::kI32, {2, 2, 2});
  const Gathered points =
      Gather("GatherND", data, Tensor(Dtype::kI64, {2, 2}, {0, 1, 1, -2}), "batch_dims", 0);
  EXPECT_EQ(points.type, "i32[2, 2]");
  EXPECT_EQ(points.values, (std::vector<double>{2, 3, 4, 5}));
  const Gathered batched =
      Gather("GatherND", data, Tensor(Dtype::kI64, {2, 1}, {1, 0}), "batch_dims", 1);
  EXPECT_EQ(batched.values, (std::vector<double>{2, 3, 4, 5}));
  EXPECT_NE(
      Gather("GatherND", data, Tensor(Dtype::kI64, {1, 4}, {0, 0, 0, 0}), "batch_dims", 0).error,
      "");
  EXPECT_NE(Gather("GatherND", data, Tensor(Dtype::kI64, {1, 1}, {-3}), "batch_dims", 0).error, "");
}

}  // namespace
}  // namespace fusec
