#include "compiler/plan/kernel_name.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

namespace fusec {
namespace {

// "a", or "a, b" where there is something in front.
void Append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ", ") + item;
}

// A region of `nodes` whose result is that of the last node. Its operands are given as "name: type;name: type"; names of constants begin
// with "w".
std::unique_ptr<Graph> GraphOf(const std::string& operands, const std::string& nodes) {
  std::string inputs, constants, names, parameters;
  std::istringstream list(operands);
  for (std::string operand; std::getline(list, operand, ';');) {
    const size_t colon = operand.find(':');
    const std::string name = operand.substr(0, colon), type = operand.substr(colon + 1);
    Append(names, "%" + name);
    Append(parameters, "%" + operand);
    if (name.starts_with("w"))
      constants += fmt::format("  %{} = constant() payload \"{}\" :{}\n", name, name, type);
    else
      Append(inputs, fmt::format("%{} \"{}\":{}", name, name, type));
  }
  const std::string last = nodes.substr(nodes.rfind('\n', nodes.size() - 1) + 1);
  const std::string result = last.substr(0, last.find(' ')),
                    type = last.substr(last.rfind(" : ") + 3);
  auto graph = Parse(fmt::format(
      "graph @g({}) symbols(b in 1..64) {{\n{}  {} = region({}) {{class = \"pointwise\"}} : {} {{\n"
      "graph @r({}) {{\n{}\nreturn {}\n}}\n}}\nreturn {} \"y\"\n}}\n",
      inputs, constants, result, names, type, parameters, nodes, result, result));
  EXPECT_TRUE(graph.has_value()) << graph.error().message << "\n" << nodes;
  return graph ? std::move(*graph) : nullptr;
}

struct Case {
  const char* words;
  const char* operands;
  const char* nodes;
};

