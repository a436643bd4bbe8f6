#include "runtime/src/artifact/bind_symbols.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace fusec::runtime {
namespace {

using Dims = std::vector<std::vector<int64_t>>;

Manifest Signature(std::vector<Symbol> symbols,
                   const std::vector<std::pair<std::string, std::vector<std::string>>>& inputs) {
  Manifest manifest;
  manifest.symbols = std::move(symbols);
  for (const auto& [name, shape] : inputs) {
    TensorSignature& input = manifest.inputs.emplace_back();
    input.name = name;
    for (const std::string& dim : shape) {
      input.shape.push_back(*DimExpression::Parse(dim, manifest.SymbolNames()));
    }
  }
  return manifest;
}

std::string ErrorOf(const Manifest& manifest, const Dims& dims) {
  const auto values = BindSymbols(manifest, dims);
  EXPECT_FALSE(values);
  return values ? "" : values.error().message;
}

const std::vector<Symbol> kBatch = {{"batch", 1, 65536}};

TEST(BindSymbolsTest, BindsPlainDimsAndChecksTheRest) {
  const Manifest manifest =
      Signature(kBatch, {{"sparse", {"batch", "26"}}, {"dense", {"batch", "13"}}});
  EXPECT_EQ(*BindSymbols(manifest, {{5, 26}, {5, 13}}), std::vector<int64_t>{5});
  EXPECT_EQ(ErrorOf(manifest, {{5, 26}, {7, 13}}),
            "input \"dense\" dim 0 is 7, but \"batch\" is already 5 (from input \"sparse\")");
  EXPECT_EQ(ErrorOf(manifest, {{5, 26}, {5, 14}}), "input \"dense\" dim 1 is 14, expected 13");
  EXPECT_EQ(ErrorOf(manifest, {{70000, 26}, {5, 13}}),
            "input \"sparse\" dim 0 is 70000, but \"batch\" must be in 1..65536");
  EXPECT_EQ(ErrorOf(manifest, {{-1, 26}, {5, 13}}),
            "input \"sparse\" dim 0 is -1, but \"batch\" must be in 1..65536");
}

TEST(BindSymbolsTest, KnowsWhereAllOutputsAreEmpty) {
  const auto empties = [](int64_t least, const std::vector<std::string>& shape) {
    Manifest manifest = Signature({{"batch", least, 100}, {"items", 1, 9}},
                                  {{"a", {"batch*4", "3"}}, {"b", shape}});
    std::swap(manifest.inputs, manifest.outputs);
    return EmptiesOutputs(manifest, 0);
  };
  EXPECT_TRUE(empties(1, {"items", "batch"}));
  EXPECT_TRUE(empties(1, {"min(batch, items)"}));
  EXPECT_FALSE(empties(1, {"items"}));
  EXPECT_FALSE(empties(1, {"batch + items - 1"}));  // empty for one item alone
  EXPECT_FALSE(empties(2, {"batch"}));              // the model is another one below 2
  EXPECT_FALSE(empties(0, {"batch"}));              // kernels take 0 themselves
}

TEST(BindSymbolsTest, SolvesLinearDims) {
  const Manifest manifest = Signature({{"batch", 1, 100}, {"items", 0, 9}},
                                      {{"a", {"items + 2*batch"}}, {"b", {"3 - -4*batch"}}});
  EXPECT_EQ(*BindSymbols(manifest, {{11}, {23}}), (std::vector<int64_t>{5, 1}));
  EXPECT_EQ(ErrorOf(manifest, {{11}, {24}}),
            "input \"b\" dim 0 is 24, expected 3 - -4*batch for some \"batch\"");
  EXPECT_EQ(ErrorOf(manifest, {{50}, {23}}),
            "input \"a\" dim 0 is 50, which makes \"items\" 40, but \"items\" must be in 0..9");
}

TEST(BindSymbolsTest, ChecksWhatItCannotSolve) {
  const Manifest bound = Signature(kBatch, {{"a", {"batch"}}, {"b", {"floordiv(batch, 4)"}}});
  EXPECT_EQ(*BindSymbols(bound, {{9}, {2}}), std::vector<int64_t>{9});
  EXPECT_EQ(ErrorOf(bound, {{9}, {3}}),
            "input \"b\" dim 0 is 3, expected floordiv(batch, 4) = 2 (batch = 9 from input \"a\")");
  for (const char* dim : {"floordiv(batch, 4)", "mod(batch, 4)", "batch*batch", "min(batch, 3)",
                          "batch - batch", "9223372036854775807*batch"}) {
    EXPECT_EQ(ErrorOf(Signature(kBatch, {{"a", {dim}}}), {{1}}),
              "no input's dims tell the value of \"batch\"") << dim;
  }
  EXPECT_FALSE(BindSymbols(Signature(kBatch, {{"a", {"3 - batch"}}}), {{INT64_MIN}}));
}

TEST(BindSymbolsTest, NamesTheRank) {
  const Manifest manifest = Signature(kBatch, {{"dense", {"batch", "13"}}});
  EXPECT_EQ(CheckRank(manifest.inputs[0], 1).error().message,
            "input \"dense\" has rank 1, expected rank 2 ([batch, 13])");
}

}  // namespace
}  // namespace fusec::runtime
