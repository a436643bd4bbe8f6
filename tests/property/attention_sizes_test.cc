// Attention of fixed sizes as one kernel, where a block has as many warps as the queries need and one tile may hold all keys; lengths of
// keys, and windows. The GPU text runs on the CPU with fibers as threads; with FUSEC_PROPERTY_DEVICE=cuda it runs on a GPU.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <numeric>

#include "compiler/driver/build/pipeline.h"
#include "compiler/ir/region_class.h"
#include "passes/pass_manager.h"
#include "tests/property/attention_graphs.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/random_graph.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

// The whole graph becomes one region of class attention, or, with few queries or keys, possibly a block program.
void ExpectOneKernel(const Graph& graph, const std::string& precision, bool has_few) {
  const auto copy = Parse(Print(graph));
  EXPECT_TRUE(copy.has_value());
  PassManager manager;
  manager.options.matmul_precision = precision;
  EXPECT_TRUE(manager.Run(**copy, PipelinePasses(TargetKind::kGpu)).has_value());
  int regions = 0, attentions = 0;
  for (const auto& node : (*copy)->nodes) {
    if (node->kind != OpKind::kRegion) continue;
    ++regions;
    attentions += RegionClassOf(*node) == RegionClass::kAttention;
  }
  EXPECT_EQ(regions, 1);
  EXPECT_TRUE(attentions == 1 || has_few) << Print(graph);
}

struct Precision {
  const char *dtype, *matmul;
  double tolerance;
};
// TF32 keeps 11 bits of factors.
const Precision kPrecisions[] = {{"f32", "highest", 1e-5}, {"f32", "high", 5e-3}, {"f16", "highest", 4e-3}, {"bf16", "highest", 4e-2}};

struct Fixed {
  HeadRows rows;
  int depth, columns, groups;
  const char* mask;
  Weights weights = Weights::kSoftmax;
};

void ExpectFixedSizes(const std::vector<Fixed>& cases, int64_t batch) {
  for (const Precision& precision : kPrecisions) {
    std::vector<std::unique_ptr<Graph>> graphs;
    std::vector<const Graph*> pointers;
    std::vector<std::vector<ReferenceTensor>> inputs;
    for (const Fixed& each : cases) {
      graphs.push_back(Attention(precision.dtype, each.depth, each.columns, each.groups,
                                 Chain(each.mask, precision.dtype), each.weights, each.rows));
      ASSERT_NE(graphs.back(), nullptr);
      ExpectOneKernel(*graphs.back(), precision.matmul,
                      each.rows.tokens < 16 || each.rows.keys < 26);
      pointers.push_back(graphs.back().get());
      inputs.push_back(RandomInputs(*graphs.back(), inputs.size() + 3, {{"batch", batch}}));
    }
    const auto compiled = CompiledGraphs::Make(pointers, GpuOrItsText(), {}, precision.matmul);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    ExpectAnswers(**compiled, pointers, inputs, precision.tolerance,
                  fmt::format("{} {} batch {}", precision.dtype, precision.matmul, batch));
  }
}

TEST(AttentionSizes, FixedSizesMatch) {
  const std::vector<Fixed> cases = {{{26, 26}, 16, 16, 6, kBias},        {{17, 17}, 24, 64, 2, kPadding},
                                    {{3, 65}, 64, 64, 3, kPadding},      {{65, 17}, 64, 24, 6, kSquashed},
                                    {{200, 200}, 16, 16, 1, kBias},      {{16, 48}, 128, 128, 6, kBias},
                                    {{33, 33}, 64, 64, 3, kSilu, Weights::kMasked},
                                    {{40, 70}, 256, 256, 6, kBias},      {{33, 40}, 24, 192, 6, kSquashed, Weights::kMasked}};
  ExpectFixedSizes(cases, 2);
}

