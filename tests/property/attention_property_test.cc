// Attention as one kernel, whose GPU text runs on the CPU with fibers as threads; with FUSEC_PROPERTY_DEVICE=cuda it runs on a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/driver/build/pipeline.h"
#include "passes/pass_manager.h"
#include "tests/property/attention_graphs.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/random_graph.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

TEST(AttentionProperty, AnyShapeMatches) {
  for (const auto& [dtype, tolerance] : {std::pair{"f32", 1e-5}, {"f16", 4e-3}, {"bf16", 4e-2}}) {
    std::vector<std::unique_ptr<Graph>> graphs;
    const auto mask = [dtype = dtype](const char* ops) { return fmt::format(fmt::runtime(ops), dtype); };
    graphs.push_back(Attention(dtype, 64, 64, 6, mask(kBias)));
    graphs.push_back(Attention(dtype, 20, 36, 2, mask(kPadding)));
    graphs.push_back(Attention(dtype, 128, 8, 1, mask(kSquashed)));
    std::vector<const Graph*> pointers;
    for (const auto& graph : graphs) {
      ASSERT_NE(graph, nullptr);
      pointers.push_back(graph.get());
    }
    const auto compiled = CompiledGraphs::Make(pointers, GpuOrItsText());
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    struct Sizes {
      int64_t batch, tokens, keys;
    };
    for (const auto& [batch, tokens, keys] :
         {Sizes{0, 3, 4}, {1, 1, 1}, {2, 16, 64}, {1, 64, 63}, {2, 65, 130}}) {
      std::vector<std::vector<ReferenceTensor>> inputs;
      for (size_t i = 0; i < graphs.size(); ++i)
        inputs.push_back(RandomInputs(*graphs[i], 3 * i + 1,
                                      {{"batch", batch}, {"tokens", tokens}, {"keys", keys}}));
      ExpectAnswers(**compiled, pointers, inputs, tolerance,
                    fmt::format("{} batch {} tokens {} keys {}", dtype, batch, tokens, keys));
    }
  }
}

// The same without softmax: silu with relative positions and a multiplied mask, functions that map zero to another number, and a mask by
// selection.
TEST(AttentionProperty, AnyShapeWithoutSoftmaxMatches) {
  for (const auto& [dtype, tolerance] : {std::pair{"f32", 1e-5}, {"f16", 4e-3}, {"bf16", 4e-2}}) {
    std::vector<std::unique_ptr<Graph>> graphs;
    const auto chain = [dtype = dtype](const char* ops) { return fmt::format(fmt::runtime(ops), dtype); };
    graphs.push_back(Attention(dtype, 64, 64, 6, chain(kSilu), Weights::kMasked));
    graphs.push_back(Attention(dtype, 20, 36, 2, chain(kShifted), Weights::kMasked));
    graphs.push_back(Attention(dtype, 128, 8, 1, chain(kHidden), Weights::kMasked));
    graphs.push_back(Attention(dtype, 16, 128, 3, chain(kSquashed), Weights::kMasked));
    std::vector<const Graph*> pointers;
    for (const auto& graph : graphs) {
      ASSERT_NE(graph, nullptr);
      pointers.push_back(graph.get());
    }
    const auto compiled = CompiledGraphs::Make(pointers, GpuOrItsText());
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    struct Sizes {
      int64_t batch, tokens, keys;
    };
    for (const auto& [batch, tokens, keys] :
         {Sizes{0, 3, 4}, {1, 1, 1}, {2, 3, 17}, {1, 17, 65}, {1, 65, 200}}) {
      std::vector<std::vector<ReferenceTensor>> inputs;
      for (size_t i = 0; i < graphs.size(); ++i)
        inputs.push_back(RandomInputs(*graphs[i], 5 * i + 2, {{"batch", batch}, {"tokens", tokens}, {"keys", keys}}));
      const auto found = (*compiled)->Run(inputs);
      ASSERT_TRUE(found.has_value()) << found.error().message;
      for (size_t i = 0; i < graphs.size(); ++i) {
        // The weights of values may be large and have either sign, and are rounded as if they were stored.
        const auto expected = Interpret(*graphs[i], inputs[i]), rounded = InterpretRounded(*graphs[i], inputs[i]);
        ASSERT_TRUE(expected.has_value() && rounded.has_value());
        EXPECT_EQ(FirstWrong(*expected, *rounded, (*found)[i], tolerance), "")
            << dtype << " batch " << batch << " tokens " << tokens << " keys " << keys << " graph " << i;
      }
    }
  }
}

