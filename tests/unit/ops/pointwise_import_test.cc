#include <gtest/gtest.h>

#include "tests/unit/ops/view_harness.h"

namespace fusec {
namespace {

class PointwiseImportTest : public testing::Test {
 protected:
  Value* Input(const std::string& name, Dtype dtype) {
    return graph_.AddInput(name, {dtype, {Sym("batch"), 3}});
  }
  Graph graph_;
};

TEST_F(PointwiseImportTest, DefaultsAreFilledIn) {
  FakeImport import(graph_, "HardSigmoid", 22, {Input("x", Dtype::kF32)});
  ASSERT_TRUE(import.Run());
  EXPECT_EQ(import.outputs[0]->producer->Float("alpha"), 0.2f);
  EXPECT_EQ(import.outputs[0]->producer->Float("beta"), 0.5);
}

TEST_F(PointwiseImportTest, CastToTheSameDtypeIsNoNode) {
  Value* x = Input("x", Dtype::kF32);
  FakeImport cast(graph_, "Cast", 21, {x});
  ASSERT_TRUE(cast.With("to", Dtype::kF32).Run());
  EXPECT_EQ(cast.outputs[0], x);
  FakeImport like(graph_, "CastLike", 21, {x, Input("y", Dtype::kBF16)});
  ASSERT_TRUE(like.Run());
  EXPECT_EQ(like.outputs[0]->type, (TensorType{Dtype::kBF16, {Sym("batch"), 3}}));
  EXPECT_EQ(like.outputs[0]->producer->operands.size(), 1u);
}

TEST_F(PointwiseImportTest, ExtremumOfOneIsTheOperand) {
  Value* x = Input("x", Dtype::kI32);
  for (const char* op : {"Max", "Min", "Clip"}) {
    FakeImport import(graph_, op, 13, {x});
    ASSERT_TRUE(import.Run());
    EXPECT_EQ(import.outputs[0], x) << op;
  }
}

TEST_F(PointwiseImportTest, ClipTakesBoundsAsInputsOrAttributes) {
  Value* x = Input("x", Dtype::kF32);
  FakeImport inputs(graph_, "Clip", 13, {x, nullptr, Builder(graph_).Scalar(Dtype::kF32, 6)});
  ASSERT_TRUE(inputs.Run());
  EXPECT_EQ(inputs.outputs[0]->producer->operand(1), nullptr);
  FakeImport attributes(graph_, "Clip", 6, {x});
  ASSERT_TRUE(attributes.With("min", -1.5).Run());
  const Node& clip = *attributes.outputs[0]->producer;
  EXPECT_EQ(clip.operands.size(), 2u);
  EXPECT_EQ(clip.operand(1)->producer->constant.GetDouble(0), -1.5);
}

TEST_F(PointwiseImportTest, UnknownChoicesAreNamed) {
  Value* x = Input("x", Dtype::kF32);
  FakeImport gelu(graph_, "Gelu", 20, {x});
  EXPECT_EQ(gelu.With("approximate", std::string("erf")).Run().error().message,
            "approximate is \"erf\", expected \"none\" or \"tanh\"");
  Value* bits = Input("bits", Dtype::kU8);
  FakeImport shift(graph_, "BitShift", 11, {bits, bits});
  EXPECT_EQ(shift.Run().error().message, "direction is \"\", expected \"LEFT\" or \"RIGHT\"");
}

}  // namespace
}  // namespace fusec