// One or a few queries with many keys: a target and a history, or decoding. They fill only some of the 16 rows of a warp, so that warps
// and blocks divide the keys; some of these have no keys.
TEST(AttentionSizes, FewQueriesMatch) {
  const std::vector<Fixed> cases = {{{1, 120}, 128, 128, 1, kPadding}, {{1, 90}, 64, 64, 2, kSilu, Weights::kMasked},
                                    {{4, 128}, 128, 64, 6, kBias},       {{1, 350}, 64, 32, 3, kBias},
                                    {{1, 259}, 256, 256, 6, kSquashed},  {{20, 170}, 24, 16, 2, kSilu, Weights::kMasked}};
  ExpectFixedSizes(cases, 3);
}

// Keys beyond the length of a member of the batch are ignored; the length may be 0 or the number of keys.
TEST(AttentionSizes, LengthsOfKeysMatch) {
  constexpr int64_t kKeys = 70;
  std::vector<int64_t> places(kKeys);
  std::iota(places.begin(), places.end(), 0);
  const std::string there = fmt::format(
      "%places = constant() [{}] : i64[{}]\n"
      "  %column = reshape(%lengths) {{{{shape = dims[batch, 1, 1, 1]}}}} : i64[batch, 1, 1, 1]\n"
      "  %there = less(%places, %column) : bool[batch, 1, 1, keys]\n",
      fmt::join(places, ", "), kKeys);
  const std::string chosen = there +
      "  %lowest = constant() [-10000.0] : {0}[]\n"
      "  %masked = where(%there, %scaled, %lowest) : {0}[batch, 6, tokens, keys]";
  const std::string multiplied = there +
      "  %share = cast(%there) {{to = {0}}} : {0}[batch, 1, 1, keys]\n"
      "  %gate = sigmoid(%scaled) : {0}[batch, 6, tokens, keys]\n"
      "  %masked = mul(%gate, %share) : {0}[batch, 6, tokens, keys]";
  for (const Precision& precision : kPrecisions) {
    for (const int64_t tokens : {1, 20}) {
      for (const Weights weights : {Weights::kSoftmax, Weights::kMasked}) {
        const std::string& mask = weights == Weights::kSoftmax ? chosen : multiplied;
        const auto graph = Attention(precision.dtype, 64, 64, 3, fmt::format(fmt::runtime(mask), precision.dtype),
                                     weights, {tokens, kKeys});
        ASSERT_NE(graph, nullptr);
        ExpectOneKernel(*graph, precision.matmul, tokens < 16);
        const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText(), {}, precision.matmul);
        ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
        auto inputs = RandomInputs(*graph, 7, {{"batch", 4}});
        inputs[4].ints = {0, 1, 65, kKeys};
        ExpectAnswers(**compiled, {graph.get()}, {inputs}, precision.tolerance,
                      fmt::format("{} {} {}", precision.dtype, precision.matmul, tokens));
      }
    }
  }
}