// Without softmax as well, a NaN value times a weight of zero gives NaN, wherever the mask is applied.
TEST(AttentionProperty, InfinitiesAndNaNWithoutSoftmaxMatch) {
  for (const auto& [dtype, tolerance] : {std::pair{"f32", 1e-5}, {"f16", 4e-3}}) {
    const auto graph = Attention(dtype, 64, 64, 3, fmt::format(fmt::runtime(kSilu), dtype), Weights::kMasked);
    ASSERT_NE(graph, nullptr);
    const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText());
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    enum Input { kQ, kK, kV, kBiases };
    for (const Input input : {kQ, kK, kV, kBiases}) {
      auto inputs = RandomInputs(*graph, 7, {{"batch", 1}, {"tokens", 20}, {"keys", 140}});
      std::fill(inputs.back().ints.begin() + 64, inputs.back().ints.end(), 0);  // a whole tile of keys, and more
      std::vector<double>& reals = inputs[input].reals;
      reals[reals.size() - 3] = INFINITY;
      reals[reals.size() / 2] = NAN;
      ExpectAnswers(**compiled, {graph.get()}, {inputs}, tolerance, fmt::format("{} input {}", dtype, int{input}));
    }
  }
}

// Infinities and NaN among queries, keys, values and scores have the effect that softmax and the products give them.
TEST(AttentionProperty, InfinitiesAndNaNMatch) {
  for (const auto& [dtype, tolerance] : {std::pair{"f32", 1e-5}, {"f16", 4e-3}}) {
    const auto graph = Attention(dtype, 64, 64, 3, fmt::format(fmt::runtime(kBias), dtype));
    const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText());
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    enum Input { kQ, kK, kV, kScores };
    for (const Input input : {kQ, kK, kV, kScores}) {
      auto inputs = RandomInputs(*graph, 7, {{"batch", 1}, {"tokens", 20}, {"keys", 70}});
      std::vector<double>& reals = inputs[input].reals;
      reals[5] = INFINITY;
      reals[reals.size() - 3] = -INFINITY;
      reals[reals.size() / 2] = NAN;
      if (input == kScores) std::fill(reals.begin() + 70, reals.begin() + 140, -INFINITY);
      ExpectAnswers(**compiled, {graph.get()}, {inputs}, tolerance, fmt::format("{} input {}", dtype, int{input}));
    }
  }
}

// As torch exports attention: a fully masked row has NaN probabilities, which a guard replaces by zeros. The guard also does so for NaN
// scores, where the values are finite; that of ONNX's Attention leaves them.
TEST(AttentionProperty, GuardedRowsAreZeros) {
  for (const auto& [dtype, tolerance, weights] :
       {std::tuple{"f32", 1e-5, Weights::kGuardedSoftmax}, {"f16", 4e-3, Weights::kGuardedSoftmax},
        {"bf16", 4e-2, Weights::kGuardedSoftmax}, {"f32", 1e-5, Weights::kSoftmaxOfSeen}, {"f16", 4e-3, Weights::kSoftmaxOfSeen}}) {
    const auto graph = Attention(dtype, 64, 64, 2, fmt::format(fmt::runtime(kPadding), dtype), weights);
    ASSERT_NE(graph, nullptr);
    const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText());
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    for (const double odd : {0.5, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
      auto inputs = RandomInputs(*graph, 7, {{"batch", 3}, {"tokens", 20}, {"keys", 70}});
      std::fill(inputs.back().ints.begin(), inputs.back().ints.begin() + 70, 0);  // all keys of the first of the batch
      inputs[0].reals[inputs[0].reals.size() / 2] = odd;                           // a query
      ExpectAnswers(**compiled, {graph.get()}, {inputs}, tolerance, fmt::format("{} {}", dtype, odd));
    }
  }
}

