// The program as users call it: exit codes, the output on stdout and stderr, and the documented JSON keys.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/driver/tune/artifact_source.h"
#include "compiler/support/read_file.h"
#include "tests/end_to_end/program_test.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kModels = FUSEC_SOURCE_DIR "/models/";

// One artifact of a small model for all tests.
class Verbs : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = *MakeTemporaryFolder();
    artifact_ = folder_ + "/lora";
    const ChildResult child = Fusec({kModels + "lora_mlp.dynamo.onnx", "-o", artifact_, "--target",
                                     "cpu", "--cpu-level", "x86-64-v3"});
    ASSERT_EQ(child.exit_code, 0) << child.errors;
    EXPECT_EQ(child.output, "");
    EXPECT_NE(child.errors.find("fusec run " + artifact_), std::string::npos) << child.errors;
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  // The JSON that a call prints, which must be all of stdout.
  static Json FusecJson(ArrayRef<std::string> arguments) {
    const ChildResult child = Fusec(arguments);
    EXPECT_EQ(child.exit_code, 0) << child.errors;
    return Json::parse(child.output);
  }
  static void ExpectKeys(const Json& json, ArrayRef<std::string> keys) {
    for (const std::string& key : keys) EXPECT_TRUE(json.contains(key)) << key << " in " << json;
  }
  static void ExpectError(ArrayRef<std::string> arguments, int code,
                          const std::string& part) {
    const ChildResult child = Fusec(arguments);
    EXPECT_EQ(child.exit_code, code) << child.errors;
    EXPECT_EQ(child.output, "");
    EXPECT_TRUE(child.errors.starts_with("fusec: error: ")) << child.errors;
    EXPECT_NE(child.errors.find(part), std::string::npos) << child.errors;
  }
  static std::string folder_, artifact_;
};
std::string Verbs::folder_, Verbs::artifact_;

TEST_F(Verbs, VerifyPlantsSpecialValues) {
  const Json json = FusecJson({"verify", artifact_, "--model", kModels + "lora_mlp.dynamo.onnx",
                               "--special-values", "--json", "--dim", "s77=64"});
  EXPECT_TRUE(json["pass"]);
  ASSERT_EQ(json["outputs"].size(), 2u);
  EXPECT_EQ(json["outputs"][0]["planted"], "NaN, zeros, denormals");
  EXPECT_EQ(json["outputs"][0]["left_out"], 0);
  EXPECT_EQ(json["outputs"][1]["planted"], "infinities, greatest");
  // About half of the rows have one, and everything computed from these rows depends on it.
  EXPECT_GT(json["outputs"][1]["left_out"], 16 * 4);
  EXPECT_LT(json["outputs"][1]["left_out"], 48 * 4);
  ExpectError({"verify", artifact_, "--special-values", "--per-fusion"}, 2, "excludes");
}

