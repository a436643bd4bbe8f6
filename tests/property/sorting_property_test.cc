// Sorts, scans, scatters and searches for the best element, along lines of every length for which kernels have separate code.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/property/compiled_graphs.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

void ExpectRight(const std::string& text, RunOn where, ArrayRef<int64_t> batches, double relative = 0) {
  const auto graph = Parse(text);
  ASSERT_TRUE(graph.has_value()) << text << graph.error().message;
  ExpectRightAnswers(**graph, where, "highest", text.size(), batches, relative);
}

// The shape [batch, length] or [length, batch], whose `axis` has that length.
std::string Dims(int axis, int64_t length) {
  return axis == 1 ? fmt::format("[batch, {}]", length) : fmt::format("[{}, batch]", length);
}

// Elements are rounded to few values, so that many are equal.
std::string TopK(const std::string& dtype, int axis, int64_t length, int64_t k, bool largest) {
  const bool is_float = dtype[0] == 'f' || dtype[0] == 'b';
  const std::string x = dtype + Dims(axis, length), best = Dims(axis, k);
  std::string text = fmt::format("graph @g(%x: {}) symbols(batch in 0..64) {{\n", x);
  if (is_float) text += fmt::format("  %r = round(%x) : {}\n", x);
  return text + fmt::format("  %v, %i = top_k(%{}) {{axis = {}, k = dims[{}], largest = {}, sorted = 1}} : {}{}, i64{}\n"
                            "  return %v, %i\n}}\n", is_float ? "r" : "x", axis, k, largest ? 1 : 0, dtype, best, best);
}

TEST(Sorting, TakesTheBestOfLinesOfAnyLength) {
  for (const RunOn where : {RunOn::kCpu, GpuOrItsText()}) {
    for (const auto& [length, k] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {8, 2}, {64, 8}, {100, 100}, {513, 1}, {2048, 40}, {2049, 2049}, {4096, 4096}, {5000, 7}, {5000, 4500},
             {20000, 600}}) {
      ExpectRight(TopK("f32", 1, length, k, true), where, {1, 3});
    }
    for (const char* dtype : {"f16", "bf16", "f64", "i64", "i32", "u8"}) {
      ExpectRight(TopK(dtype, 1, 70, 9, false), where, {1, 5});
      ExpectRight(TopK(dtype, 0, 2500, 300, true), where, {2});
    }
  }
}

TEST(Sorting, TakesAllOfALineOfAnyLength) {
  const std::string text =
      "graph @g(%x: i64[batch]) symbols(batch in 0..100000) {\n"
      "  %v, %i = top_k(%x) {axis = 0, k = dims[batch], largest = 0, sorted = 1} : i64[batch], i64[batch]\n  return %v, %i\n}\n";
  for (const RunOn where : {RunOn::kCpu, GpuOrItsText()}) ExpectRight(text, where, {0, 1, 4096, 4097, 9000, 40000});
}

// As many as there are elements, and fewer.
TEST(Sorting, ScattersToPlacesOfASortAreRight) {
  for (const int k : {9, 200}) {
    ExpectRight(fmt::format("graph @g(%x: f32[batch, 200], %u: f32[batch, {0}]) symbols(batch in 0..64) {{\n"
                            "  %v, %i = top_k(%x) {{axis = 1, k = dims[{0}], largest = 1, sorted = 1}} : f32[batch, {0}], i64[batch, {0}]\n"
                            "  %y = scatter_elements(%x, %i, %u) {{axis = 1, reduction = \"none\"}} : f32[batch, 200]\n  return %y\n}}\n",
                            k),
                GpuOrItsText(), {1, 7});
  }
}

TEST(Sorting, RunningFoldsOfAnyLengthAreRight) {
  for (const int64_t length : {5, 33, 100, 512, 513, 1500}) {
    for (const int axis : {0, 1}) {
      const std::string shape = Dims(axis, length);
      ExpectRight(fmt::format("graph @g(%x: f32{0}, %n: i64{0}) symbols(batch in 0..64) {{\n"
                              "  %a = cumsum(%x) {{axis = {1}, exclusive = 0, reverse = 1}} : f32{0}\n"
                              "  %b = cumsum(%n) {{axis = {1}, exclusive = 1, reverse = 0}} : i64{0}\n"
                              "  %c = cumprod(%x) {{axis = {1}, exclusive = 0, reverse = 0}} : f32{0}\n  return %a, %b, %c\n}}\n",
                              shape, axis),
                  GpuOrItsText(), {1, 5}, 1e-5);
    }
  }
}