// Queries at the end of the keys see a window of them, causal or not: the first tiles of the keys are hidden from all queries.
TEST(AttentionProperty, WindowsMatch) {
  const char* const kWindow =
      "%number = range() {{start = 0, delta = 1, length = dims[tokens], dtype = i64}} : i64[tokens]\n"
      "  %first = symbolic_dims() {{values = dims[keys - tokens], scalar = 1}} : i64[]\n"
      "  %place = add(%number, %first) : i64[tokens]\n"
      "  %row = reshape(%place) {{shape = dims[tokens, 1]}} : i64[tokens, 1]\n"
      "  %key = range() {{start = 0, delta = 1, length = dims[keys], dtype = i64}} : i64[keys]\n"
      "  %size = constant() [{1}] : i64[]\n"
      "  %least = sub(%row, %size) : i64[tokens, 1]\n"
      "  %inside = less_or_equal(%least, %key) : bool[tokens, keys]\n"
      "  %never = constant() [-inf] : {0}[]\n"
      "  %near = where(%inside, %scaled, %never) : {0}[batch, 6, tokens, keys]\n"
      "  %past = {2}(%row, %key) : bool[tokens, keys]\n"
      "  %masked = where(%past, %near, %never) : {0}[batch, 6, tokens, keys]";
  for (const auto& [dtype, tolerance, window, past] :
       {std::tuple{"f32", 1e-5, 64, "greater_or_equal"}, {"f16", 4e-3, 100, "greater_or_equal"}, {"f32", 1e-5, 0, "greater_or_equal"},
        {"f16", 4e-3, 70, "less"}}) {
    const bool hides_all = std::string(past) == "less";  // keys behind the query alone: the last one sees none
    const auto graph = Attention(dtype, 64, 64, 2, fmt::format(fmt::runtime(kWindow), dtype, window, past),
                                 hides_all ? Weights::kSoftmaxOfSeen : Weights::kSoftmax);
    ASSERT_NE(graph, nullptr);
    const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText());
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    for (const auto& [tokens, keys] : {std::pair{1, 1}, {1, 300}, {3, 700}, {20, 270}, {130, 200}}) {
      const auto inputs = RandomInputs(*graph, 3, {{"batch", 2}, {"tokens", tokens}, {"keys", keys}});
      ExpectAnswers(**compiled, {graph.get()}, {inputs}, tolerance, fmt::format("{} {} of {} keys, {}", dtype, tokens, keys, window));
    }
  }
}

// If a mask hides all keys, all keys have the same weight: their scores are the lowest number of the type, which is not infinity.
TEST(AttentionProperty, RowsWithoutVisibleKeysMatch) {
  const char* const kLowest =
      "%lowest = constant() [{1}] : {0}[]\n"
      "  %masked = where(%visible, %scaled, %lowest) : {0}[batch, 6, tokens, keys]";
  for (const auto& [dtype, lowest, tolerance] :
       {std::tuple{"f32", "-3.4028234e38", 1e-5}, {"f16", "-65504.0", 4e-3}, {"bf16", "-3.3895313e38", 4e-2}}) {
    const auto graph = Attention(dtype, 64, 64, 2, fmt::format(fmt::runtime(kLowest), dtype, lowest));
    ASSERT_NE(graph, nullptr);
    const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText());
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    auto inputs = RandomInputs(*graph, 7, {{"batch", 2}, {"tokens", 3}, {"keys", 70}});
    std::vector<int64_t>& visible = inputs.back().ints;
    std::fill(visible.begin(), visible.begin() + 70, 0);
    visible[80] = 1;
    ExpectAnswers(**compiled, {graph.get()}, {inputs}, tolerance, dtype);
  }
}

