#include "runtime/src/artifact/manifest.h"

#include <fusec/fusec.hpp>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/artifact/hash.h"
#include "runtime/src/artifact/safetensors.h"
#include "runtime/src/artifact/step_order.h"
#include "tests/unit/runtime/tiny_artifact.h"

namespace fusec::runtime {
namespace {

struct Edit {
  const char* from;
  const char* to;
  const char* error;
};

constexpr Edit kEdits[] = {
    {"\"version\": 5", "\"version\": 3",
     "version is 3, expected 5; compile the model with this release"},
    {"fusec-artifact", "onnx", "format is \"onnx\", expected \"fusec-artifact\""},
    {"\"model\": \"tiny.onnx\", ", "", "model is missing"},
    {"\"highest\"", "\"best\"",
     "matmul_precision is \"best\", expected one of highest high medium"},
    {"\"min\": 0", "\"min\": -1",
     "symbols[0].min is -1, expected an integer in 0..4611686018427387904"},
    {"\"max\": 65536", "\"max\": \"many\"",
     "symbols[0].max is \"many\", expected an integer in 0.."},
    {"\"batch\", \"3\"", "\"rows\", \"3\"", "inputs[0].shape[0]: bad dim expression \"rows\""},
    {"\"batch\", \"3\"", "\"batch\", 3", "inputs[0].shape[1] is 3, expected a text"},
    {"\"dtype\": \"i64\"", "\"dtype\": \"int\"", "inputs[1].dtype is \"int\", expected a dtype"},
    {"\"dtype\": \"i64\"", "\"dtype\": \"i32\"", "inputs[1].buffer is 1, expected a buffer of i32"},
    {"\"buffer\": 1}", "\"buffer\": 0}",
     "inputs[1].buffer is 0, expected a buffer of its own of kind input"},
    {"\"buffer\": 6}", "\"buffer\": 99}", "outputs[0].buffer is 99, expected one of the 7 buffers"},
    {"\"kind\": \"arena\"", "\"kind\": \"stack\"",
     "buffers[5].kind is \"stack\", expected one of input"},
    {"\"kind\": \"arena\"", "\"kind\": \"output\"", "buffers[5] belongs to none of the outputs"},
    {"\"elements\": \"12\"", "\"elements\": \"batch\"",
     "buffers[2].elements is \"batch\", expected a number"},
    {"\"buffer\": 1}", "\"buffer\": 1, \"index_limits\": []}",
     "inputs[1].index_axis is missing"},
    {"\"buffer\": 1}", "\"buffer\": 1, \"index_limits\": [\"3\", \"4\"], \"index_axis\": 7}",
     "inputs[1].index_axis is 7, expected an integer in 0.."},
    {"\"buffer\": 1}", "\"buffer\": 1, \"index_limits\": [\"3\", \"4\"], \"index_axis\": 0}",
     "inputs[1].index_limits has 2 limits, expected 1 or batch"},
    {"\"buffer\": 6}", "\"buffer\": 6, \"sizes\": [0, -1]}",
     "sizes of \"y\" do not name one of the 0 run-time sizes for each axis"},
    {"\"buffer\": 6}", "\"buffer\": 6, \"sizes\": [-2, -1]}",
     "outputs[0].sizes[0] is -2, expected an integer in -1.."},
    {"\"outputs\": [{",
     "\"run_time_sizes\": {\"name\": \"s\", \"dtype\": \"f32\", \"shape\": [\"1\"], \"buffer\": 5}, "
     "\"outputs\": [{",
     "run_time_sizes.buffer is 5, expected a buffer of its own of kind output"},
    {"\"extent\": \"10\"", "\"extent\": null", "index_sites[0].extent is null, expected a text"},
    {"\"targets\": {",
     "\"tables\": [{\"table\": \"t\", \"dtype\": \"f32\", \"rows\": 1, \"columns\": 4, \"storage\": \"f32\", \"buffer\": 5}], "
     "\"targets\": {",
     "tables[0].buffer is 5, expected a constant of f32 with 16 bytes"},
    {"\"targets\": {", "\"targets\": [], \"t\": {", "targets is a list, expected an object"},
    {"\"kind\": \"matmul\"", "\"kind\": \"conv\"",
     "targets.cpu.steps[0].kind is \"conv\", expected one of kernel matmul"},
    {"\"transpose_a\": false", "\"transpose_a\": 0",
     "targets.cpu.steps[0].transpose_a is 0, expected true or false"},
    {"\"outputs_in_device_memory\": false", "\"outputs_in_device_memory\": 0",
     "targets.cpu.steps[1].outputs_in_device_memory is 0, expected true or false"},
    {"\"bias\": 3", "\"bias\": 1", "targets.cpu.steps[0].bias is 1, expected a buffer of f32"},
    {"\"bias\": 3", "\"bias\": 3, \"addend\": 1", "targets.cpu.steps[0].addend is 1, expected a buffer of f32"},
    {"\"bias\": 3", "\"bias\": 3, \"bias_stride\": 4",
     "targets.cpu.steps[0].bias_stride is 4, expected a text"},
    {"\"bias\": 3", "\"bias\": 3, \"addend\": 4",
     "steps[0].inputs is [0, 2, 3], but the step passes buffers [0, 2, 3, 4]"},
    {"\"inputs\": [0, 2, 3]", "\"inputs\": [0, 2]",
     "steps[0].inputs is [0, 2], but the step passes buffers [0, 2, 3]"},
    {"\"inputs\": [0, 2, 3]", "\"inputs\": [2, 0, 3]",
     "steps[0].inputs is [2, 0, 3], but the step passes buffers [0, 2, 3]"},
    {"\"outputs\": [6]", "\"outputs\": [6, 5]",
     "steps[1].inputs is [5, 1, 4], but the step passes buffers [1, 4]"},
    {"\"name\": \"y\"", "\"name\": \"z\"", "outputs[0].buffer is 6, expected the buffer of that name"},
    {"{\"buffer\": 5}, {\"buffer\": 1}, {\"buffer\": 4}, {\"buffer\": 6},\n   {\"dim\": \"batch\", \"type\": \"i32\"}, "
     "{\"errors\": true}], \"inputs\": [5, 1, 4], \"outputs\": [6]",
     "{\"buffer\": 6}, {\"buffer\": 1}, {\"buffer\": 4}, {\"buffer\": 5}, {\"errors\": true}], \"inputs\": [6, 1, 4], "
     "\"outputs\": [5]",
     "targets.cpu.steps: \"k01_gather_add\" reads buffer \"y\", which no step before it writes"},
    {"{\"buffer\": 6},\n   {\"dim\": \"batch\", \"type\": \"i32\"}, {\"errors\": true}], \"inputs\": [5, 1, 4], "
     "\"outputs\": [6]",
     "{\"errors\": true}], \"inputs\": [1, 4], \"outputs\": [5]",
     "targets.cpu.steps: none writes output \"y\""},
    {"\"outputs\": [5]", "\"outputs\": [5, 2]",
     "steps[0].outputs has buffer 2, which cannot be written"},
    {"\"block_size\": 1",
     "\"when\": {\"size\": \"batch\", \"from\": 9, \"to\": 8}, \"block_size\": 1",
     "steps[1].when.to is 8, expected an integer in 9.."},
    {"\"block_size\": 1", "\"block_size\": 5000",
     "steps[1].block_size is 5000, expected an integer in 1..1024"},
    {"{\"errors\": true}", "{}",
     "steps[1].arguments[5] is an object, expected a buffer, dim or errors argument"},
    {"\"native\": \"cpu/", "\"native\": \"../cpu/",
     "files.native is \"../cpu/kernels-native.so\", expected a path inside"},
    {"\"weights.safetensors\": \"", "\"weights.safetensors\": \"x",
     "expected an XXH3-128 hash of 32 hexadecimal digits"},
    {"]}}", "", "is not valid JSON"},
    {"\"elements\": \"40\"", "\"elements\": \"41\"",
     "weights.safetensors: tensor \"table\" has 160 bytes of F32, expected 41 of F32"},
    {"\"tensor\": \"bias\"", "\"tensor\": \"bios\"",
     "has no tensor \"bios\", which the manifest's buffers[3] names"},
};

TEST(ManifestTest, EveryMistakeNamesFileAndKey) {
  for (const Edit& edit : kEdits) {
    const TinyArtifact artifact;
    artifact.EditManifest(edit.from, edit.to);
    const auto opened = Artifact::Open(artifact.path());
    ASSERT_FALSE(opened) << edit.error;
    EXPECT_EQ(opened.error().code, FUSEC_BAD_ARTIFACT);
    EXPECT_TRUE(opened.error().message.starts_with(artifact.path())) << opened.error().message;
    EXPECT_NE(opened.error().message.find(edit.error), std::string::npos)
        << opened.error().message << "\n" << edit.error;
  }
}

// Tuning launches a kernel several times in a run, to separate its time from that of a launch.
TEST(RunOrderTest, OneAlternativeOfSeveralRuns) {
  Manifest manifest;
  manifest.buffers.resize(1);
  Step step;
  step.when = SizeRange{.from = 0, .to = 0};
  step.name = "k00_add";
  step.outputs = {0};
  EXPECT_TRUE(CheckRunOrder(manifest, {step, step}, {}));
  Step other = step;
  other.name = "k00_add_rows_4";
  const Status status = CheckRunOrder(manifest, {step, other}, {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "steps \"k00_add\" and \"k00_add_rows_4\" make the same values, but both run for these "
            "dims");
}

TEST(ManifestTest, OutputsLieInDeviceMemoryUnlessItSaysOtherwise) {
  const TinyArtifact artifact;
  const auto on_device = [&artifact] {
    const auto opened = Artifact::Open(artifact.path());
    EXPECT_TRUE(opened) << opened.error().message;
    return (*opened)->manifest().targets.at("cpu").steps[1].kernel.outputs_in_device_memory;
  };
  EXPECT_FALSE(on_device());
  artifact.EditManifest("\"outputs_in_device_memory\": false,", "");
  EXPECT_TRUE(on_device());
}

// A manifest with a hash must not be changed in any byte; one without the hash may be edited.
TEST(ManifestTest, AnAlteredManifestIsRefused) {
  const TinyArtifact artifact;
  const std::string text = artifact.Read("manifest.json");
  const std::string keys = text.substr(text.find('\n') + 1);
  const std::string start = std::string(kManifestHash) +
                            Hash128(std::as_bytes(std::span(keys.data(), keys.size()))) +
                            std::string(kManifestHashEnd);
  EXPECT_TRUE(ParseManifest("{\n" + keys, "manifest.json"));
  EXPECT_TRUE(ParseManifest(start + keys, "manifest.json"));
  std::string other = keys;
  other.replace(other.find("batch*4"), 7, "batch*3");
  EXPECT_TRUE(ParseManifest("{\n" + other, "manifest.json"));
  for (const std::string& altered : {start + other, start + keys + "\n", start}) {
    const auto manifest = ParseManifest(altered, "manifest.json");
    ASSERT_FALSE(manifest);
    EXPECT_EQ(manifest.error().code, FUSEC_BAD_ARTIFACT);
    EXPECT_TRUE(manifest.error().message.starts_with("manifest.json: was altered: its hash is "))
        << manifest.error().message;
  }
}

// Whatever bytes change, loading gives a program or an error of one line.
TEST(ManifestTest, SurvivesRandomDamage) {
  const TinyArtifact artifact;
  const std::string good = artifact.Read("manifest.json");
  std::mt19937 random(11);
  const char kBytes[] = "0123456789-{}[]\",:abtx \\\x80";
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (int change = static_cast<int>(random() % 3); change >= 0; --change) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = kBytes[random() % (sizeof(kBytes) - 1)]; break;
        case 1: text.erase(at, random() % 20); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 40)); break;
      }
    }
    const auto manifest = ParseManifest(text, "manifest.json");
    if (manifest) continue;
    EXPECT_EQ(manifest.error().message.find('\n'), std::string::npos) << manifest.error().message;
    EXPECT_TRUE(manifest.error().message.starts_with("manifest.json: "))
        << manifest.error().message;
  }
}