// A step of a decoder with a static cache: query i of a member of the batch sees the keys up to lengths + i, and so a kernel may leave out
// the rows behind the last query's. A query that sees no key, because its length is negative or all of its keys are masked, weighs all
// keys alike.
TEST(AttentionSizes, StaticCachesMatch) {
  const std::string sees =
      "%places = range() {{start = 0, delta = 1, length = dims[keys], dtype = i64}} : i64[keys]\n"
      "  %count = range() {{start = 0, delta = 1, length = dims[tokens], dtype = i64}} : i64[tokens]\n"
      "  %now = reshape(%count) {{shape = dims[tokens, 1]}} : i64[tokens, 1]\n"
      "  %start = reshape(%lengths) {{shape = dims[batch, 1, 1, 1]}} : i64[batch, 1, 1, 1]\n"
      "  %last = add(%now, %start) : i64[batch, 1, tokens, 1]\n"
      "  %past = less_or_equal(%places, %last) : bool[batch, 1, tokens, keys]\n"
      "  %zero = constant() [0.0] : {0}[]\n"
      "  %lowest = constant() [{1}] : {0}[]\n";
  const std::string added = "  %mask = where({2}, %zero, %lowest) : {0}[batch, 1, tokens, keys]\n"
                            "  %masked = add(%scaled, %mask) : {0}[batch, 6, tokens, keys]";
  // The padding is a mask of its own.
  const std::string twice = "  %mask = where(%past, %zero, %lowest) : {0}[batch, 1, tokens, keys]\n"
                            "  %causal = add(%scaled, %mask) : {0}[batch, 6, tokens, keys]\n"
                            "  %padding = where(%visible, %zero, %lowest) : {0}[batch, 1, 1, keys]\n"
                            "  %masked = add(%causal, %padding) : {0}[batch, 6, tokens, keys]";
  const std::string inside = "  %causal = where(%past, %scaled, %lowest) : {0}[batch, 6, tokens, keys]\n"
                             "  %masked = where(%visible, %causal, %lowest) : {0}[batch, 6, tokens, keys]";
  const std::string chosen = "  %masked = where({2}, %scaled, %lowest) : {0}[batch, 6, tokens, keys]";
  const std::string both = "  %both = and(%past, %visible) : bool[batch, 1, tokens, keys]\n";
  struct Case {
    const char *dtype, *lowest;
    const std::string& use;
    bool has_padding;
    double tolerance;
  };
  for (const Case& each : {Case{"f32", "-3.4028234e38", added, false, 1e-5}, {"f32", "-3.4028234e38", chosen, true, 1e-5},
                           {"f32", "-inf", added, true, 1e-5}, {"f32", "-3.4028234e38", twice, false, 1e-5},
                           {"f32", "-3.4028234e38", inside, false, 1e-5}, {"f16", "-65504.0", chosen, true, 4e-3},
                           {"f16", "-inf", chosen, false, 4e-3}, {"bf16", "-3.3895313e38", added, false, 4e-2}}) {
    const std::string mask = sees + (each.has_padding ? both : "") + each.use;
    const Weights weights = std::string(each.lowest) == "-inf" ? Weights::kGuardedSoftmax : Weights::kSoftmax;
    for (const HeadRows rows : {HeadRows{1, 300}, {20, 300}, {0, 0}}) {
      const auto graph = Attention(each.dtype, 64, 64, 3,
                                   fmt::format(fmt::runtime(mask), each.dtype, each.lowest, each.has_padding ? "%both" : "%past"),
                                   weights, rows);
      ASSERT_NE(graph, nullptr);
      const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText());
      ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
      std::map<std::string, int64_t> sizes = {{"batch", 5}};
      if (rows.keys == 0) sizes.insert({{"tokens", 5}, {"keys", 290}});
      auto inputs = RandomInputs(*graph, 7, sizes);
      inputs[4].ints = {0, 65, 270, -2, -400};
      ExpectAnswers(**compiled, {graph.get()}, {inputs}, each.tolerance,
                    fmt::format("{} {} {} {}", each.dtype, each.lowest, each.has_padding, rows.tokens));
    }
  }
}

// A query sees the keys around it: two diagonals bound a band, so that whole tiles on both sides are skipped.
TEST(AttentionSizes, WindowsMatch) {
  const char* const kBand =
      "%one = constant() [1.0] : {0}[]\n"
      "  %all = expand(%one) {{shape = dims[tokens, keys]}} : {0}[tokens, keys]\n"
      "  %past = trilu(%all) {{k = 0, upper = 0}} : {0}[tokens, keys]\n"
      "  %band = trilu(%past) {{k = -9, upper = 1}} : {0}[tokens, keys]\n"
      "  %zero = constant() [0.0] : {0}[]\n"
      "  %hidden = equal(%band, %zero) : bool[tokens, keys]\n";
  const std::string softmax = std::string(kBand) +
      "  %lowest = constant() [-10000.0] : {0}[]\n"
      "  %masked = where(%hidden, %lowest, %scaled) : {0}[batch, 6, tokens, keys]";
  const std::string plain = std::string(kBand) +
      "  %squashed = tanh(%scaled) : {0}[batch, 6, tokens, keys]\n"
      "  %masked = where(%hidden, %zero, %squashed) : {0}[batch, 6, tokens, keys]";
  const std::vector<Fixed> cases = {{{150, 150}, 64, 64, 6, softmax.c_str()},
                                    {{150, 150}, 32, 64, 3, plain.c_str(), Weights::kMasked}};
  ExpectFixedSizes(cases, 1);
}

}  // namespace
}  // namespace fusec
