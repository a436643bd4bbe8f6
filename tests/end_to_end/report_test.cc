// `fusec report` on whole models: every kernel and node appears, related items refer to each other, texts are those of the artifact, and
// the page is the same for the same artifact.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "compiler/support/read_file.h"
#include "tests/end_to_end/program_test.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Reported : public testing::Test {
 protected:
  void SetUp() override { folder_ = *MakeTemporaryFolder(); }
  void TearDown() override { fs::remove_all(folder_); }

  static ChildResult Fusec(const std::vector<std::string>& arguments) {
    const ChildResult child = fusec::Fusec(arguments);
    EXPECT_EQ(child.exit_code, 0) << child.errors;
    return child;
  }
  std::string Compile(const std::string& model, const std::string& targets) const {
    Fusec({model, "-o", folder_ + "/artifact", "--target", targets, "--cpu-level", "x86-64-v3"});
    return folder_ + "/artifact";
  }
  std::string Page(const std::string& artifact, std::vector<std::string> flags = {}) const {
    const std::string path = folder_ + "/page.html";
    flags.insert(flags.begin(), {"report", artifact, "-o", path});
    EXPECT_EQ(Fusec(flags).output, "");  // stdout is for results
    return *ReadWholeFile(path, ErrorKind::kArtifact);
  }
  static Json DataOf(const std::string& page) {
    const std::string begin = "id=\"data\">";
    const size_t from = page.find(begin) + begin.size();
    return Json::parse(page.substr(from, page.find("</script>", from) - from));
  }
  static std::string TextOf(const Json& data, const Json& source) {
    std::string text;
    for (const size_t part : source["parts"]) text += data["texts"][part].get<std::string>();
    return text;
  }
  std::string folder_;
};

void ExpectSameKernels(const Json& data, const Json& explained) {
  ASSERT_EQ(data["kernels"].size(), explained["kernels"].size());
  for (size_t k = 0; k < data["kernels"].size(); ++k) {
    const Json &kernel = data["kernels"][k], &known = explained["kernels"][k];
    for (const auto& [key, value] : known.items()) EXPECT_EQ(kernel[key], value) << key;
    std::set<std::string> names;
    for (const Json& op : kernel["body"]) {
      for (const size_t node : op["nodes"]) names.insert(data["nodes"][node]["name"]);
    }
    for (const std::string name : known["onnx_nodes"]) EXPECT_TRUE(names.count(name)) << name;
  }
}

void ExpectConsistentLinks(const Json& data) {
  const Json &kernels = data["kernels"], &values = data["values"];
  std::set<size_t> seen;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Json& body = kernels[k]["body"];
    for (size_t place = 0; place < body.size(); ++place) {
      const Json& op = body[place];
      for (const size_t from : op["from"]) EXPECT_LT(from, place);
      for (const size_t node : op["nodes"]) seen.insert(node);
      for (const size_t value : op["reads"]) {
        const std::vector<size_t> readers = values[value]["readers"];
        EXPECT_TRUE(std::count(readers.begin(), readers.end(), k)) << values[value];
      }
      EXPECT_EQ(data["ir"]["links"][std::to_string(op["line"].get<size_t>())], Json({k, place}));
    }
    for (const Json& write : kernels[k]["writes"])
      EXPECT_EQ(values[write["value"].get<size_t>()]["producer"], k);
  }
  EXPECT_EQ(seen.size(), data["nodes"].size());
  for (const Json& edge : data["not_fused"]) {
    const Json& value = values[edge["value"].get<size_t>()];
    EXPECT_EQ(value["name"], edge["tensor"]);
    EXPECT_EQ(value["bytes"], edge["bytes"]);
    EXPECT_EQ(value["producer"], edge["from"]) << edge;
    const std::vector<size_t> readers = value["readers"];
    EXPECT_TRUE(std::count(readers.begin(), readers.end(), edge["to"].get<size_t>())) << edge;
  }
}