TEST(Sorting, FindsTheFirstAndTheLastOfTheBest) {
  for (const int64_t length : {3, 40, 600, 3000}) {
    for (const int axis : {0, 1}) {
      const std::string shape = "f32" + Dims(axis, length);
      std::string text = fmt::format("graph @g(%x: {0}) symbols(batch in 0..64) {{\n  %r = round(%x) : {0}\n", shape);
      for (const int last : {0, 1}) {
        for (const char* op : {"max", "min"}) {
          text += fmt::format("  %{0}{1} = arg_{0}(%r) {{axes = [{2}], keepdims = 0, select_last_index = {1}}} : i64[batch]\n", op, last,
                              axis);
        }
      }
      ExpectRight(text + "  return %max0, %min0, %max1, %min1\n}\n", GpuOrItsText(), {1, 6});
    }
  }
}

TEST(Sorting, ScattersAreRight) {
  for (const char* how : {"none", "add", "max", "min"}) {
    for (const char* dtype : {"f32", "i64"}) {
      if (dtype[0] == 'i' && how[0] == 'm') continue;
      // Slices by one coordinate and by two; lines with places of their own, along the last axis.
      ExpectRight(fmt::format("graph @g(%a: {0}[90, 6], %i: i64[batch, 1], %u: {0}[batch, 6], %b: {0}[9, 5, 7], "
                              "%j: i64[3, batch, 2], %v: {0}[3, batch, 7], %c: {0}[4, 70], %k: i64[4, batch], %w: {0}[4, batch]) "
                              "symbols(batch in 1..200) {{\n"
                              "  %x = scatter_nd(%a, %i, %u) {{reduction = \"{1}\"}} : {0}[90, 6]\n"
                              "  %y = scatter_nd(%b, %j, %v) {{reduction = \"{1}\"}} : {0}[9, 5, 7]\n"
                              "  %z = scatter_elements(%c, %k, %w) {{axis = 1, reduction = \"{1}\"}} : {0}[4, 70]\n"
                              "  return %x, %y, %z\n}}\n",
                              dtype, how),
                  GpuOrItsText(), {1, 40, 150}, 1e-5);
      // The same places for all columns; and one number at all places.
      ExpectRight(fmt::format("graph @g(%a: {0}[80, 6], %i: i64[batch, 1], %u: {0}[batch, 6], %one: {0}[1]) symbols(batch in 1..3000) {{\n"
                              "  %all = expand(%i) {{shape = dims[batch, 6]}} : i64[batch, 6]\n"
                              "  %x = scatter_elements(%a, %all, %u) {{axis = 0, reduction = \"{1}\"}} : {0}[80, 6]\n"
                              "  %two = constant() [{2}] : {0}[]\n"
                              "  %twos = expand(%two) {{shape = dims[batch, 6]}} : {0}[batch, 6]\n"
                              "  %y = scatter_nd(%a, %i, %twos) {{reduction = \"{1}\"}} : {0}[80, 6]\n  return %x, %y\n}}\n",
                              dtype, how, dtype[0] == 'f' ? "2.0" : "2"),
                  GpuOrItsText(), {1, 2100}, 1e-5);
    }
  }
}

// Threads of a CPU take several lines that are side by side: 16, 4 and 1 of them. The lines have the same places, or places of their own.
TEST(Sorting, ScattersOfLinesSideBySideAreRight) {
  for (const char* how : {"none", "add", "max"}) {
    for (const int columns : {48, 20, 7}) {
      ExpectRight(fmt::format("graph @g(%a: f32[60, {0}], %i: i64[batch, 1], %u: f32[batch, {0}], %k: i64[batch, {0}], "
                              "%b: f32[3, 60, {0}], %l: i64[3, batch, {0}], %v: f32[3, batch, {0}]) symbols(batch in 1..3000) {{\n"
                              "  %all = expand(%i) {{shape = dims[batch, {0}]}} : i64[batch, {0}]\n"
                              "  %x = scatter_elements(%a, %all, %u) {{axis = 0, reduction = \"{1}\"}} : f32[60, {0}]\n"
                              "  %y = scatter_nd(%a, %i, %u) {{reduction = \"{1}\"}} : f32[60, {0}]\n"
                              "  %z = scatter_elements(%a, %k, %u) {{axis = 0, reduction = \"{1}\"}} : f32[60, {0}]\n"
                              "  %w = scatter_elements(%b, %l, %v) {{axis = 1, reduction = \"{1}\"}} : f32[3, 60, {0}]\n"
                              "  return %x, %y, %z, %w\n}}\n",
                              columns, how),
                  RunOn::kCpu, {1, 500}, 1e-5);
    }
  }
}