// Keys that a causal mask hides are skipped, unless their values or scores are NaN or outweigh the mask, which would affect softmax and the
// product.
TEST(AttentionProperty, HiddenTilesMatch) {
  const std::string hidden =
      "%ones = constant() [1.0] : {0}[]\n"
      "  %all = expand(%ones) {{shape = dims[tokens, keys]}} : {0}[tokens, keys]\n"
      "  %past = trilu(%all) {{k = 0, upper = 0}} : {0}[tokens, keys]\n"
      "  %zero = constant() [0.0] : {0}[]\n"
      "  %hidden = equal(%past, %zero) : bool[tokens, keys]\n"
      "  %lowest = constant() [{1}] : {0}[]\n";
  const std::string chosen = hidden + "  %masked = where(%hidden, %lowest, %scaled) : {0}[batch, 6, tokens, keys]";
  const std::string added = hidden +
      "  %mask = where(%hidden, %lowest, %zero) : {0}[tokens, keys]\n"
      "  %masked = add(%scaled, %mask) : {0}[batch, 6, tokens, keys]";
  struct Case {
    const char* dtype;
    int depth, columns;
    const std::string& mask;
    const char* lowest;
    double tolerance;
  };
  for (const Case& each :
       {Case{"f32", 32, 16, chosen, "-inf", 1e-5}, {"f16", 32, 16, chosen, "-65504.0", 4e-3},
        {"f16", 64, 64, chosen, "-inf", 4e-3}, {"bf16", 64, 64, chosen, "-inf", 4e-2},
        {"f32", 64, 64, added, "-1e30", 1e-5}, {"f16", 64, 64, added, "-65504.0", 4e-3},
        {"bf16", 64, 128, added, "-3.3895313e38", 4e-2}, {"f16", 64, 64, added, "-8.0", 4e-3}}) {
    const auto graph = Attention(each.dtype, each.depth, each.columns, 3,
                                 fmt::format(fmt::runtime(each.mask), each.dtype, each.lowest));
    ASSERT_NE(graph, nullptr);
    const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText());
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    enum Change { kNothing, kInfiniteValue, kNaNKey, kInfiniteKey, kLargeKey, kLargeQueries };
    // A weight that is rounded to zero times an infinite value gives NaN, so that a mask must hide such a value entirely.
    const bool hides = std::string(each.lowest) != "-8.0";
    for (const Change change : {kNothing, kNaNKey, kInfiniteKey, kLargeKey, kLargeQueries, kInfiniteValue}) {
      if (change == kInfiniteValue && !hides) break;
      auto inputs = RandomInputs(*graph, 7, {{"batch", 1}, {"tokens", 70}, {"keys", 200}});
      // Among the last keys, which no query sees.
      if (change == kInfiniteValue) inputs[2].reals[inputs[2].reals.size() - 40] = INFINITY;
      double& key = inputs[1].reals[inputs[1].reals.size() - 40];
      if (change == kNaNKey) key = NAN;
      if (change == kInfiniteKey) key = INFINITY;
      if (change == kLargeKey) key = 200.0;
      if (change == kLargeQueries) {
        for (double& query : inputs[0].reals) query = query < 0.0 ? -8.0 : 8.0;
      }
      ExpectAnswers(**compiled, {graph.get()}, {inputs}, each.tolerance,
                    fmt::format("{} lowest {} change {}", each.dtype, each.lowest, int{change}));
    }
  }
}

// The attention is one region, whose scores are never stored.
TEST(AttentionProperty, IsOneKernel) {
  struct Case {
    const char* mask;
    Weights weights = Weights::kSoftmax;
  };
  for (const auto& [mask, weights] :
       {Case{kBias}, {kPadding}, {kSquashed}, {kSilu}, {kPadding, Weights::kGuardedSoftmax}, {kPadding, Weights::kSoftmaxOfSeen},
        {kSilu, Weights::kMasked}, {kShifted, Weights::kMasked}, {kHidden, Weights::kMasked}, {kSquashed, Weights::kMasked}}) {
    const auto graph = Attention("f32", 64, 64, 2, fmt::format(fmt::runtime(mask), "f32"), weights);
    ASSERT_NE(graph, nullptr);
    PassManager manager;
    ASSERT_TRUE(manager.Run(*graph, PipelinePasses(TargetKind::kGpu)).has_value());
    int regions = 0;
    for (const auto& node : graph->nodes) regions += node->kind == OpKind::kRegion;
    EXPECT_EQ(regions, 1) << mask;
  }
}

}  // namespace
}  // namespace fusec