TEST_F(Verbs, RunWritesWhatItComputed) {
  const std::string out = folder_ + "/out";
  const ChildResult child = Fusec({"run", artifact_, "--random", "--seed", "3", "--output", out});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  const Json explained = FusecJson({"explain", artifact_, "--json"});
  int files = 0;
  for (const auto& entry : fs::directory_iterator(out)) {
    const auto data = ReadNpy(entry.path());
    ASSERT_TRUE(data) << data.error().message;
    EXPECT_EQ(data->dims()[0], 64);
    ++files;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(Verbs, RunNamesWhatIsWrongWithItsInputs) {
  const std::string path = folder_ + "/x.npy";
  ASSERT_TRUE(WriteNpy(path, TensorData(Dtype::kF64, {2, 16})));
  ExpectError({"run", artifact_, "--input", "nobody=" + path}, 6, "no input is called \"nobody\"");
  ExpectError({"run", artifact_, "--input", "in0=" + path}, 6, "is f64[2, 16], expected f32[");
  ASSERT_TRUE(WriteNpy(path, TensorData(Dtype::kF32, {2, 15})));
  ExpectError({"run", artifact_, "--input", "in0=" + path}, 6, "in0");
  ExpectError({"run", artifact_}, 6, "input \"in0\" has no data");
  ExpectError({"run", artifact_, "--input", "in0=" + folder_ + "/none.npy"}, 6, "none.npy");
  ExpectError({"run", artifact_, "--random", "--dim", "nobody=3"}, 2, "no dim \"nobody\"");
}

TEST_F(Verbs, JsonKeysAreAPromise) {
  const Json verified = FusecJson({"verify", artifact_, "--model", kModels + "lora_mlp.dynamo.onnx",
                                   "--device", "cpu", "--json"});
  ExpectKeys(verified, {"against", "outputs"});
  ASSERT_FALSE(verified["outputs"].empty());
  ExpectKeys(verified["outputs"][0], {"name", "max_abs", "max_rel", "rel_l2", "tolerance", "pass"});

  const Json cells =
      FusecJson({"bench", artifact_, "--device", "cpu", "--seconds", "0.02", "--json"});
  ASSERT_EQ(cells.size(), 1u);
  const Json& bench = cells[0];
  ExpectKeys(bench, {"device_us", "call_us", "launches", "bytes", "flops", "device", "dims"});
  ExpectKeys(bench["call_us"], {"median", "p10", "p90", "p99"});
  EXPECT_GT(bench["call_us"]["median"], 0);
  EXPECT_EQ(bench["host_memory"], "pageable");  // of the CPU

  const Json explained = FusecJson({"explain", artifact_, "--json"});
  ExpectKeys(explained, {"launches", "kernels", "not_fused", "before", "after"});
  ExpectKeys(explained["before"], {"launches", "bytes"});
  EXPECT_EQ(explained["kernels"].size(), explained["launches"]);
  ExpectKeys(explained["kernels"][0], {"name", "class", "ops", "onnx_nodes", "inputs", "outputs",
                                       "bytes_read", "bytes_written", "flops"});
  EXPECT_EQ(explained["launches"], bench["launches"]);

  const Json ops = FusecJson({"--list-ops", "--json"});
  ExpectKeys(ops[0], {"name", "onnx", "since_versions", "dtypes", "class"});
  for (const Json& op : ops) {
    EXPECT_TRUE(op["onnx"] != "Add" || op["since_versions"] == Json({1, 6, 7, 13, 14})) << op;
    EXPECT_TRUE(op["onnx"] == "" || op["class"] == "function" || !op["dtypes"].empty()) << op;
  }
}

TEST_F(Verbs, ExplainHasAReasonForEveryEdgeThatIsNotFused) {
  const Json explained = FusecJson({"explain", artifact_, "--json"});
  ASSERT_FALSE(explained["not_fused"].empty());
  for (const Json& edge : explained["not_fused"]) {
    ExpectKeys(edge, {"producer", "consumer", "reason", "needed", "tensor", "type", "bytes"});
    EXPECT_TRUE(edge["reason"].get<std::string>().starts_with("fuse-")) << edge;
    EXPECT_NE(edge["needed"], "");
    EXPECT_GT(edge["bytes"], 0);
  }
}

TEST_F(Verbs, BenchGoesRoundGivenInputs) {
  std::vector<std::string> arguments = {"bench", artifact_, "--device", "cpu", "--seconds", "0.01",
                                        "--json", "--output", folder_ + "/bench"};
  const ChildResult writer =
      RunChild({FUSEC_PYTHON, "-c",
                "import numpy, sys\n"
                "for i, batch in enumerate([3, 5, 3]):\n"
                "    zeros = numpy.zeros((batch, 16), numpy.float32)\n"
                "    numpy.savez(f'{sys.argv[1]}/set{i}.npz', in0=zeros)",
                folder_});
  ASSERT_EQ(writer.exit_code, 0) << writer.errors;
  for (const char* name : {"/set0.npz", "/set1.npz", "/set2.npz"})
    arguments.insert(arguments.end(), {"--inputs", folder_ + name});
  const Json cells = FusecJson(arguments);
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0]["dims"].begin().value(), 3);
  EXPECT_EQ(cells[1]["dims"].begin().value(), 5);
  for (const auto& entry : fs::directory_iterator(folder_ + "/bench/1")) {
    const auto data = ReadNpy(entry.path());
    ASSERT_TRUE(data) << data.error().message;
    EXPECT_EQ(data->dims()[0], 5);
  }
  arguments.insert(arguments.end(), {"--dim", "s77=3"});
  ExpectError(arguments, 2, "--inputs has sizes of its own");
}

