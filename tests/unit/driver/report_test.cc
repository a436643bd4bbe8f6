#include "compiler/driver/report/report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compiler/driver/report/line_links.h"
#include "compiler/support/child_process.h"
#include "compiler/support/read_file.h"
#include "compiler/support/write_file.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kGraph =
    "graph @g(%x \"x\": f32[b, 8], %w \"w\": f32[8]) symbols(b in 1..64) {\n"
    "  %c = constant() [2.0] : f32[]\n"
    "  %h = region(%x, %w) {class = \"pointwise\"} : f32[b, 8] {\n"
    "    graph @exp_mul(%x: f32[b, 8], %w: f32[8]) {\n"
    "      %e = exp(%x) : f32[b, 8]  @ \"/act/Exp\" \"Exp\" \"act\"\n"
    "      %Total.2 = mul(%e, %w) : f32[b, 8]  @ \"/act/Mul\" \"Mul\" \"act\"\n"
    "      return %Total.2\n"
    "    }\n"
    "  }\n"
    "  %s = region(%h, %c) {class = \"row_reduction\"} : f32[b] {\n"
    "    graph @mul_reduce_sum(%h: f32[b, 8], %c: f32[]) {\n"
    "      %m = mul(%h, %c) : f32[b, 8]  @ \"/act/Mul\" \"Mul\" \"act\"\n"
    "      %s = reduce_sum(%m) {axes = [1], keepdims = 0} : f32[b]\n"
    "      return %s\n"
    "    }\n"
    "  }\n"
    "  return %s \"sum\"\n"
    "}\n";

ReportContents Sample() {
  ReportContents contents;
  Explanation& e = contents.explanation;
  e.model = "</title><b>&model.onnx";
  e.target = "sm_90a";
  e.dims = {{"b", 3}};
  auto graph = Parse(kGraph);
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  e.graph = *std::move(graph);
  e.steps.resize(2);
  e.steps[0].name = "k00_exp_mul";
  e.steps[0].bytes_read = 1000;
  e.steps[1].name = "k01_mul_reduce_sum</script>";
  e.not_fused.push_back({.producer_step = e.steps[0].name,
                         .consumer_step = e.steps[1].name,
                         .tensor = "h",
                         .bytes = 96,
                         .reason = "because"});
  e.before_bytes = 2500000;
  e.after_bytes = e.after_launches = 1000;
  return contents;
}

Json Document(const ReportContents& contents) {
  const Result<std::string> json = ReportJson("", contents);
  EXPECT_TRUE(json) << (json ? "" : json.error().message);
  return Json::parse(*json);
}

TEST(ReportJson, NamesWhatBelongsTogetherByPlaces) {
  const Json json = Document(Sample());
  ASSERT_EQ(json["nodes"].size(), 2u);  // /act/Mul is in both kernels
  EXPECT_EQ(json["nodes"][1]["name"], "/act/Mul");
  EXPECT_EQ(json["nodes"][1]["module"], "act");
  std::vector<std::string> kinds;
  for (const Json& value : json["values"]) kinds.push_back(value["kind"]);
  EXPECT_EQ(kinds, std::vector<std::string>({"input", "input", "weight", "memory", "memory"}));
  EXPECT_EQ(json["values"][3]["bytes"], 96);
  EXPECT_EQ(json["values"][3]["producer"], 0);
  EXPECT_EQ(json["values"][3]["readers"], Json({1}));
  EXPECT_EQ(json["values"][4]["outputs"], Json({"sum"}));
  const Json& body = json["kernels"][0]["body"];
  EXPECT_EQ(body[1]["op"], "mul");
  EXPECT_EQ(body[1]["from"], Json({0}));
  EXPECT_EQ(body[1]["reads"], Json({1}));
  EXPECT_EQ(body[1]["nodes"], Json({1}));
  EXPECT_EQ(json["kernels"][0]["writes"], Json::parse(R"([{"value": 3, "from": 1}])"));
  EXPECT_EQ(json["kernels"][1]["body"][0]["nodes"], Json({1}));
  EXPECT_EQ(json["not_fused"][0]["value"], 3);
  EXPECT_EQ(json["not_fused"][0]["from"], 0);
  EXPECT_EQ(json["not_fused"][0]["to"], 1);
}

