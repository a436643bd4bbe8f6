// Bags of every length for which kernels have separate code (compiler/kernel/rows_together.h), with rows in f32 and in codes with factors,
// by vectors and element by element.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/property/compiled_graphs.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

// Sums `entries` rows of a table with `columns` columns, of floats or of codes with a scale and a bias for each row.
std::unique_ptr<Graph> MakeBags(int entries, int columns, bool has_codes) {
  const std::string rows = fmt::format("[batch, {}, {}]", entries, columns);
  std::string text = fmt::format("graph @g(%ids: i64[batch, {}], %table: {}[40, {}], %factors: f32[40, 2])", entries,
                                 has_codes ? "u8" : "f32", columns);
  text += " symbols(batch in 0..64) {\n";
  std::string wanted = "%rows";
  text += fmt::format("  %rows = gather(%table, %ids) {{axis = 0}} : {}{}\n", has_codes ? "u8" : "f32", rows);
  if (has_codes) {
    const std::string factor = fmt::format("{}, 1]", rows.substr(0, rows.rfind(',')));
    const auto column = [&](const char* name, int start) {
      const std::string slice = fmt::format("{{shape = dims{}, starts = dims[0, 0, {}], steps = [1, 1, 1]}}", factor, start);
      return fmt::format("  %{} = slice(%pairs) {} : f32{}\n", name, slice, factor);
    };
    text += fmt::format("  %codes = cast(%rows) {{to = f32}} : f32{}\n", rows);
    text += fmt::format("  %pairs = gather(%factors, %ids) {{axis = 0}} : f32[batch, {}, 2]\n", entries);
    text += column("scale", 0) + column("bias", 1);
    text += fmt::format("  %scaled = mul(%codes, %scale) : f32{0}\n  %real = add(%scaled, %bias) : f32{0}\n", rows);
    wanted = "%real";
  }
  text += fmt::format("  %bag = reduce_sum({}) {{axes = [1], keepdims = 0}} : f32[batch, {}]\n  return %bag\n}}\n", wanted, columns);
  auto graph = Parse(text);
  EXPECT_TRUE(graph.has_value()) << text << graph.error().message;
  return graph ? *std::move(graph) : nullptr;
}

TEST(Bags, OfAnyLengthAreRight) {
  for (const int entries : {1, 2, 7, 12, 13, 16, 23, 24, 100}) {
    for (const int columns : {1, 6, 16, 32}) {
      for (const bool has_codes : {false, true}) {
        const auto graph = MakeBags(entries, columns, has_codes);
        ASSERT_NE(graph, nullptr);
        ExpectRightAnswers(*graph, GpuOrItsText(), "highest", static_cast<uint64_t>(entries), {1, 5, 64}, 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace fusec