// Sums at places that are in no order, with as many updates as blocks find themselves and with more, whose places are sorted: of rows of
// one element, of rows that a block takes 24 of, and of more elements than a block has threads; with what else is computed from the rows.
TEST(Sorting, SumsOfFewUpdatesAndOfManyAreRight) {
  for (const int columns : {1, 84, 128, 2100}) {
    for (const char* how : {"add", "max"}) {
      ExpectRight(fmt::format("graph @g(%t: f32[70, {0}], %s: i64[batch], %i: i64[batch, 1], %a: f32[60, {0}]) "
                              "symbols(batch in 0..20000) {{\n"
                              "  %u = gather(%t, %s) {{axis = 0}} : f32[batch, {0}]\n"
                              "  %x = scatter_nd(%a, %i, %u) {{reduction = \"{1}\"}} : f32[60, {0}]\n"
                              "  %y = relu(%x) : f32[60, {0}]\n  return %x, %y\n}}\n",
                              columns, how),
                  GpuOrItsText(), {0, 1, 33, 700, columns == 128 ? 9000 : 40}, 1e-4);
    }
  }
  // Means of many places; and two sums over the same places, which are fewer at once.
  ExpectRight(
      "graph @g(%i: i64[batch, 1], %u: f32[batch, 3, 6], %b: f32[4000, 5], %v: f32[batch, 5]) symbols(batch in 0..9000) {\n"
      "  %zeros = constant() [0.0] : f32[]\n  %z = expand(%zeros) {shape = dims[4000, 3, 6]} : f32[4000, 3, 6]\n"
      "  %one = constant() [1.0] : f32[]\n  %ones = expand(%one) {shape = dims[batch, 3, 6]} : f32[batch, 3, 6]\n"
      "  %x = scatter_nd(%z, %i, %u) {reduction = \"add\"} : f32[4000, 3, 6]\n"
      "  %n = scatter_nd(%z, %i, %ones) {reduction = \"add\"} : f32[4000, 3, 6]\n"
      "  %m = max(%n, %one) : f32[4000, 3, 6]\n  %mean = div(%x, %m) : f32[4000, 3, 6]\n"
      "  %y = scatter_nd(%b, %i, %v) {reduction = \"min\"} : f32[4000, 5]\n  return %mean, %y\n}\n",
      GpuOrItsText(), {0, 1, 300, 4500}, 1e-4);
}

// Two sums over the same places, of rows that are looked up. So many places are sorted by their digits, and what both look up is put into
// their order once.
TEST(Sorting, SumsOfLookedUpRowsAtManyPlacesAreRight) {
  ExpectRight(
      "graph @g(%t: f32[3000, 8], %s: i64[batch], %i: i64[batch, 1], %w: f32[batch, 1]) symbols(batch in 0..100000) {\n"
      "  %r = gather(%t, %s) {axis = 0} : f32[batch, 8]\n  %u = mul(%r, %w) : f32[batch, 8]\n"
      "  %x = scatter_nd(%t, %i, %u) {reduction = \"add\"} : f32[3000, 8]\n"
      "  %r2 = gather(%x, %s) {axis = 0} : f32[batch, 8]\n  %u2 = mul(%r2, %w) : f32[batch, 8]\n"
      "  %y = scatter_nd(%t, %i, %u2) {reduction = \"add\"} : f32[3000, 8]\n  return %x, %y\n}\n",
      GpuOrItsText(), {0, 1, 8192, 8193, 20000}, 1e-4);
}

}  // namespace
}  // namespace fusec