TEST_F(Verbs, BenchTimesEveryKernelAndContextsTogether) {
  const std::string trace_path = folder_ + "/trace.json";
  const Json cells = FusecJson({"bench", artifact_, "--device", "cpu", "--seconds", "0.02", "--rotate", "2",
                                "--contexts", "2", "--per-kernel", "--trace", trace_path, "--json"});
  const Json& bench = cells[0];
  EXPECT_EQ(bench["rotate"], 2);
  ExpectKeys(bench["throughput"], {"contexts", "runs_per_second", "call_us"});
  EXPECT_GT(bench["throughput"]["runs_per_second"], 0);
  EXPECT_GT(bench["peak"]["bytes_per_second"], 0);
  ASSERT_EQ(bench["kernels"].size(), bench["launches"]);
  int64_t bytes = 0;
  for (const Json& kernel : bench["kernels"]) {
    ExpectKeys(kernel, {"name", "us", "bytes_read", "bytes_written", "flops", "floor_us", "of_bandwidth"});
    EXPECT_GT(kernel["us"]["median"], 0);
    bytes += kernel["bytes_read"].get<int64_t>() + kernel["bytes_written"].get<int64_t>();
  }
  EXPECT_EQ(bench["bytes"], bytes);

  const auto text = ReadWholeFile(trace_path, ErrorKind::kInput);
  ASSERT_TRUE(text) << text.error().message;
  const Json trace = Json::parse(*text);
  EXPECT_NE(trace["otherData"]["times"], "");
  size_t slices = 0;
  double end_us = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_EQ(event["name"], bench["kernels"][slices]["name"]);
    EXPECT_DOUBLE_EQ(event["ts"], end_us);
    EXPECT_EQ(event["args"]["bytes read"], bench["kernels"][slices]["bytes_read"]);
    end_us += event["dur"].get<double>();
    ++slices;
  }
  EXPECT_EQ(slices, bench["kernels"].size());
}

TEST_F(Verbs, ExplainShowsAKernelsCode) {
  const Json explained = FusecJson({"explain", artifact_, "--json"});
  for (const Json& kernel : explained["kernels"]) {
    const std::string name = kernel["name"];
    const ChildResult child = Fusec({"explain", artifact_, "--kernel", name});
    EXPECT_EQ(child.exit_code, 0) << child.errors;
    for (const std::string& part : {name, std::string("-- ONNX nodes --"), std::string("graph @")})
      EXPECT_NE(child.output.find(part), std::string::npos) << part;
  }
  EXPECT_NE(Fusec({"explain", artifact_, "--dot"}).output.find("subgraph cluster_0"),
            std::string::npos);
  ExpectError({"explain", artifact_, "--kernel", "k99"}, 2, "no kernel \"k99\"");
  ExpectError({"explain", artifact_, "--target", "sm_1"}, 2, "no target \"sm_1\"");
}

TEST_F(Verbs, RoundingIsRecorded) {
  EXPECT_EQ(FusecJson({"explain", artifact_, "--json"})["rounding"], "stores");
  const std::string out = folder_ + "/rounded";
  const ChildResult child = Fusec({kModels + "lora_mlp.dynamo.onnx", "-o", out, "--target", "cpu", "--cpu-level",
                                   "native", "--round-every-op"});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_EQ(FusecJson({"explain", out, "--json"})["rounding"], "every op");
  EXPECT_NE(Fusec({"explain", out}).output.find("rounding after every op"), std::string::npos);
}

