#include "tests/unit/ops/run_graph.h"

namespace fusec {
namespace {

std::string Text(const std::string& a, const std::string& b, const std::string& y, int transpose_a,
                 int transpose_b) {
  return "graph @g(%a: " + a + ", %b: " + b + ")" + SymbolsOf(a + b) +
         " { %y = matmul(%a, %b) {transpose_a = " + std::to_string(transpose_a) +
         ", transpose_b = " + std::to_string(transpose_b) + "} : " + y + " return %y }";
}

TEST(MatMul, Transposes) {
  const ReferenceTensor a = Reals({2, 3}, {1, 2, 3, 4, 5, 6});
  const ReferenceTensor at = Reals({3, 2}, {1, 4, 2, 5, 3, 6});
  const ReferenceTensor b = Reals({3, 2}, {7, 8, 9, 10, 11, 12});
  const ReferenceTensor bt = Reals({2, 3}, {7, 9, 11, 8, 10, 12});
  const std::vector<double> expected = {58, 64, 139, 154};
  EXPECT_EQ(RunText(Text("f32[n, 3]", "f32[3, 2]", "f32[n, 2]", 0, 0), {a, b})[0].reals, expected);
  EXPECT_EQ(RunText(Text("f32[3, n]", "f32[3, 2]", "f32[n, 2]", 1, 0), {at, b})[0].reals, expected);
  EXPECT_EQ(RunText(Text("f32[n, 3]", "f32[2, 3]", "f32[n, 2]", 0, 1), {a, bt})[0].reals, expected);
  EXPECT_EQ(RunText(Text("f32[3, n]", "f32[2, 3]", "f32[n, 2]", 1, 1), {at, bt})[0].reals,
            expected);
}

TEST(MatMul, BroadcastsBatches) {
  const ReferenceTensor a = Reals({2, 1, 1, 2}, {1, 2, 3, 4});
  const ReferenceTensor b = Reals({3, 2, 1}, {1, 0, 0, 1, 1, 1});
  EXPECT_EQ(
      RunText(Text("f32[2, 1, 1, 2]", "f32[3, 2, 1]", "f32[2, 3, 1, 1]", 0, 0), {a, b})[0].reals,
      (std::vector<double>{1, 2, 3, 3, 4, 7}));
}

TEST(MatMul, EmptyAndInteger) {
  EXPECT_EQ(RunText(Text("f32[2, n]", "f32[n, 2]", "f32[2, 2]", 0, 0),
                    {Reals({2, 0}, {}), Reals({0, 2}, {})})[0]
                .reals,
            (std::vector<double>{0, 0, 0, 0}));
  const ReferenceTensor bytes = Integers({1, 2}, {100, 100}, Dtype::kU8);
  EXPECT_EQ(RunText(Text("u8[1, 2]", "u8[1, 2]", "u8[1, 1]", 0, 1), {bytes, bytes})[0].ints[0],
            20000 % 256);
}

TEST(MatMul, Errors) {
  EXPECT_NE(ErrorOfText(Text("f32[2, 3]", "f32[n, 2]", "f32[2, 2]", 0, 0))
                .find("the left factor has 3 columns, the right n rows"),
            std::string::npos);
  EXPECT_NE(ErrorOfText(Text("f32[3]", "f32[3, 2]", "f32[2]", 0, 0))
                .find("factors have rank 1 and 2, expected 2 or more"),
            std::string::npos);
  EXPECT_NE(ErrorOfText(Text("f32[1, 1]", "f16[1, 1]", "f32[1, 1]", 0, 0))
                .find("factors are f32 and f16"),
            std::string::npos);
}

TEST(Gemm, AddsAndScales) {
  const ReferenceTensor a = Reals({3, 2}, {1, 4, 2, 5, 3, 6});
  const ReferenceTensor b = Reals({2, 3}, {7, 9, 11, 8, 10, 12});
  const std::string head =
      "graph @g(%a: f32[3, n], %b: f32[2, 3], %c: f32[2]) symbols(n in 0..9) { ";
  EXPECT_EQ(RunBothWays(head + "%y = gemm(%a, %b, %c) {alpha = 0.5, beta = 2.0, transpose_a = 1, "
                               "transpose_b = 1} : f32[n, 2] return %y }",
                        {a, b, Reals({2}, {1, -1})})[0]
                .reals,
            (std::vector<double>{31, 30, 71.5, 75}));
  EXPECT_EQ(RunBothWays(head + "%y = gemm(%a, %b) {alpha = 1.0, beta = 2.0, transpose_a = 1, "
                               "transpose_b = 1} : f32[n, 2] return %y }",
                        {a, b, Reals({2}, {1, -1})})[0]
                .reals,
            (std::vector<double>{58, 64, 139, 154}));
}

TEST(Gemm, PlainIsOneMatMulAndOneAdd) {
  const auto graph = ParseGraph(R"(graph @g(%a: f32[4, 3], %b: f32[3, 2], %c: f32[1, 2]) {
    %y = gemm(%a, %b, %c) {alpha = 1.0, beta = 1.0, transpose_a = 0, transpose_b = 0} : f32[4, 2]
    return %y })");
  DecomposeAll(*graph);
  ASSERT_EQ(graph->nodes.size(), 2u);
  EXPECT_EQ(graph->nodes[0]->kind, OpKind::kMatMul);
  EXPECT_EQ(graph->nodes[1]->kind, OpKind::kAdd);
}

TEST(Gemm, Errors) {
  EXPECT_NE(ErrorOfText(R"(graph @g(%a: f32[4, 3], %b: f32[3, 2], %c: f32[3]) {
    %y = gemm(%a, %b, %c) {alpha = 1.0, beta = 1.0, transpose_a = 0, transpose_b = 0} : f32[4, 2]
    return %y })")
                .find("the addend is f32[3], expected one that broadcasts to f32[4, 2]"),
            std::string::npos);
}

}  // namespace
}  // namespace fusec
