// Which tables of a model can be updated by rows, according to the manifest.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/driver/tune/artifact_source.h"
#include "compiler/support/child_process.h"
#include "compiler/support/read_file.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class RowTables : public testing::Test {
 protected:
  void SetUp() override { folder_ = *MakeTemporaryFolder(); }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string Numbers(int count, double first) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += (i > 0 ? ", " : "") +
              std::to_string(first + (i * (37 + static_cast<int>(first)) % 101) / 8.0);
    return "{" + text + "}";
  }
  static std::string Table(const std::string& name, double first = 0) {
    return "float[9, 4] " + name + " = " + Numbers(36, first);
  }

  // Writes a model of ids with `constants` and `nodes` as ONNX text, which make y or the given outputs.
  std::string Model(const std::string& constants, const std::string& nodes,
                    const std::string& outputs = "float[batch, 4] y") const {
    const std::string path = folder_ + "/model.onnxtxt";
    std::ofstream(path) << "<ir_version: 8, opset_import: [\"\" : 17]>\ng (int64[batch] ids) => ("
                        << outputs << ")\n  <" << constants << ">\n{\n"
                        << nodes << "}\n";
    return path;
  }

  // By name of the table: the storage of its rows, or the reason why they cannot be updated.
  std::map<std::string, std::string> Tables(const std::string& model,
                                            const std::vector<std::string>& flags = {}) {
    const std::string out = folder_ + "/out";
    std::vector<std::string> arguments = {FUSEC_PROGRAM, model,        "-o",          out,
                                          "--target",    "cpu,sm_90a", "--cpu-level", "x86-64-v3"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const ChildResult child = RunChild(arguments);
    EXPECT_EQ(child.exit_code, 0) << child.errors;
    errors_ = child.errors;
    manifest_ = Json::parse(*ReadWholeFile(out + "/manifest.json", ErrorKind::kArtifact));
    std::map<std::string, std::string> tables;
    for (const Json& table : manifest_.value("tables", Json::array()))
      tables[table.at("table")] = table.value("fixed", table.value("storage", ""));
    return tables;
  }
  using Found = std::map<std::string, std::string>;

  std::string folder_, errors_;
  Json manifest_;
};

TEST_F(RowTables, AreTheTablesThatLookUpsRead) {
  const std::string model =
      Model(Table("plain") + ", " + Table("cast", 1) + ", " + Table("same", 2) + ", " +
                "float[4] bias = {1, 2, 3, 4}",
            "  a = Gather(plain, ids)\n  half = Cast<to = 10>(cast)\n  h = Gather(half, ids)\n"
            "  b = Cast<to = 1>(h)\n  alias = Identity(same)\n  c = Gather(alias, ids)\n"
            "  d = Gather(alias, ids)\n  s = Add(a, b)\n  t = Add(s, c)\n  u = Mul(t, d)\n"
            "  y = Add(u, bias)\n");
  EXPECT_EQ(Tables(model), (Found{{"cast", "f16"}, {"plain", "f32"}, {"same", "f32"}}));
  EXPECT_TRUE(manifest_["files"].contains("rows/update_rows.cu"));
  EXPECT_EQ(manifest_["targets"]["sm_90a"]["files"]["rows"], "cubin/sm_90a_rows.cubin");
  EXPECT_FALSE(manifest_["targets"]["cpu"]["files"].contains("rows"));
  EXPECT_EQ(Tables(model, {"--table-storage", "*=int4"}),
            (Found{{"cast", "f16"}, {"plain", "int4"}, {"same", "int4"}}));
}

TEST_F(RowTables, EqualTablesAreOneUnlessTheyAreUpdatable) {
  const std::string model = Model(Table("a") + ", " + Table("b"),
                                  "  x = Gather(a, ids)\n  z = Gather(b, ids)\n  y = Mul(x, z)\n");
  const auto tables = Tables(model);
  EXPECT_EQ(tables.at("a"),
            "it equals \"b\", and both are stored as one (eliminate-common); compiling with "
            "--updatable 'a' keeps it as it is");
  EXPECT_EQ(tables.at("b"),
            "it equals \"a\", and both are stored as one (eliminate-common); compiling with "
            "--updatable 'b' keeps it as it is");
  EXPECT_EQ(Tables(model, {"--updatable", "*"}), (Found{{"a", "f32"}, {"b", "f32"}}));
}

