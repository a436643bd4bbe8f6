// Sums of segments as tf2onnx writes them (compiler/import/segment_pattern.h).
#include "tests/unit/import/import_fixture.h"

namespace fusec {
namespace {

using Numbers = std::vector<double>;

class SegmentPattern : public Import {
 protected:
  // The text of a graph that combines the rows of x by `reduce`; `segments` is a statement that makes the number of segments, and `fill`
  // the rows of no segment.
  static std::string Text(const std::string& reduce, const std::string& segments, const std::string& fill, int place_axis = -1) {
    return "g (float[n, 2] x, int64[n] ids) => (float[segments, 2] y, int64[segments] z)\n"
           "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] last = {-1}, int64 none = {0}, int64 step = {1}, int64[1] axis = {" +
           std::to_string(place_axis) + "}> {\n"
           "  n = Shape(ids)  m = Squeeze(n, zero)\n"
           "  sorted, order = TopK<axis = 0, largest = 0, sorted = 1>(ids, n)\n"
           "  values, first, group, counts = Unique<axis = 0, sorted = 1>(sorted)\n"
           "  longest = ReduceMax<axes = [0], keepdims = 1>(counts)\n" + segments +
           "  places = Range(none, m, step)  own = Gather(counts, group)  at = Mod(places, own)\n"
           "  row = Unsqueeze(sorted, axis)  column = Unsqueeze(at, axis)  place = Concat<axis = 1>(row, column)\n"
           "  shape = Concat<axis = 0>(number, longest)  empty = ConstantOfShape<value = int64[1] {-1}>(shape)\n"
           "  table = ScatterND(empty, place, order)\n"
           "  neutral = Constant<value = float[1, 2] {" + fill + "}>()  padded = Concat<axis = 0>(x, neutral)\n"
           "  rows = Gather(padded, table)  y = " + reduce + "\n"
           "  ones = ConstantOfShape<value = int64[1] {1}>(number)  z = ScatterElements<axis = 0>(ones, values, counts)\n}";
  }
  static constexpr const char* kOpset = "ir_version: 8, opset_import: [\"\": 16]";
  static constexpr const char* kGreatest =
      "  most = ReduceMax<axes = [0], keepdims = 0>(ids)  following = Add(most, step)  number = Unsqueeze(following, zero)\n";
};

TEST_F(SegmentPattern, FoldsRowsOfAFixedNumberOfSegments) {
  const std::string four = "  number = Constant<value = int64[1] {4}>()\n";
  const auto model = Load(Text("ReduceMax<axes = [1], keepdims = 0>(rows)", four, "-9, -9"), {}, kOpset);
  ASSERT_TRUE(model) << ErrorOf(model);
  const auto answers = Interpret(*model->graph, {F32({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), I64({4}, {2, 0, 2, 3})});
  ASSERT_TRUE(answers) << answers.error().message;
  EXPECT_EQ((*answers)[0].reals, (Numbers{3, 4, -9, -9, 5, 6, 7, 8}));
  EXPECT_EQ((*answers)[1].ints, (std::vector<int64_t>{1, 1, 2, 1}));
}

TEST_F(SegmentPattern, MakesAsManySegmentsAsTheGreatestIdNeeds) {
  const auto model = Load(Text("ReduceSum<keepdims = 0>(rows, one)", kGreatest, "0, 0"), {}, kOpset);
  ASSERT_TRUE(model) << ErrorOf(model);
  const auto answers = Interpret(*model->graph, {F32({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), I64({4}, {2, 0, 2, 0})});
  ASSERT_TRUE(answers) << answers.error().message;
  EXPECT_EQ((*answers)[0].reals, (Numbers{10, 12, 0, 0, 6, 8}));
  EXPECT_EQ((*answers)[1].ints, (std::vector<int64_t>{2, 1, 2}));
}

TEST_F(SegmentPattern, AnIdBehindTheRoomFailsTheRun) {
  const auto model = Load(Text("ReduceSum<keepdims = 0>(rows, one)", kGreatest, "0, 0"), {}, kOpset);
  ASSERT_TRUE(model) << ErrorOf(model);
  const auto answers = Interpret(*model->graph, {F32({2, 2}, {1, 2, 3, 4}), I64({2}, {0, 2})});
  ASSERT_FALSE(answers);
  EXPECT_NE(answers.error().message.find("segment_ids"), std::string::npos) << answers.error().message;
}

TEST_F(SegmentPattern, OtherPlacesAreNotTaken) {
  const auto model = Load(Text("ReduceSum<keepdims = 0>(rows, one)", kGreatest, "0, 0", /*place_axis=*/0), {}, kOpset);
  ASSERT_FALSE(model);
}

}  // namespace
}  // namespace fusec