std::string StoredFile(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + data;
}

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(SafetensorsTest, ReadsTensorsAndSkipsMetadata) {
  const std::string file = StoredFile(
      R"({"__metadata__":{"by":"us"},"w":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
      "abcd");
  const auto tensors = ReadSafetensors(BytesOf(file), "w.safetensors");
  ASSERT_TRUE(tensors);
  ASSERT_EQ(tensors->size(), 1u);
  EXPECT_EQ(std::memcmp(tensors->at("w").bytes.data(), "bc", 2), 0);
}

TEST(SafetensorsTest, RefusesDamage) {
  const auto error = [](const std::string& file) {
    const auto tensors = ReadSafetensors(BytesOf(file), "w.safetensors");
    EXPECT_FALSE(tensors);
    return tensors ? "" : tensors.error().message;
  };
  const std::string huge(8, '\xff');
  EXPECT_EQ(error(""), "w.safetensors: has 0 bytes, its header needs 8 + 0");
  EXPECT_EQ(error(huge + "{}"),
            "w.safetensors: has 10 bytes, its header needs 8 + 18446744073709551615");
  EXPECT_EQ(error(StoredFile("{", "")), "w.safetensors: is not valid JSON");
  EXPECT_EQ(error(StoredFile("[]", "")),
            "w.safetensors: the document is a list, expected an object");
  for (const char* offsets :
       {"[0,5]", "[3,2]", "[0]", "[-1,2]", "[0,18446744073709551615]", "\"ab\""}) {
    const std::string header =
        R"({"w":{"dtype":"U8","shape":[4],"data_offsets":)" + std::string(offsets) + "}}";
    EXPECT_NE(error(StoredFile(header, "abcd")).find("w.safetensors: w.data_offsets"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace fusec::runtime
