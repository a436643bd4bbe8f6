#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/reference/reference_context.h"
#include "tests/unit/ops/text_recorder.h"

namespace fusec {
namespace {

struct Operand {
  Operand(Dtype dtype, std::vector<int64_t> dims, ArrayRef<double> values) {
    tensor = ReferenceTensor(dtype, std::move(dims));
    for (size_t i = 0; i < tensor.reals.size(); ++i) tensor.reals[i] = values[i];
    for (size_t i = 0; i < tensor.ints.size(); ++i) tensor.ints[i] = static_cast<int64_t>(values[i]);
  }
  ReferenceTensor tensor;
};

Result<Node*> Add(Graph& graph, OpKind kind, ArrayRef<TensorType> types,
                  const Attributes& attributes = {}) {
  ValueList operands;
  for (const TensorType& type : types) {
    operands.push_back(graph.AddInput("x" + std::to_string(operands.size()), type));
  }
  return Builder(graph).Add(kind, operands, attributes);
}

std::string InferError(OpKind kind, ArrayRef<TensorType> types,
                       const Attributes& attributes = {}) {
  Graph graph;
  const Result<Node*> node = Add(graph, kind, types, attributes);
  return node ? "no error" : node.error().message;
}

// The result of the op's Reference.
ReferenceTensor Evaluate(OpKind kind, ArrayRef<Operand> operands,
                    const Attributes& attributes = {}) {
  Graph graph;
  std::vector<TensorType> types;
  std::vector<const ReferenceTensor*> tensors;
  for (const Operand& operand : operands) {
    types.push_back({operand.tensor.dtype,
                     Shape(operand.tensor.dims.begin(), operand.tensor.dims.end())});
    tensors.push_back(&operand.tensor);
  }
  Node* node = *Add(graph, kind, types, attributes);
  const TensorType& type = node->result()->type;
  std::vector<ReferenceTensor> results = {ReferenceTensor(type.dtype, *StaticShape(type.shape))};
  ReferenceContext context(*node, tensors, results, {});
  EXPECT_TRUE(GetOpDef(kind).functions.reference(context));
  return results[0];
}

constexpr double kInfinity = HUGE_VAL;
const double kNaN = std::nan("");
using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

TEST(PointwiseInferTest, BroadcastsSymbols) {
  Graph graph;
  const Expr batch = Expr::Symbol("batch");
  Node* node = *Add(graph, OpKind::kLess, {{Dtype::kF16, {batch, 1}}, {Dtype::kF16, {3}}});
  EXPECT_EQ(node->result()->type, (TensorType{Dtype::kBool, {batch, 3}}));
}

TEST(PointwiseInferTest, NamesBothDtypes) {
  EXPECT_NE(InferError(OpKind::kAdd, {{Dtype::kF32, {}}, {Dtype::kI64, {}}})
                .find("operand 0 is f32, but operand 1 is i64, expected the same dtype"),
            std::string::npos);
  EXPECT_NE(InferError(OpKind::kExp, {{Dtype::kI64, {}}})
                .find("operand 0 is i64, expected one of f32, f16, bf16, f64"),
            std::string::npos);
  EXPECT_NE(InferError(OpKind::kWhere, {{Dtype::kI8, {}}, {Dtype::kI8, {}}, {Dtype::kI8, {}}})
                .find("operand 0 is i8, expected one of bool"),
            std::string::npos);
}

TEST(PointwiseInferTest, PReluNeverBroadcastsX) {
  EXPECT_NE(InferError(OpKind::kPRelu, {{Dtype::kF32, {1}}, {Dtype::kF32, {3}}})
                .find("slope f32[3] does not broadcast to f32[1]"),
            std::string::npos);
}

TEST(PointwiseInferTest, ClipBoundsAreSingle) {
  EXPECT_NE(InferError(OpKind::kClip, {{Dtype::kF32, {3}}, {Dtype::kF32, {3}}})
                .find("bound is f32[3], expected one element"),
            std::string::npos);
}

TEST(PointwiseInferTest, MissingAttributesAreErrors) {
  EXPECT_NE(InferError(OpKind::kElu, {{Dtype::kF32, {}}}), "no error");
  EXPECT_NE(InferError(OpKind::kGelu, {{Dtype::kF32, {}}}), "no error");
  EXPECT_NE(InferError(OpKind::kIsInf, {{Dtype::kF32, {}}}), "no error");
}

TEST(PointwiseReferenceTest, BroadcastsBothWays) {
  const ReferenceTensor sum = Evaluate(OpKind::kAdd, {{Dtype::kF32, {2, 1}, {10, 20}},
                                                 {Dtype::kF32, {3}, {1, 2, 3}}});
  EXPECT_EQ(sum.dims, (Ints{2, 3}));
  EXPECT_EQ(sum.reals, (Reals{11, 12, 13, 21, 22, 23}));
}

TEST(PointwiseReferenceTest, EmptyAndScalar) {
  EXPECT_EQ(Evaluate(OpKind::kMul, {{Dtype::kF32, {0, 3}, {}}, {Dtype::kF32, {1}, {2}}}).element_count(),
            0);
  EXPECT_EQ(Evaluate(OpKind::kNeg, {{Dtype::kF32, {}, {2}}}).reals, (Reals{-2}));
}

TEST(PointwiseReferenceTest, IntegersWrapToTheirWidth) {
  EXPECT_EQ(Evaluate(OpKind::kAdd, {{Dtype::kI8, {1}, {127}}, {Dtype::kI8, {1}, {1}}}).ints, (Ints{-128}));
  EXPECT_EQ(Evaluate(OpKind::kSub, {{Dtype::kU8, {1}, {0}}, {Dtype::kU8, {1}, {1}}}).ints, (Ints{255}));
  EXPECT_EQ(Evaluate(OpKind::kBitwiseNot, {{Dtype::kU16, {1}, {1}}}).ints, (Ints{65534}));
}

TEST(PointwiseReferenceTest, IntegerDivisionNeverTraps) {
  const double lowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(Evaluate(OpKind::kDiv, {{Dtype::kI64, {4}, {-7, 7, 5, lowest}},
                               {Dtype::kI64, {4}, {2, -2, 0, -1}}})
                .ints,
            (Ints{-3, -3, 0, std::numeric_limits<int64_t>::min()}));
}

TEST(PointwiseReferenceTest, ModTakesTheSignThatFmodSays) {
  const std::vector<Operand> operands = {{Dtype::kI32, {5}, {-7, 7, -7, 6, 5}},
                                         {Dtype::kI32, {5}, {3, -3, -3, 3, 0}}};
  EXPECT_EQ(Evaluate(OpKind::kMod, operands, {{"fmod", int64_t{0}}}).ints, (Ints{2, -2, -1, 0, 0}));
  EXPECT_EQ(Evaluate(OpKind::kMod, operands, {{"fmod", int64_t{1}}}).ints, (Ints{-1, 1, -1, 0, 0}));
}

TEST(PointwiseReferenceTest, NaNPassesThrough) {
  for (const OpKind kind : {OpKind::kRelu, OpKind::kSign, OpKind::kClip, OpKind::kHardSwish}) {
    EXPECT_TRUE(std::isnan(Evaluate(kind, {{Dtype::kF32, {}, {kNaN}}}).reals[0])) << GetOpDef(kind).text;
  }
  for (const OpKind kind : {OpKind::kMax, OpKind::kMin}) {
    const ReferenceTensor result = Evaluate(kind, {{Dtype::kF32, {3}, {kNaN, 1, 1}},
                                              {Dtype::kF32, {3}, {1, kNaN, 2}},
                                              {Dtype::kF32, {3}, {0, 0, 0}}});
    EXPECT_TRUE(std::isnan(result.reals[0]) && std::isnan(result.reals[1])) << GetOpDef(kind).text;
    EXPECT_EQ(result.reals[2], kind == OpKind::kMax ? 2 : 0);
  }
}

TEST(PointwiseReferenceTest, RoundGoesToEven) {
  EXPECT_EQ(Evaluate(OpKind::kRound, {{Dtype::kF32, {4}, {0.5, 1.5, 2.5, -0.5}}}).reals,
            (Reals{0, 2, 2, -0.0}));
}

TEST(PointwiseReferenceTest, ClipLetsHighWin) {
  const Operand x(Dtype::kI32, {3}, {-5, 0, 5});
  EXPECT_EQ(Evaluate(OpKind::kClip, {x, {Dtype::kI32, {}, {-1}}, {Dtype::kI32, {1}, {1}}}).ints,
            (Ints{-1, 0, 1}));
  EXPECT_EQ(Evaluate(OpKind::kClip, {x, {Dtype::kI32, {}, {3}}, {Dtype::kI32, {}, {2}}}).ints,
            (Ints{2, 2, 2}));
}

TEST(PointwiseReferenceTest, PowKeepsTheBasesDtype) {
  EXPECT_EQ(Evaluate(OpKind::kPow, {{Dtype::kI32, {3}, {2, -2, 2}}, {Dtype::kF32, {3}, {0.5, 3, 40}}}).ints,
            (Ints{1, -8, std::numeric_limits<int32_t>::max()}));
  EXPECT_EQ(Evaluate(OpKind::kPow, {{Dtype::kI64, {3}, {3, -1, 2}}, {Dtype::kI64, {3}, {4, -3, -1}}}).ints,
            (Ints{81, -1, 0}));
}

TEST(PointwiseReferenceTest, CastRoundsTruncatesAndWraps) {
  auto cast = [](const Operand& x, Dtype to) { return Evaluate(OpKind::kCast, {x}, {{"to", to}}); };
  EXPECT_EQ(cast({Dtype::kF32, {4}, {-1.9, 300, kNaN, kInfinity}}, Dtype::kU8).ints,
            (Ints{255, 44, 0, 255}));
  EXPECT_EQ(cast({Dtype::kF32, {2}, {1e10, -kInfinity}}, Dtype::kI32).ints,
            (Ints{2147483647, -2147483648}));
  EXPECT_EQ(cast({Dtype::kF32, {3}, {kNaN, -0.0, 0.1}}, Dtype::kBool).ints, (Ints{1, 0, 1}));
  EXPECT_EQ(cast({Dtype::kF32, {3}, {2049, 70000, 1e-9}}, Dtype::kF16).reals,
            (Reals{2048, kInfinity, 0}));
  EXPECT_EQ(cast({Dtype::kF32, {1}, {257}}, Dtype::kBF16).reals, (Reals{256}));
  EXPECT_EQ(cast({Dtype::kI64, {1}, {16777217}}, Dtype::kF32).reals, (Reals{16777216}));
}

std::vector<std::string> Lowered(OpKind kind, Dtype dtype, const Attributes& attributes = {},
                                 std::optional<double> constant = std::nullopt) {
  Graph graph;
  Builder builder(graph);
  ValueList operands = {graph.AddInput("x", {dtype, {3}})};
  if (constant) operands.push_back(builder.Scalar(dtype, *constant));
  return TextRecorder(**builder.Add(kind, operands, attributes)).statements;
}

TEST(PointwiseLowerTest, TextReadsWell) {
  using Text = std::vector<std::string>;
  EXPECT_EQ(Lowered(OpKind::kAdd, Dtype::kF16, {}, -1), (Text{"const float v0 = x0 + (-1.0f);"}));
  EXPECT_EQ(Lowered(OpKind::kMod, Dtype::kI64, {{"fmod", int64_t{0}}}, 1000),
            (Text{"const long long v0 = FloorMod<long long>(x0, 1000LL);"}));
  EXPECT_EQ(Lowered(OpKind::kElu, Dtype::kF64, {{"alpha", 0.5}}),
            (Text{"const double v0 = x0 < 0.0 ? 0.5 * expm1(x0) : x0;"}));
  EXPECT_EQ(Lowered(OpKind::kPow, Dtype::kF32, {}, 2), (Text{"const float v0 = x0 * x0;"}));
  EXPECT_EQ(Lowered(OpKind::kPow, Dtype::kF32, {}, 2.5), (Text{"const float v0 = powf(x0, 2.5f);"}));
  EXPECT_EQ(Lowered(OpKind::kAbs, Dtype::kU8), Text{});
}

}  // namespace
}  // namespace fusec