TEST(ReportJson, BytesThatAreNoUtf8AreShownAsUnknown) {
  ReportContents contents = Sample();
  contents.explanation.graph = *Parse(
      "graph @g(%x \"in\xff\": f32[2]) {\n"
      "  %y = region(%x) {class = \"pointwise\"} : f32[2] {\n"
      "    graph @exp(%x: f32[2]) {\n"
      "      %y = exp(%x) : f32[2]\n      return %y\n    }\n  }\n"
      "  return %y \"y\"\n}\n");
  contents.explanation.steps.resize(1);
  contents.explanation.not_fused.clear();
  EXPECT_EQ(Document(contents)["values"][0]["label"], "in\ufffd");
}

TEST(LineLinks, IrLinesAreThoseOfRegionsAndTheirOps) {
  const auto graph = *Parse(kGraph);
  const std::string text = Print(*graph);
  ASSERT_EQ(text, kGraph);
  const std::vector<IrLine> lines = LinkIrLines(text, *graph);
  ASSERT_EQ(lines.size(), 18u);
  EXPECT_EQ(lines[0].region, std::nullopt);
  EXPECT_EQ(lines[1].value, graph->nodes[0]->result());
  EXPECT_EQ(lines[1].region, std::nullopt);
  for (size_t line = 2; line <= 8; ++line) EXPECT_EQ(lines[line].region, 0u) << line;
  for (size_t line = 9; line <= 15; ++line) EXPECT_EQ(lines[line].region, 1u) << line;
  EXPECT_EQ(lines[4].op, 0u);
  EXPECT_EQ(lines[5].op, 1u);
  EXPECT_EQ(lines[6].op, std::nullopt);
  EXPECT_EQ(lines[12].op, 1u);
  EXPECT_EQ(lines[16].region, std::nullopt);
}

TEST(LineLinks, CodeLinesBelongToWhatTheyAssign) {
  const auto graph = *Parse(kGraph);
  const std::string code =
      "__device__ float Twice(float e) { return e + e; }\n"         // 0: above the header
      "// kernel  : k00_exp_mul   class: pointwise\n"               // 1
      "extern \"C\" __global__ void k00_exp_mul(const float* x,\n"  // 2
      "                                       const float* w) {\n"  // 3
      "  constexpr int kColumns = 8;  // last axis of \"w\"\n"      // 4
      "  const int i = threadIdx.x;\n"                              // 5
      "  // exp\n"                                                  // 6
      "  const float e =\n"                                         // 7
      "      expf(x[i]);\n"                                         // 8
      "  for (int k = 0; k < 2; ++k) {\n"                           // 9
      "    total_2_rows[i] = e * w[i];\n"                           // 10
      "  }\n"                                                       // 11
      "  // What follows: mul\n"                                    // 12
      "  Finish(i);\n"                                              // 13
      "}\n";
  const auto links = LinkCodeLines(code, *graph->nodes[1]->body);
  const std::map<size_t, std::vector<size_t>> expected = {{4, {1}},  {6, {0}},  {7, {0}}, {8, {0}},
                                                          {10, {1}}, {12, {1}}, {13, {1}}};
  EXPECT_EQ(links, expected);
}

TEST(LineLinks, TensorsYieldToWordsOfTheKernel) {
  const auto graph = *Parse(
      "graph @g(%row \"row\": f32[2]) {\n"
      "  %y = region(%row) {class = \"pointwise\"} : f32[2] {\n"
      "    graph @exp_neg(%row: f32[2]) {\n"
      "      %Row = exp(%row) : f32[2]\n      %y = neg(%Row) : f32[2]\n"
      "      return %y\n    }\n  }\n  return %y \"y\"\n}\n");
  const std::string code =
      "// kernel  : k00_exp_neg   class: pointwise\n"
      "  const int row = blockIdx.x;\n"
      "  const float row_value = expf(row_tensor[row]);\n"
      "  y[row] = -row_value;\n";
  const std::map<size_t, std::vector<size_t>> expected = {{2, {0}}, {3, {1}}};
  EXPECT_EQ(LinkCodeLines(code, *graph->nodes[0]->body), expected);
}