TEST_F(Reported, IsWholeConsistentAndTheSameEveryTime) {
  for (const char* model :
       {"models/dlrm_dot.ts.onnx", "models/lora_block.dynamo.onnx", "models/lora_mlp.ts.onnx",
        "tests/end_to_end/models/lora_llama.ts.float16.onnx"}) {
    SCOPED_TRACE(model);
    const std::string artifact = Compile(FUSEC_SOURCE_DIR "/" + std::string(model), "cpu,sm_90a");
    fs::remove_all(folder_ + "/moved");
    fs::copy(artifact, folder_ + "/moved", fs::copy_options::recursive);
    for (const char* target : {"cpu", "sm_90a"}) {
      const std::string page = Page(artifact, {"--target", target});
      EXPECT_EQ(page, Page(folder_ + "/moved", {"--target", target}));
      EXPECT_EQ(page.find(folder_), page.npos);
      const Json data = DataOf(page);
      ExpectSameKernels(
          data, Json::parse(Fusec({"explain", artifact, "--json", "--target", target}).output));
      ExpectConsistentLinks(data);
      EXPECT_EQ(data["ir"]["text"],
                *ReadWholeFile(artifact + "/" + data["ir"]["file"].get<std::string>(),
                               ErrorKind::kArtifact));
      size_t linked = 0;
      for (const Json& source : data["sources"]) {
        const std::string text = TextOf(data, source);
        linked += source["ops"].size();
        if (target == std::string("cpu")) continue;
        EXPECT_EQ(text, *ReadWholeFile(artifact + "/" + source["file"].get<std::string>(),
                                       ErrorKind::kArtifact));
      }
      EXPECT_TRUE(linked > 0 || data["sources"].empty());
      EXPECT_EQ(data["kernels"][0].contains("ptx"), target == std::string("sm_90a"));
    }
  }
}

TEST_F(Reported, NamesMayHoldAnything) {
  const std::string model = folder_ + "/a<b>&c.onnxtxt", longest(10000, 'n');
  std::ofstream(model) << "<ir_version: 10, opset_import: [\"\" : 20]>\n"
                          "g (float[batch, 4] x) => (float[batch, 4] y) {\n"
                          "  [\"</script><script>alert(1)</script>\"] a = Relu(x)\n"
                          "  [\"<!-- report.json -->\"] b = Exp(a)\n"
                          "  [\"\u540d\u524d \u202e'\x01\"] c = Tanh(b)\n"
                          "  [\"" +
                              longest + "\"] y = Relu(c)\n}\n";
  const std::string page = Page(Compile(model, "cpu"));
  EXPECT_EQ(page.find("<script>alert"), page.npos);
  EXPECT_NE(page.find("a&lt;b&gt;&amp;c.onnxtxt"), page.npos);
  const Json data = DataOf(page);
  std::set<std::string> names;
  for (const Json& node : data["nodes"]) names.insert(node["name"]);
  EXPECT_TRUE(names.count("</script><script>alert(1)</script>"));
  EXPECT_TRUE(names.count("<!-- report.json -->"));
  EXPECT_TRUE(names.count(longest));
  EXPECT_EQ(names.size(), 4u);
}

TEST_F(Reported, ShowsTimesOfBenchAndTrace) {
  const std::string artifact = Compile(FUSEC_SOURCE_DIR "/models/lora_mlp.ts.onnx", "cpu,sm_90a");
  const std::string trace = folder_ + "/trace.json", bench = folder_ + "/bench.json";
  std::ofstream(bench) << Fusec({"bench", artifact, "--device", "cpu", "--seconds", "0.01", "--dim",
                                 "batch=3,5", "--per-kernel", "--json", "--trace", trace})
                              .output;
  for (const std::string& file : {bench, trace}) {
    const Json last = DataOf(Page(artifact, {"--bench", file}));
    EXPECT_EQ(last["target"], "cpu");
    EXPECT_EQ(last["dims"]["batch"], 5);
    ASSERT_EQ(last["runs"].size(), 2u);
    EXPECT_EQ(last["runs"][0]["dims"], "batch=3");
    EXPECT_EQ(last["runs"][0]["call_us"].is_number(), file == bench);
    EXPECT_GT(last["peaks"]["bytes_per_second"], 0);
    for (const Json& kernel : last["kernels"]) EXPECT_GT(kernel["measured"]["us"], 0);
    EXPECT_EQ(DataOf(Page(artifact, {"--bench", file, "--dim", "batch=3"}))["dims"]["batch"], 3);
  }
}

}  // namespace
}  // namespace fusec