constexpr Case kCases[] = {
    // A name has at most three ops by their own names, functions before arithmetic.
    {"add_relu", "x: f32[b, 8];w: f32[8]",
     "%s = add(%x, %w) : f32[b, 8]\n"
     "%y = relu(%s) : f32[b, 8]"},
    {"sub_mul_gelu", "x: f32[b, 8];z: f32[b, 8]",
     "%s = sub(%x, %z) : f32[b, 8]\n"
     "%m = mul(%s, %z) : f32[b, 8]\n"
     "%d = div(%m, %z) : f32[b, 8]\n"
     "%y = gelu(%d) {approximate = \"none\"} : f32[b, 8]"},
    {"cast", "x: f32[b, 8]",
     "%r = reshape(%x) {shape = dims[8*b]} : f32[8*b]\n"
     "%y = cast(%r) {to = f16} : f16[8*b]"},
    {"transpose", "x: f32[b, 8]", "%y = transpose(%x) {perm = [1, 0]} : f32[8, b]"},
    // Ops on ids and masks are named only if there is nothing else.
    {"embedding", "ids: i64[b];w: i64[];w_rows: f32[9, 8]",
     "%s = add(%ids, %w) : i64[b]\n"
     "%y = gather(%w_rows, %s) {axis = 0} : f32[b, 8]"},
    {"mod_embedding", "ids: i64[b];w: i64[];w_rows: f32[9, 8]",
     "%s = mod(%ids, %w) {fmod = 0} : i64[b]\n"
     "%y = gather(%w_rows, %s) {axis = 0} : f32[b, 8]"},
    {"gather", "ids: i64[b];rows: f32[9, 8]", "%y = gather(%rows, %ids) {axis = 0} : f32[b, 8]"},
    {"embedding_bag", "ids: i64[b, 3];share: f32[b, 3, 1];count: f32[b, 3];w_rows: f32[9, 8]",
     "%rows = gather(%w_rows, %ids) {axis = 0} : f32[b, 3, 8]\n"
     "%parts = mul(%rows, %share) : f32[b, 3, 8]\n"
     "%sum = reduce_sum(%parts) {axes = [1], keepdims = 0} : f32[b, 8]\n"
     "%n = reduce_sum(%count) {axes = [1], keepdims = 1} : f32[b, 1]\n"
     "%y = div(%sum, %n) : f32[b, 8]"},
    // A dot product of two rows is no bag.
    {"embedding_mul_reduce_sum", "ids: i64[b];x: f32[b, 8];w_rows: f32[9, 8]",
     "%row = gather(%w_rows, %ids) {axis = 0} : f32[b, 8]\n"
     "%m = mul(%row, %x) : f32[b, 8]\n"
     "%y = reduce_sum(%m) {axes = [1], keepdims = 0} : f32[b]"},
    // Layers: weights are constants, beside a product of two tensors.
    {"matmul_add", "x: f32[b, 8];z: f32[8, 4];w: f32[4]",
     "%p = matmul(%x, %z) {transpose_a = 0, transpose_b = 0} : f32[b, 4]\n"
     "%y = add(%p, %w) : f32[b, 4]"},
    {"linear_add_relu", "x: f32[b, 8];z: f32[b, 4];w: f32[8, 4];w_bias: f32[4]",
     "%p = matmul(%x, %w) {transpose_a = 0, transpose_b = 0} : f32[b, 4]\n"
     "%s = add(%w_bias, %p) : f32[b, 4]\n"
     "%t = add(%z, %s) : f32[b, 4]\n"
     "%y = relu(%t) : f32[b, 4]"},
    {"linear_sigmoid", "x: f32[b, 8];w: f32[8];w_bias: f32[1]",
     "%m = mul(%x, %w) : f32[b, 8]\n"
     "%p = reduce_sum(%m) {axes = [1], keepdims = 1} : f32[b, 1]\n"
     "%s = add(%p, %w_bias) : f32[b, 1]\n"
     "%y = sigmoid(%s) : f32[b, 1]"},
    {"mlp_tanh", "x: f32[b, 8];w: f32[8, 8];w_last: f32[8]",
     "%gate = matmul(%x, %w) {transpose_a = 0, transpose_b = 0} : f32[b, 8]\n"
     "%up = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : f32[b, 8]\n"
     "%open = sigmoid(%gate) : f32[b, 8]\n"
     "%let = mul(%up, %open) : f32[b, 8]\n"
     "%m = mul(%let, %w_last) : f32[b, 8]\n"
     "%s = reduce_sum(%m) {axes = [1], keepdims = 0} : f32[b]\n"
     "%y = tanh(%s) : f32[b]"},
    // Two layers without an activation are an adapter, not a network.
    {"linear", "x: f32[b, 8];w_a: f32[8, 2];w_b: f32[2, 8]",
     "%a = matmul(%x, %w_a) {transpose_a = 0, transpose_b = 0} : f32[b, 2]\n"
     "%y = matmul(%a, %w_b) {transpose_a = 0, transpose_b = 0} : f32[b, 8]"},
    {"softmax", "x: f32[b, 8]",
     "%m = reduce_max(%x) {axes = [1], keepdims = 1} : f32[b, 1]\n"
     "%d = sub(%x, %m) : f32[b, 8]\n"
     "%e = exp(%d) : f32[b, 8]\n"
     "%s = reduce_sum(%e) {axes = [1], keepdims = 1} : f32[b, 1]\n"
     "%y = div(%e, %s) : f32[b, 8]"},
    {"log_softmax", "x: f32[b, 8]",
     "%m = reduce_max(%x) {axes = [1], keepdims = 1} : f32[b, 1]\n"
     "%d = sub(%x, %m) : f32[b, 8]\n"
     "%e = exp(%d) : f32[b, 8]\n"
     "%s = reduce_sum(%e) {axes = [1], keepdims = 1} : f32[b, 1]\n"
     "%l = log(%s) : f32[b, 1]\n"
     "%y = sub(%d, %l) : f32[b, 8]"},
    {"add_layer_norm_linear",
     "x: f32[b, 8];z: f32[b, 8];w_epsilon: f32[];w_scale: f32[8];w: f32[8, 4]",
     "%a = add(%x, %z) : f32[b, 8]\n"
     "%m = reduce_mean(%a) {axes = [1], keepdims = 1} : f32[b, 1]\n"
     "%d = sub(%a, %m) : f32[b, 8]\n"
     "%q = mul(%d, %d) : f32[b, 8]\n"
     "%v = reduce_mean(%q) {axes = [1], keepdims = 1} : f32[b, 1]\n"
     "%e = add(%v, %w_epsilon) : f32[b, 1]\n"
     "%r = sqrt(%e) : f32[b, 1]\n"
     "%n = div(%d, %r) : f32[b, 8]\n"
     "%s = mul(%n, %w_scale) : f32[b, 8]\n"
     "%y = matmul(%s, %w) {transpose_a = 0, transpose_b = 0} : f32[b, 4]"},
    {"rms_norm", "x: f16[b, 8];w_epsilon: f32[];w_one: f32[]",
     "%c = cast(%x) {to = f32} : f32[b, 8]\n"
     "%q = mul(%c, %c) : f32[b, 8]\n"
     "%v = reduce_mean(%q) {axes = [1], keepdims = 1} : f32[b, 1]\n"
     "%e = add(%v, %w_epsilon) : f32[b, 1]\n"
     "%r = sqrt(%e) : f32[b, 1]\n"
     "%i = div(%w_one, %r) : f32[b, 1]\n"
     "%n = mul(%c, %i) : f32[b, 8]\n"
     "%y = cast(%n) {to = f16} : f16[b, 8]"},
    // Its scale and its mask belong to attention.
    {"attention",
     "q: f32[b, 4, 8];k: f32[b, 4, 8];v: f32[b, 4, 8];mask: bool[b, 4];w: f32[];w_low: f32[]",
     "%h = where(%mask, %w, %w_low) : f32[b, 4]\n"
     "%hide = reshape(%h) {shape = dims[b, 1, 4]} : f32[b, 1, 4]\n"
     "%z = mul(%q, %w) : f32[b, 4, 8]\n"
     "%p = matmul(%z, %k) {transpose_a = 0, transpose_b = 1} : f32[b, 4, 4]\n"
     "%a = add(%p, %hide) : f32[b, 4, 4]\n"
     "%m = reduce_max(%a) {axes = [2], keepdims = 1} : f32[b, 4, 1]\n"
     "%d = sub(%a, %m) : f32[b, 4, 4]\n"
     "%e = exp(%d) : f32[b, 4, 4]\n"
     "%s = reduce_sum(%e) {axes = [2], keepdims = 1} : f32[b, 4, 1]\n"
     "%n = div(%e, %s) : f32[b, 4, 4]\n"
     "%y = matmul(%n, %v) {transpose_a = 0, transpose_b = 0} : f32[b, 4, 8]"},
    {"rotary_embedding", "x: f32[b, 8];cosine: f32[b, 8];sine: f32[b, 8]",
     "%high = slice(%x) {shape = dims[b, 4], starts = dims[0, 4], steps = [1, 1]} : f32[b, 4]\n"
     "%low = slice(%x) {shape = dims[b, 4], starts = dims[0, 0], steps = [1, 1]} : f32[b, 4]\n"
     "%n = neg(%high) : f32[b, 4]\n"
     "%turned = concat(%n, %low) {axis = 1} : f32[b, 8]\n"
     "%c = mul(%x, %cosine) : f32[b, 8]\n"
     "%s = mul(%turned, %sine) : f32[b, 8]\n"
     "%y = add(%c, %s) : f32[b, 8]"},
    {"rotary_embedding", "x: f32[b, 4];z: f32[b, 4];cosine: f32[b, 4];sine: f32[b, 4]",
     "%xc = mul(%x, %cosine) : f32[b, 4]\n"
     "%zs = mul(%z, %sine) : f32[b, 4]\n"
     "%first = sub(%xc, %zs) : f32[b, 4]\n"
     "%xs = mul(%x, %sine) : f32[b, 4]\n"
     "%zc = mul(%z, %cosine) : f32[b, 4]\n"
     "%second = add(%xs, %zc) : f32[b, 4]\n"
     "%y = concat(%first, %second) {axis = 1} : f32[b, 8]"},
    {"concat_interaction", "x: f32[b, 8];z: f32[b, 8];w_pairs: i64[3]",
     "%c = concat(%x, %z) {axis = 1} : f32[b, 16]\n"
     "%r = reshape(%c) {shape = dims[b, 4, 4]} : f32[b, 4, 4]\n"
     "%t = reshape(%c) {shape = dims[b, 4, 4]} : f32[b, 4, 4]\n"
     "%p = matmul(%r, %t) {transpose_a = 0, transpose_b = 1} : f32[b, 4, 4]\n"
     "%f = reshape(%p) {shape = dims[b, 16]} : f32[b, 16]\n"
     "%y = gather(%f, %w_pairs) {axis = 1} : f32[b, 3]"},
    {"interaction", "x: f32[b, 8]",
     "%r = reshape(%x) {shape = dims[b, 8, 1]} : f32[b, 8, 1]\n"
     "%t = reshape(%x) {shape = dims[b, 1, 8]} : f32[b, 1, 8]\n"
     "%y = mul(%r, %t) : f32[b, 8, 8]"},
    {"mul", "x: f32[b, 8]", "%y = mul(%x, %x) : f32[b, 8]"},
    // A fourth word, and one that would make more than 40 characters, are left out.
    {"thresholded_relu_hard_sigmoid_elu", "x: f32[b, 8]",
     "%t = thresholded_relu(%x) {alpha = 1} : f32[b, 8]\n"
     "%h = hard_sigmoid(%t) {alpha = 0.2, beta = 0.5} : f32[b, 8]\n"
     "%l = leaky_relu(%h) {alpha = 0.1} : f32[b, 8]\n"
     "%e = elu(%l) {alpha = 1} : f32[b, 8]\n"
     "%y = exp(%e) : f32[b, 8]"},
};

TEST(KernelName, SaysWhatTheRegionDoes) {
  for (const Case& wanted : kCases) {
    const auto graph = GraphOf(wanted.operands, wanted.nodes);
    ASSERT_NE(graph, nullptr);
    EXPECT_EQ(RegionName(*graph->nodes.back(), 7), std::string("k07_") + wanted.words);
  }
}

}  // namespace
}  // namespace fusec
