#include "tests/property/attention_graphs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

namespace fusec {

std::unique_ptr<Graph> Attention(const std::string& dtype, int depth, int columns, int groups, const std::string& mask,
                                 Weights weights, HeadRows rows) {
  const std::string softmax = fmt::format(
      "  %most = reduce_max(%masked) {{axes = [3], keepdims = 1}} : {0}[batch, 6, tokens, 1]\n"
      "  %difference = sub(%masked, %most) : {0}[batch, 6, tokens, keys]\n"
      "  %e = exp(%difference) : {0}[batch, 6, tokens, keys]\n"
      "  %sum = reduce_sum(%e) {{axes = [3], keepdims = 1}} : {0}[batch, 6, tokens, 1]\n"
      "  %p = div(%e, %sum) : {0}[batch, 6, tokens, keys]\n",
      dtype);
  const std::string guarded = fmt::format(
      "  %none = constant() [0.0] : {0}[]\n"
      "  %lost = is_nan(%p) : bool[batch, 6, tokens, keys]\n"
      "  %kept = where(%lost, %none, %p) : {0}[batch, 6, tokens, keys]\n",
      dtype);
  const std::string of_seen = fmt::format(
      "  %none = constant() [0.0] : {0}[]\n"
      "  %no_score = constant() [-inf] : {0}[]\n"
      "  %hidden = equal(%most, %no_score) : bool[batch, 6, tokens, 1]\n"
      "  %kept = where(%hidden, %none, %p) : {0}[batch, 6, tokens, keys]\n",
      dtype);
  const bool is_guarded = weights == Weights::kGuardedSoftmax || weights == Weights::kSoftmaxOfSeen;
  std::string text = fmt::format(
      "graph @g(%q: {0}[batch, tokens, 6, {1}], %k: {0}[batch, keys, {3}, {1}], %v: {0}[batch, keys, {3}, {2}], "
      "%bias: {0}[tokens, keys], %lengths: i64[batch], %visible: bool[batch, 1, 1, keys]) "
      "symbols(batch in 0..8, tokens in 1..1000, keys in 1..1000) {{\n"
      "  %rows = transpose(%q) {{perm = [0, 2, 1, 3]}} : {0}[batch, 6, tokens, {1}]\n"
      "  %k1 = reshape(%k) {{shape = dims[batch, keys, {3}, 1, {1}]}} : {0}[batch, keys, {3}, 1, {1}]\n"
      "  %k2 = expand(%k1) {{shape = dims[batch, keys, {3}, {4}, {1}]}} : {0}[batch, keys, {3}, {4}, {1}]\n"
      "  %k3 = reshape(%k2) {{shape = dims[batch, keys, 6, {1}]}} : {0}[batch, keys, 6, {1}]\n"
      "  %columns = transpose(%k3) {{perm = [0, 2, 3, 1]}} : {0}[batch, 6, {1}, keys]\n"
      "  %v1 = reshape(%v) {{shape = dims[batch, keys, {3}, 1, {2}]}} : {0}[batch, keys, {3}, 1, {2}]\n"
      "  %v2 = expand(%v1) {{shape = dims[batch, keys, {3}, {4}, {2}]}} : {0}[batch, keys, {3}, {4}, {2}]\n"
      "  %v3 = reshape(%v2) {{shape = dims[batch, keys, 6, {2}]}} : {0}[batch, keys, 6, {2}]\n"
      "  %values = transpose(%v3) {{perm = [0, 2, 1, 3]}} : {0}[batch, 6, keys, {2}]\n"
      "  %s = matmul(%rows, %columns) {{transpose_a = 0, transpose_b = 0}} : {0}[batch, 6, tokens, keys]\n"
      "  %scale = constant() [0.25] : {0}[]\n"
      "  %scaled = mul(%s, %scale) : {0}[batch, 6, tokens, keys]\n"
      "  {5}\n"
      "{7}"
      "  %y = matmul(%{8}, %values) {{transpose_a = 0, transpose_b = 0}} : {0}[batch, 6, tokens, {2}]\n"
      "  %turned = transpose(%y) {{perm = [0, 2, 1, 3]}} : {0}[batch, tokens, 6, {2}]\n"
      "  %joined = reshape(%turned) {{shape = dims[batch, tokens, {6}]}} : {0}[batch, tokens, {6}]\n"
      "  return %joined \"joined\"\n"
      "}}\n",
      dtype, depth, columns, groups, 6 / groups, mask, 6 * columns,
      (weights == Weights::kMasked ? "" : softmax) +
          (weights == Weights::kGuardedSoftmax ? guarded : weights == Weights::kSoftmaxOfSeen ? of_seen : ""),
      weights == Weights::kSoftmax ? "p" : is_guarded ? "kept" : "masked");
  const auto fix = [&](const std::string& symbol, int64_t extent) {
    if (extent == 0) return;
    text = std::regex_replace(text, std::regex(", " + symbol + " in 1..1000"), "");
    text = std::regex_replace(text, std::regex("\\b" + symbol + "\\b"), std::to_string(extent));
  };
  fix("tokens", rows.tokens);
  fix("keys", rows.keys);
  auto graph = Parse(text);
  EXPECT_TRUE(graph.has_value()) << graph.error().message << "\n" << text;
  return graph ? *std::move(graph) : nullptr;
}

std::string Chain(const char* ops, const std::string& dtype) { return fmt::format(fmt::runtime(ops), dtype); }

}  // namespace fusec
