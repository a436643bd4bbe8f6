// Reports about whole models: every edge through memory has a reason from a pass, the drawing is valid for Graphviz, the resources of every
// GPU kernel are known, and every CPU kernel alone computes the same as its unfused ops.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "compiler/support/read_file.h"
#include "tests/end_to_end/dot_parser.h"
#include "tests/end_to_end/program_test.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Explained : public testing::TestWithParam<const char*> {
 protected:
  static ChildResult Fusec(const std::vector<std::string>& arguments) {
    const ChildResult child = fusec::Fusec(arguments);
    EXPECT_EQ(child.exit_code, 0) << child.errors;
    return child;
  }

  static void ExpectReasons(const Json& explained) {
    for (const Json& edge : explained["not_fused"]) {
      EXPECT_TRUE(
          std::regex_match(edge["reason"].get<std::string>(), std::regex("fuse-[a-z-]+: \\S.*")))
          << edge;
      EXPECT_NE(edge["needed"], "") << edge;
      EXPECT_NE(edge["producer_kernel"], edge["consumer_kernel"]) << edge;
      EXPECT_GT(edge["bytes"], 0) << edge;
    }
    EXPECT_TRUE(explained["launches"] > 1 || explained["not_fused"].empty());
  }

  // Well-formed; every node is declared once, and every edge joins two of them.
  static void ExpectDrawable(const std::string& dot) {
    const DotDrawing drawing = ParseDot(dot);
    EXPECT_EQ(drawing.error, "") << dot;
    const std::set<std::string> nodes(drawing.nodes.begin(), drawing.nodes.end());
    EXPECT_EQ(nodes.size(), drawing.nodes.size()) << dot;
    for (const auto& [from, to] : drawing.edges)
      EXPECT_TRUE(nodes.count(from) && nodes.count(to)) << from << " -> " << to;
    EXPECT_FALSE(drawing.edges.empty());
    EXPECT_FALSE(drawing.clusters.empty());
  }

  // Every tensor that the target's steps read has sources, and every initializer is used somewhere.
  static void ExpectKnownWeights(const std::string& artifact, const std::string& target) {
    const Json manifest =
        Json::parse(*ReadWholeFile(artifact + "/manifest.json", ErrorKind::kInput));
    std::set<std::string> read;
    for (const Json& step : manifest["targets"][target]["steps"]) {
      for (const int number : step["inputs"]) {
        const Json& buffer = manifest["buffers"][number];
        if (buffer["kind"] == "constant") read.insert(buffer["tensor"]);
      }
    }
    const Json explained =
        Json::parse(Fusec({"explain", artifact, "--weights", "--json", "--target", target}).output);
    std::set<std::string> told, initializers;
    for (const Json& constant : explained["weights"]["constants"]) {
      EXPECT_FALSE(constant["initializers"].empty() && constant["made_by"].empty()) << constant;
      EXPECT_FALSE(constant["kernels"].empty()) << constant;
      if (constant["stored"]) told.insert(constant["name"]);
      for (const Json& initializer : constant["initializers"]) initializers.insert(initializer);
    }
    EXPECT_EQ(told, read);
    for (const Json& initializer : explained["weights"]["initializers"]) {
      EXPECT_FALSE(initializer["constants"].empty() && initializer["specialized"].empty())
          << initializer;
      initializers.erase(initializer["name"]);
    }
    EXPECT_TRUE(initializers.empty()) << Json(initializers);
  }

  // A kernel that launches an equal one's function shows that one's code, which names both.
  static void ExpectSharedCode(const std::string& artifact, const std::string& target,
                               const Json& explained) {
    for (const Json& kernel : explained["kernels"]) {
      const std::string name = kernel["name"], function = kernel.value("function", name);
      if (function == name) continue;
      const std::string page =
          Fusec({"explain", artifact, "--kernel", name, "--target", target}).output;
      const size_t code = page.find("\n// kernel  : " + function + " ");
      EXPECT_NE(code, std::string::npos) << page;
      EXPECT_NE(page.find(name, code), std::string::npos) << page;
    }
  }

  static void ExpectResources(const Json& explained) {
    for (const Json& kernel : explained["kernels"]) {
      if (kernel["class"] == "matmul" && !kernel.contains("ptx")) continue;  // the library's
      const Json& ptx = kernel["ptx"];
      EXPECT_GT(ptx["registers"], 0) << kernel["name"];
      EXPECT_GT(ptx["blocks_per_sm"], 0) << kernel["name"];
      EXPECT_GT(ptx["occupancy"], 0) << kernel["name"];
      EXPECT_LE(ptx["occupancy"], 1) << kernel["name"];
      EXPECT_GE(ptx["max_threads"], ptx["threads"]) << kernel["name"];
      EXPECT_GT(ptx["instructions"]["global_store"], 0) << kernel["name"];
      EXPECT_GT(ptx["machine_instructions"]["global_store"], 0) << kernel["name"];
      EXPECT_EQ(ptx["machine_instructions"]["other"], 0) << kernel["name"];
    }
  }
};

TEST(DotParser, SeesWhatIsWrong) {
  EXPECT_EQ(ParseDot("digraph \"a \\\" b\" { x [label=\"y\"]; subgraph c { y; } x -> y; }").error,
            "");
  for (const char* wrong :
       {"digraph g { x [label=\"y]; }", "digraph g { x [label=\"y\"] }", "digraph g { x -> ; }",
        "digraph g { subgraph a { x; }", "digraph g { x; } }", "digraph g { x [label y]; }",
        "digraph g { label=\"a\" b\"; }"})
    EXPECT_NE(ParseDot(wrong).error, "") << wrong;
}

TEST_P(Explained, IsWholeAndTrue) {
  const std::string folder = *MakeTemporaryFolder(), artifact = folder + "/artifact";
  Fusec({std::string(FUSEC_SOURCE_DIR) + "/" + GetParam(), "-o", artifact, "--target", "cpu,sm_90a",
         "--cpu-level", "x86-64-v3"});
  for (const char* target : {"cpu", "sm_90a"}) {
    const Json explained =
        Json::parse(Fusec({"explain", artifact, "--json", "--target", target}).output);
    ExpectReasons(explained);
    ExpectSharedCode(artifact, target, explained);
    ExpectDrawable(Fusec({"explain", artifact, "--dot", "--target", target}).output);
    ExpectKnownWeights(artifact, target);
  }
  ExpectResources(
      Json::parse(Fusec({"explain", artifact, "--json", "--ptx", "--target", "sm_90a"}).output));
  const Json alone =
      Json::parse(Fusec({"verify", artifact, "--per-fusion", "--json", "--device", "cpu"}).output);
  for (const Json& output : alone["outputs"]) EXPECT_TRUE(output["pass"]) << output;
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(
    All, Explained,
    testing::Values("models/dlrm_dot.ts.onnx", "models/lecture_dlrm.dynamo.onnx",
                    "models/lora_block.ts.onnx", "tests/end_to_end/models/bags.ts.onnx",
                    "tests/end_to_end/models/din.dynamo.onnx",
                    "tests/end_to_end/models/lora_attention.dynamo.onnx",
                    "tests/end_to_end/models/lora_llama.ts.float16.onnx"),
    [](const auto& info) {
      return std::regex_replace(fs::path(info.param).stem().string(), std::regex("\\W"), "_");
    });

}  // namespace
}  // namespace fusec
