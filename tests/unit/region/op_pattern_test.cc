#include "compiler/region/op_pattern.h"

#include <gtest/gtest.h>

#include "compiler/ir/graph.h"

namespace fusec {
namespace {

// The ops that the pattern matches, beginning with the last node of a graph, in the pattern's order; "none" without a match.
std::string Found(const std::string& pattern, const std::string& nodes) {
  const std::string head = "graph @g(%x: f32[4, 8], %y: f32[4, 8]) {\n  %c = constant() [2.0] : f32[1]\n";
  auto graph = Parse(head + nodes + "  return %z\n}\n");
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  ValueSet fixed;
  for (const auto& node : (*graph)->nodes) {
    if (node->kind == OpKind::kConstant) fixed.insert(node->result());
  }
  const auto match = OpPattern(pattern).Match(*(*graph)->nodes.back(), fixed);
  if (!match) return "none";
  std::string names;
  for (const Node* node : *match) names += (names.empty() ? "" : " ") + node->result()->name;
  return names;
}

constexpr char kScaled[] = "  %a = mul(%x, %c) : f32[4, 8]\n  %z = add(%y, %a) : f32[4, 8]\n";
constexpr char kSquare[] =
    "  %n = neg(%x) : f32[4, 8]\n  %v = cast(%n) {to = f32} : f32[4, 8]\n  %z = mul(%v, %n) : f32[4, 8]\n";

TEST(OpPattern, OperandsOfCommutativeOpsChangePlaces) {
  EXPECT_EQ(Found("add(mul(_, fixed), _)", kScaled), "z a");
  EXPECT_EQ(Found("add(_, mul(fixed, _))", kScaled), "z a");
  EXPECT_EQ(Found("add(mul(fixed, fixed), _)", kScaled), "none");
  EXPECT_EQ(Found("sub(_, mul(_, _))", "  %a = mul(%x, %c) : f32[4, 8]\n  %z = sub(%a, %y) : f32[4, 8]\n"), "none");
}

TEST(OpPattern, ANameIsOneValueBehindViewsAndCasts) {
  EXPECT_EQ(Found("mul(n: neg(x), n)", kSquare), "z n");
  EXPECT_EQ(Found("mul(n, n)", kSquare), "z");
  EXPECT_EQ(Found("mul(n: neg(x), x)", kSquare), "none");
  EXPECT_EQ(Found("add(v, v)", kScaled), "none");
}

}  // namespace
}  // namespace fusec
