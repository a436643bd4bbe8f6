#include "compiler/driver/shard/plan_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "compiler/support/adt.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

std::string TablesText(const Json& tables) {
  constexpr size_t kMostListed = 4;
  std::vector<std::string> texts;
  for (const Json& table : tables) {
    if (texts.size() == kMostListed) break;
    std::string text = table.at("table");
    const int64_t first = table.at("first_row"), end = table.at("end_row"), rows = table.at("rows");
    if (first != 0 || end != rows) text += fmt::format(" rows {}..{}", first, end - 1);
    if (table.contains("first_column"))
      text += fmt::format(" columns {}..{}", table.at("first_column").get<int64_t>(),
                          table.at("end_column").get<int64_t>() - 1);
    texts.push_back(std::move(text));
  }
  if (tables.size() > texts.size())
    texts.push_back(fmt::format("and {} more", tables.size() - texts.size()));
  return Join(texts, ", ");
}

std::string DenseText(const Json& dense) {
  return fmt::format(
      "the dense part sends {} of ids and receives {} of answers: {:.0f} us on its network link,\n"
      "and {:.0f} us for its own steps\n",
      FormatBytes(dense.at("id_bytes")), FormatBytes(dense.at("wire_bytes")),
      dense.at("link_us").get<double>(), dense.at("us").get<double>());
}

}  // namespace

std::string ShardPlanText(const Json& plan) {
  std::vector<std::string> dims;
  for (const auto& [name, size] : plan.at("dims").items())
    dims.push_back(fmt::format("{}={}", name, size.get<int64_t>()));
  const Json& costs = plan.at("costs");
  std::string text = fmt::format(
      "{} for {}{}: planned time of a batch {:.0f} us, or {:.0f} us if nothing overlaps\n"
      "(assuming {:.1f} GB/s to read rows, {:.1f} Gbit/s of network, {:.0f} us per message, and "
      "{:.0f} GFLOP/s in the dense part; rows are sent as {})\n",
      Plural(static_cast<int64_t>(plan.at("shards").size()), "shard"),
      dims.empty() ? "static dims" : Join(dims, ", "),
      plan.at("profile").get<bool>() ? " and the profile's ids" : "",
      plan.at("expected_us").get<double>(), plan.at("worst_us").get<double>(),
      costs.at("row_bandwidth").get<double>() / 1e9,
      costs.at("network_bandwidth").get<double>() * 8 / 1e9, costs.at("message_us").get<double>(),
      costs.value("dense_flops", 0.0) / 1e9, plan.at("wire").get<std::string>());
  std::vector<std::vector<std::string>> rows = {
      {"shard", "in memory", "rows read", "ids in", "answer", "us", "tables"}};
  for (const Json& shard : plan.at("shards")) {
    rows.push_back({shard.at("folder"), FormatBytes(shard.at("table_bytes")),
                    FormatBytes(shard.at("row_bytes")), FormatBytes(shard.at("id_bytes")),
                    FormatBytes(shard.at("wire_bytes")),
                    fmt::format("{:.0f}", shard.at("us").get<double>()),
                    TablesText(shard.at("tables"))});
  }
  text += FormatTable(rows, "lrrrrrl");
  if (plan.contains("dense")) text += DenseText(plan.at("dense"));
  for (const Json& kept : plan.at("kept"))
    text += fmt::format("{} stays in the dense part: {}\n", kept.at("table").get<std::string>(),
                        kept.at("why").get<std::string>());
  return text;
}

}  // namespace fusec