TEST_F(Verbs, IndexPolicyIsRecordedAndObeyed) {
  const std::string model = folder_ + "/lookup.onnxtxt", ids = folder_ + "/ids.npy";
  std::ofstream(model) << R"(<ir_version: 10, opset_import: ["" : 20]>
g (int64[batch] ids) => (float[batch, 1] y)
<float[5, 1] table = {10, 11, 12, 13, 14}> { y = Gather(table, ids) })";
  ASSERT_TRUE(WriteNpy(ids, TensorData::From<int64_t>(Dtype::kI64, {6}, {4, -5, 5, -6, 12, -13})));
  const std::map<std::string, std::vector<double>> expected = {
      {"clamp", {14, 10, 14, 10, 14, 10}},
      {"wrap", {14, 10, 10, 14, 12, 12}},
      {"zero", {14, 10, 0, 0, 0, 0}}};
  for (const auto& [policy, answers] : expected) {
    const std::string out = folder_ + "/" + policy;
    const ChildResult child = Fusec({model, "-o", out, "--target", "cpu", "--cpu-level", "x86-64-v3",
                                     "--index-policy", policy});
    ASSERT_EQ(child.exit_code, 0) << child.errors;
    EXPECT_EQ(FusecJson({"explain", out, "--json"})["index_policy"], policy);
    EXPECT_NE(Fusec({"explain", out}).output.find("index policy " + policy), std::string::npos);
    const ChildResult run = Fusec({"run", out, "--input", "ids=" + ids, "--output", out + "_y"});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const auto y = ReadNpy(out + "_y/y.npy");
    ASSERT_TRUE(y) << y.error().message;
    for (size_t i = 0; i < answers.size(); ++i)
      EXPECT_EQ(y->GetDouble(static_cast<int64_t>(i)), answers[i]) << policy << " of id " << i;
    const auto source = ReadArtifactSource(out);  // what tune would write again
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ(source->contents.index_policy, policy);
    std::ostringstream kernels;
    kernels << std::ifstream(out + "/cpu/kernels.cc").rdbuf();
    EXPECT_EQ(kernels.str().find("CheckedIndex"), std::string::npos) << "nothing is left to check";
    const ChildResult verified = Fusec({"verify", out, "--model", model});
    EXPECT_EQ(verified.exit_code, 0) << verified.errors;
  }
}

TEST_F(Verbs, BadUsageIsOneClearLine) {
  const std::string model = kModels + "lora_mlp.dynamo.onnx", out = folder_ + "/never";
  ExpectError({model}, 2, "--output");
  ExpectError({model, "-o", out, "--nonsense"}, 2, "--nonsense");
  ExpectError({model, "-o", out, "--disable-fusion", "nobody"}, 2, "; there are ");
  ExpectError({model, "-o", out, "--disable-fusion", "fuse-row-reductions"}, 2,
              "did you mean \"fuse-row-reduction\"?");
  ExpectError({model, "-o", out, "--matmul-precision", "best"}, 2, "best");
  ExpectError({model, "-o", out, "--index-policy", "nearest"}, 2, "nearest");
  ExpectError({model, "-o", out, "--target", "sm_x"}, 2, "sm_x");
  ExpectError({"run", artifact_, "--random", "--ids", "normal"}, 2, "--ids: normal not in {uniform,zipf}");
  ExpectError({model, "-o", kModels}, 2, "is not a fusec artifact");
  ExpectError({folder_ + "/none.onnx", "-o", out}, 3, "none.onnx");
  ExpectError({"run", model, "--random"}, 5, "is a file, expected the folder of an artifact");
  ExpectError({"bench", kModels}, 5, "no manifest.json");
  ExpectError({"explain", folder_ + "/none"}, 5, "does not exist");
  ExpectError({"verify", artifact_}, 2, "--model");
  ExpectError({"opt", folder_ + "/none.ir", "--passes=canonicalize"}, 3, "none.ir");
  ExpectError({"opt", folder_ + "/none.ir", "--passes=nobody"}, 2, "there are eliminate-");
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(Fusec({}).exit_code, 2);
  for (const char* verb : {"compile", "run", "verify", "bench", "explain", "opt"}) {
    const ChildResult help = Fusec({verb, "-h"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_NE(help.output.find("example: fusec "), std::string::npos) << help.output;
  }
}

TEST_F(Verbs, OptPrintsWhatPassesMake) {
  const std::string path = folder_ + "/g.ir";
  std::ofstream(path) << "graph @g(%x \"x\": f32[4]) {\n  %a = neg(%x) : f32[4]\n"
                         "  %b = relu(%x) : f32[4]\n  return %b \"y\"\n}\n";
  const ChildResult child = Fusec({"opt", path, "--passes=eliminate-dead-nodes"});
  EXPECT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_EQ(child.output.find("neg"), std::string::npos);
  EXPECT_NE(child.output.find("%b = relu(%x)"), std::string::npos);
  EXPECT_EQ(Fusec({"opt", "--passes=help"}).exit_code, 0);
}

}  // namespace
}  // namespace fusec
