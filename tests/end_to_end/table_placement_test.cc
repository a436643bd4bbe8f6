// Table placement through the program: every verb that makes an artifact from another one keeps it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compiler/driver/tune/artifact_source.h"
#include "tests/end_to_end/program_test.h"

namespace fusec {
namespace {

using Json = nlohmann::json;

constexpr char kModel[] = R"(<ir_version: 10, opset_import: ["" : 20]>
g (int64[batch] ids) => (float[batch, 3] y)
<float[2, 3] "emb.0.weight" = {1, 2, 3, 4, 5, 6}, float[2, 3] "emb.1.weight" = {1, 2, 3, 4, 5, 6}> {
  a = Gather("emb.0.weight", ids)
  b = Gather("emb.1.weight", ids)
  y = Add(a, b)
}
)";

class TablePlacement : public ModelTest {
 protected:
  TablePlacement() : ModelTest(kModel) {}

  static Json ManifestOf(const std::string& artifact) {
    std::ifstream file(artifact + "/manifest.json");
    return Json::parse(file);
  }
  // The constants that the runtime keeps in host memory.
  static std::vector<std::string> OnHost(const Json& manifest) {
    std::vector<std::string> names;
    for (const Json& buffer : manifest["buffers"]) {
      if (buffer.value("placement", "device") == "host") names.push_back(buffer["name"]);
    }
    return names;
  }
};

TEST_F(TablePlacement, IsRecordedAndExplained) {
  const std::string out =
      Compiled({"--table-placement", "emb.*=host", "--table-placement", "emb.1.*=device"});
  const Json expected = {{"table", "emb.0.weight"}, {"placement", "host"}, {"bytes", 24}};
  const Json manifest = ManifestOf(out);
  EXPECT_EQ(manifest["table_placement"], Json::array({expected}));
  EXPECT_EQ(OnHost(manifest), std::vector<std::string>{"emb_0_weight"});
  const Json explained = Json::parse(Fusec({"explain", out, "--json"}).output);
  EXPECT_EQ(explained["table_placement"], Json::array({expected}));
  EXPECT_EQ(explained["footprint"]["host_bytes"], 24);
  EXPECT_EQ(explained["footprint"]["weight_bytes"], 48);  // equal tables in two places
  EXPECT_NE(Fusec({"explain", out}).output.find("(24 B of them in host memory)"),
            std::string::npos);
  const Json of_cpu = Json::parse(Fusec({"explain", out, "--target", "cpu", "--json"}).output);
  EXPECT_FALSE(of_cpu.contains("table_placement"));
}

TEST_F(TablePlacement, IsThatOfCodesAndFactors) {
  const Json manifest =
      ManifestOf(Compiled({"--table-placement", "*=host", "--table-storage", "emb.0.*=int8"}));
  EXPECT_EQ(OnHost(manifest),
            (std::vector<std::string>{"emb_0_weight", "emb_0_weight_factors", "emb_1_weight"}));
  const Json expected = {{{"table", "emb.0.weight"}, {"placement", "host"}, {"bytes", 6 + 16}},
                         {{"table", "emb.1.weight"}, {"placement", "host"}, {"bytes", 24}}};
  EXPECT_EQ(manifest["table_placement"], expected);
}

TEST_F(TablePlacement, HasACacheOnTheGpu) {
  const std::string out = Compiled({"--table-placement", "emb.0.*=host", "--table-cache", "25%", "--table-storage", "*=int8"});
  const Json manifest = ManifestOf(out);
  EXPECT_EQ(manifest["table_cache"], "25%");
  ASSERT_EQ(manifest["row_caches"].size(), 2u);  // of codes and factors
  std::vector<std::string> tables;
  for (const Json& cache : manifest["row_caches"]) {
    EXPECT_EQ(cache["table_rows"], 2);
    EXPECT_EQ(cache["rows"], 8);  // a set at least
    tables.push_back(manifest["buffers"][cache["table"].get<size_t>()]["name"]);
    EXPECT_EQ(manifest["buffers"][cache["cache"].get<size_t>()]["name"], tables.back() + "_cache");
  }
  std::sort(tables.begin(), tables.end());
  EXPECT_EQ(tables, OnHost(manifest));
  EXPECT_EQ(manifest["table_placement"][0]["cached_rows"], 8);
  const ChildResult verified = Fusec({"verify", out, "--model", model_, "--device", "cpu"});
  EXPECT_EQ(verified.exit_code, 0) << verified.errors;
}

TEST_F(TablePlacement, IsKeptByRefitTuneAndVerify) {
  const std::string out = Compiled({"--table-placement", "emb.0.weight=host", "--table-cache", "1KB"});
  const Json before = ManifestOf(out);
  const ChildResult refitted =
      Fusec({"refit", out, "--weights", model_, "-o", folder_ + "/refitted"});
  ASSERT_EQ(refitted.exit_code, 0) << refitted.errors;
  auto source = ReadArtifactSource(out);
  ASSERT_TRUE(source) << source.error().message;
  const auto written = WriteAgain(*std::move(source), folder_ + "/again");  // as fusec tune does
  ASSERT_TRUE(written) << written.error().message;
  for (const std::string other : {"/refitted", "/again"}) {
    const Json after = ManifestOf(folder_ + other);
    EXPECT_EQ(after["table_placement"], before["table_placement"]) << other;
    EXPECT_EQ(OnHost(after), OnHost(before)) << other;
    EXPECT_EQ(after["table_cache"], "1024") << other;
    EXPECT_EQ(after["row_caches"], before["row_caches"]) << other;
    EXPECT_EQ(after["targets"]["sm_90a"]["files"].count("rows"), 1u) << other;
  }
  const ChildResult verified = Fusec(
      {"verify", out, "--model", model_, "--device", "cpu", "--table-placement", "emb.0.*=host"});
  EXPECT_EQ(verified.exit_code, 0) << verified.errors;
}

}  // namespace
}  // namespace fusec
