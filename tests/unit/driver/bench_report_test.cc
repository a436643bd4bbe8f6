#include "compiler/driver/cli/bench_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace fusec {
namespace {

// One size, at which two caches recorded look-ups; the second one answered none.
BenchReport WithCaches() {
  BenchReport report;
  report.device = "cuda:0";
  report.on_gpu = true;
  Measurement& measured = report.measurements.emplace_back();
  measured.dims = {{"batch", 64}};
  measured.rotate = 8;
  measured.device_us = measured.call_us = measured.together_us = {2, 1, 3, 4};
  measured.caches = {{"users", 1000, 50000, 136, 750, 250}, {"items", 10, 200, 64, 0, 40}};
  return report;
}

TEST(BenchReport, SaysWhatCachesAnswered) {
  const std::string text = BenchText(WithCaches());
  EXPECT_NE(text.find("batch=64: look-ups that caches on the GPU answered\n"
                      "  table in host memory   rows  in the cache  hit rate  over the bus per look-up\n"
                      "  users                 50000          1000    75.0 %                    34.0 B\n"
                      "  items                   200            10         -                    64.0 B\n"),
            std::string::npos)
      << text;
}

TEST(BenchReport, WritesCachesAsJson) {
  const auto json = nlohmann::json::parse(BenchJson(WithCaches()));
  ASSERT_EQ(json[0]["caches"].size(), 2u);
  const auto& users = json[0]["caches"][0];
  EXPECT_EQ(users["table"], "users");
  EXPECT_EQ(users["rows"], 50000);
  EXPECT_EQ(users["cached_rows"], 1000);
  EXPECT_EQ(users["hits"], 750);
  EXPECT_EQ(users["misses"], 250);
  EXPECT_DOUBLE_EQ(users["hit_rate"], 0.75);
  EXPECT_DOUBLE_EQ(users["bus_bytes_per_look_up"], 34);
  EXPECT_DOUBLE_EQ(json[0]["caches"][1]["hit_rate"], 0);
}

TEST(BenchReport, LeavesCachesOutWhereThereAreNone) {
  BenchReport report = WithCaches();
  report.measurements[0].caches.clear();
  EXPECT_EQ(BenchText(report).find("caches"), std::string::npos);
  EXPECT_FALSE(nlohmann::json::parse(BenchJson(report))[0].contains("caches"));
}

}  // namespace
}  // namespace fusec