// Rows of two tables have the same least and greatest elements, so that their scales and biases are
// equal constants.
TEST_F(RowTables, TablesOfEqualScalesAreTwoIfTheyAreUpdatable) {
  const std::string model =
      Model("float[2, 4] a = {0, 1, 2, 8, 0, 1, 2, 8}, float[2, 4] b = {0, 3, 4, 8, 0, 5, 2, 8}",
            "  x = Gather(a, ids)\n  z = Gather(b, ids)\n  y = Mul(x, z)\n");
  EXPECT_NE(Tables(model, {"--table-storage", "*=int8"}).at("a"), "int8");
  EXPECT_EQ(Tables(model, {"--table-storage", "*=int8", "--updatable", "*"}),
            (Found{{"a", "int8"}, {"b", "int8"}}));
}

TEST_F(RowTables, DroppedColumnsFixATableUnlessItIsUpdatable) {
  const std::string model =
      Model(Table("t") + ", int64[1] one = {1}, int64[1] three = {3}",
            "  x = Gather(t, ids)\n  y = Slice(x, one, three, one)\n", "float[batch, 2] y");
  EXPECT_EQ(Tables(model).at("t"),
            "other constants are computed from it (drop-dead-columns); compiling with --updatable "
            "'t' keeps it as it is");
  EXPECT_EQ(Tables(model, {"--updatable", "t"}).at("t"), "f32");
}

TEST_F(RowTables, OfFoldedLookUpsAndProductsAWarningTells) {
  const std::string folded =
      Model(Table("t") + ", int64[2] places = {1, 5}",
            "  x = Gather(t, ids)\n  c = Gather(t, places)\n  s = ReduceSum<keepdims = 0>(c)\n"
            "  y = Mul(x, s)\n");
  const std::string why = "other constants are computed from it (fold-constants)";
  EXPECT_EQ(Tables(folded).at("t"), why);
  EXPECT_EQ(errors_.find("cannot be updated"), std::string::npos);
  EXPECT_EQ(Tables(folded, {"--updatable", "t"}).at("t"), why);
  EXPECT_NE(
      errors_.find("table \"t\" cannot be updated by rows, though --updatable names it: " + why),
      std::string::npos)
      << errors_;
  const std::string tied =
      Model("float[4, 4] t = " + Numbers(16, 0), "  x = Gather(t, ids)\n  y = MatMul(x, t)\n");
  const auto tables = Tables(tied, {"--updatable", "t"});
  EXPECT_NE(tables.at("t"), "f32");
  EXPECT_NE(errors_.find("table \"t\" cannot be updated by rows"), std::string::npos) << errors_;
}

TEST_F(RowTables, ElementsMayBeNumbersInKernels) {
  const std::string model =
      Model("float[3] t = {1, 2, 3}, int64[1] first = {0}, int64[1] second = {1}",
            "  x = Gather(t, ids)\n  y = Exp(x)\n", "float[batch] y");
  EXPECT_EQ(Tables(model), (Found{{"t", "f32"}}));
  const std::string one =
      Model("float[1] t = {2}", "  x = Gather(t, ids)\n  y = Exp(x)\n", "float[batch] y");
  EXPECT_NE(Tables(one).at("t"), "f32");
  EXPECT_EQ(Tables(one, {"--updatable", "t"}).at("t"), "f32");
}

// All tables of the models in this repository, with their numbers of rows.
TEST_F(RowTables, OfDlrmModelsAllCanBeUpdated) {
  for (const std::string name : {"dlrm_dot.ts", "lecture_dlrm.dynamo"}) {
    const auto tables = Tables(std::string(FUSEC_SOURCE_DIR) + "/models/" + name + ".onnx");
    EXPECT_GT(tables.size(), 3u) << name;
    for (const auto& [table, storage] : tables) EXPECT_EQ(storage, "f32") << name << " " << table;
  }
}

TEST_F(RowTables, RefitAndTuneKeepThem) {
  const std::string model = Model(Table("t"), "  x = Gather(t, ids)\n  y = Exp(x)\n");
  Tables(model, {"--updatable", "t"});
  const Json before = manifest_;
  const std::string out = folder_ + "/out";
  ChildResult child = RunChild({FUSEC_PROGRAM, "refit", out, "--weights", model});
  EXPECT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_EQ(Json::parse(*ReadWholeFile(out + "/manifest.json", ErrorKind::kArtifact)), before);
  const auto source = ReadArtifactSource(out);  // what tune would write again
  ASSERT_TRUE(source) << source.error().message;
  ASSERT_EQ(source->contents.tables.size(), 1u);
  EXPECT_EQ(source->contents.tables[0].constant, "t");
  EXPECT_EQ(source->contents.tables[0].storage, "f32");
  EXPECT_EQ(source->contents.updatable, std::vector<std::string>{"t"});
}

}  // namespace
}  // namespace fusec
