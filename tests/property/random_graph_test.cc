#include "tests/property/random_graph.h"

#include <gtest/gtest.h>

namespace fusec {
namespace {

// Random graphs are valid, survive their text form, and mean the same afterwards.
TEST(RandomGraph, TextKeepsMeaning) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const auto graph = RandomGraph(seed);
    const std::string text = Print(*graph);
    SCOPED_TRACE(text);
    std::map<std::string, TensorData> payloads;
    for (const auto& node : graph->nodes) payloads[node->constant_hash] = node->constant;
    const auto read = Parse(text, [&](const std::string& hash) {
      return std::optional<TensorData>(payloads.at(hash));
    });
    ASSERT_TRUE(read.has_value()) << read.error().message;
    ASSERT_EQ(Print(**read), text);
    ASSERT_TRUE(Verify(**read).has_value());
    ASSERT_EQ(Print(*RandomGraph(seed)), text);

    for (const int64_t batch : {1, 5}) {
      const auto inputs = RandomInputs(*graph, seed, {{"batch", batch}});
      const auto expected = Interpret(*graph, inputs);
      ASSERT_TRUE(expected.has_value()) << expected.error().message;
      const auto found = Interpret(**read, inputs);
      ASSERT_TRUE(found.has_value()) << found.error().message;
      EXPECT_EQ(FirstDifference(*expected, *found, 0), "");
    }
  }
}

TEST(FirstDifference, KnowsNaNAndInfinity) {
  ReferenceTensor a(Dtype::kF32, {3});
  a.reals = {std::numeric_limits<double>::quiet_NaN(),
             std::numeric_limits<double>::infinity(), 1.0};
  ReferenceTensor b = a;
  EXPECT_EQ(FirstDifference({a}, {b}), "");
  b.reals[2] = 1.1;
  EXPECT_EQ(FirstDifference({a}, {b}), "result 0 at 2 is 1.1, expected 1");
  b.reals[1] = -b.reals[1];
  EXPECT_EQ(FirstDifference({a}, {b}), "result 0 at 1 is -inf, expected inf");
  b.dims = {1, 3};
  EXPECT_EQ(FirstDifference({a}, {b}), "result 0 is f32[1, 3], expected f32[3]");
}

}  // namespace
}  // namespace fusec