TEST(ReportPage, NamesCannotLeaveTheirPlace) {
  const ReportContents contents = Sample();
  const std::string page = ReportPage(contents.explanation, *ReportJson("", contents));
  EXPECT_NE(page.find("<title>&lt;/title&gt;&lt;b&gt;&amp;model.onnx - "), page.npos);
  EXPECT_NE(page.find(Headline(contents.explanation)), page.npos);
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t from = page.find(begin) + begin.size(), to = page.find("</script>", from);
  const std::string data = page.substr(from, to - from);
  EXPECT_EQ(data.find('<'), data.npos);
  EXPECT_EQ(Json::parse(data)["kernels"][1]["name"], "k01_mul_reduce_sum</script>");
  size_t scripts = 0;
  for (size_t at = page.find("</script>"); at != page.npos; at = page.find("</script>", at + 1))
    ++scripts;
  EXPECT_EQ(scripts, 2u);
  EXPECT_EQ(page.find("http://"), page.find("http://www.w3.org/2000/svg"));  // nothing is loaded
  EXPECT_EQ(page.find("https://"), page.npos);
}

TEST(ReportPage, HeadlineCountsEachNodeOnce) {
  EXPECT_EQ(Headline(Sample().explanation),
            "2 ONNX nodes became 2 kernels; 2.50 MB of memory traffic became 1.00 KB");
}

class ReportFiles : public testing::Test {
 protected:
  void SetUp() override { folder_ = *MakeTemporaryFolder(); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Put(const std::string& text) const {
    std::ofstream(folder_ + "/bench.json") << text;
    return folder_ + "/bench.json";
  }
  std::string folder_;
};

TEST_F(ReportFiles, BenchFilesThatAreNone) {
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"[{", "is not JSON"},
           {"[]", "has no times"},
           {"null", "has no times"},
           {"3", "has other keys"},
           {"[{\"device\": 3}]", "has other keys"},
           {"{\"traceEvents\": []}", "has other keys"},
           {R"({"otherData": {}, "traceEvents": []})", "has no times"},
           {R"({"otherData": {}, "traceEvents": [{"pid": 7}]})", "has other keys"}}) {
    const auto runs = ReadBenchFile(Put(text));
    ASSERT_FALSE(runs) << text;
    EXPECT_EQ(runs.error().kind, ErrorKind::kInput);
    EXPECT_NE(runs.error().message.find("bench.json: " + part), std::string::npos)
        << runs.error().message;
  }
}

TEST_F(ReportFiles, TracesHaveARunForEachProcess) {
  const auto runs = ReadBenchFile(Put(R"({
    "traceEvents": [
      {"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "b=3"}},
      {"name": "k00_exp_mul", "ph": "X", "ts": 0.0, "dur": 1.5, "pid": 0, "tid": 0,
       "args": {"bytes read": 1000, "bytes written": 0, "flops": 0, "p99 us": 2.5}},
      {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "b=4"}}],
    "otherData": {"device": "cpu", "peaks": {"bytes_per_second": 1e9, "f32_per_second": 0.0, "source": "s"}}})"));
  ASSERT_TRUE(runs) << runs.error().message;
  ASSERT_EQ(runs->size(), 2u);
  EXPECT_EQ((*runs)[0].dims, "b=3");
  ASSERT_EQ((*runs)[0].steps.size(), 1u);
  EXPECT_EQ((*runs)[0].steps[0].p99_us, 2.5);
  EXPECT_EQ((*runs)[1].peaks.bytes_per_second, 1e9);
  const auto other = FindRun(*runs, Sample().explanation, "bench.json");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message,
            "bench.json: was measured on another artifact or target: it has 1 kernel, expected 2");
  Explanation e = Sample().explanation;
  e.dims["b"] = 5;
  EXPECT_EQ(FindRun(*runs, e, "bench.json").error().message,
            "bench.json: has no times at b=5; it has b=3; b=4");
}

TEST_F(ReportFiles, AreWrittenWholeOrNotAtAll) {
  const std::string path = folder_ + "/page.html", link = folder_ + "/link.html";
  ASSERT_TRUE(WriteWholeFile(path, "one"));
  fs::create_symlink("page.html", link);
  ASSERT_TRUE(WriteWholeFile(link, "two"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(*ReadWholeFile(path, ErrorKind::kInput), "two");
  for (const auto& [to, why] : std::vector<std::pair<std::string, std::string>>{
           {folder_, "Is a directory"},
           {folder_ + "/none/page.html", "No such file or directory"},
           {"/dev/full", "No space left on device"}}) {
    const auto written = WriteWholeFile(to, "three");
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().message, "cannot write " + to + ": " + why);
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
}

}  // namespace
}  // namespace fusec
