// `fusec tune` as users call it, on the CPU; the procedure is the same on a GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/driver/tune/artifact_source.h"
#include "compiler/driver/tune/region_race.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/read_file.h"
#include "tests/end_to_end/program_test.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kModels = FUSEC_SOURCE_DIR "/models/";

class Tune : public testing::Test {
 protected:
  Tune() : folder_(*MakeTemporaryFolder()), artifact_(folder_ + "/lola") {
    setenv("FUSEC_CACHE_DIR", (folder_ + "/cache").c_str(), 1);
    const ChildResult child =
        Fusec({kModels + "lola.dynamo.onnx", "-o", artifact_, "--target", "cpu,sm_90a",
               "--cpu-level", "native", "--dim", "s77=1..4096"});
    EXPECT_EQ(child.exit_code, 0) << child.errors;
  }
  ~Tune() override {
    fs::remove_all(folder_);
    unsetenv("FUSEC_CACHE_DIR");
  }

  ChildResult TuneIt(ArrayRef<std::string> more) {
    std::vector<std::string> arguments = {"tune", artifact_, "--device", "cpu"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Fusec(arguments);
  }
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(artifact_)) {
      if (entry.is_regular_file())
        files[entry.path().lexically_relative(artifact_)] =
            *ReadWholeFile(entry.path(), ErrorKind::kArtifact);
    }
    return files;
  }
  // Writes tuning.json with another winner for the first region at its last size, as if it had been measured.
  void Choose(const KernelChoice& choice) const {
    ArtifactSource source = *ReadArtifactSource(artifact_);
    MeasuredSize& size = source.tuning.at("cpu").regions.at(0).sizes.back();
    size.kernels.push_back({choice, 0.1, ""});
    size.winner = size.kernels.size() - 1;
    for (TargetSource& target : source.targets) {
      if (target.name == "cpu") target.tuning = source.tuning.at("cpu").Winners();
    }
    ASSERT_TRUE(WriteAgain(std::move(source), artifact_));
  }

  const std::string folder_, artifact_;
};

TEST_F(Tune, PrintsEveryKernelAndRemembersTheTimes) {
  const ChildResult first = TuneIt({"--dim", "s77=1,64", "--table"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_NE(first.output.find("blocks of 1024 elements"), std::string::npos) << first.output;
  EXPECT_NE(first.output.find("library"), std::string::npos) << first.output;
  EXPECT_NE(first.output.find("winner"), std::string::npos) << first.output;
  EXPECT_NE(first.errors.find("4 measurements and 0 remembered"), std::string::npos)
      << first.errors;

  const ChildResult second = TuneIt({"--dim", "s77=1,64", "--table"});
  EXPECT_NE(second.errors.find("0 measurements and 4 remembered"), std::string::npos)
      << second.errors;
  EXPECT_EQ(second.output, first.output);
  // The other exporter's model has the same regions under other names.
  const std::string other = folder_ + "/other";
  Fusec({kModels + "lola.ts.onnx", "-o", other, "--target", "cpu", "--cpu-level", "native"});
  const ChildResult shared = Fusec({"tune", other, "--device", "cpu", "--dim", "batch=1,64"});
  EXPECT_NE(shared.errors.find("0 measurements and 4 remembered"), std::string::npos)
      << shared.errors;

  const ChildResult explained = Fusec({"explain", artifact_, "--target", "cpu"});
  EXPECT_NE(explained.output.find("chosen by measuring on fusec"), std::string::npos);
  EXPECT_NE(explained.output.find("runner-up"), std::string::npos);
  const Json json = Json::parse(Fusec({"explain", artifact_, "--target", "cpu", "--json"}).output);
  EXPECT_TRUE(json["tuning"]["device"].get<std::string>().starts_with("fusec"));
  const Json& choices = json["tuning"]["choices"];
  ASSERT_EQ(choices.size(), 4u) << choices.dump(1);
  for (const Json& choice : choices) {
    const std::string& words = choice["chosen"].get_ref<const std::string&>();
    EXPECT_NE(explained.output.find(words), std::string::npos) << words;
    EXPECT_GT(choice["us"], 0);
    EXPECT_GT(choice["planned_us"], 0);
    EXPECT_TRUE(choice["dims"] == Json({{"s77", 1}}) || choice["dims"] == Json({{"s77", 64}}));
  }
}

TEST_F(Tune, BuildsTheSameBytesWhereNothingIsChosen) {
  const auto before = Files();
  ASSERT_TRUE(WriteAgain(*ReadArtifactSource(artifact_), artifact_));
  EXPECT_EQ(Files(), before);
}

// `fusec refit` and others ask what the flags of the compilation were.
TEST_F(Tune, KeepsWhatFlagsSaid) {
  const ChildResult child =
      Fusec({kModels + "lora_mlp.ts.onnx", "-o", artifact_, "--target", "cpu", "--cpu-level",
             "native", "--updatable", "*", "--disable-fusion", "fuse-pointwise", "--index-policy",
             "clamp", "--batch-invariant"});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  const auto before = Files();
  ASSERT_TRUE(WriteAgain(*ReadArtifactSource(artifact_), artifact_));
  EXPECT_EQ(Files(), before);
}

// Every kernel is measured at every size, and one of them serves all.
TEST_F(Tune, ChoosesOneKernelForEveryBatch) {
  const ChildResult child = Fusec({kModels + "lola.dynamo.onnx", "-o", artifact_, "--target", "cpu",
                                   "--cpu-level", "native", "--batch-invariant"});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  ASSERT_EQ(TuneIt({"--dim", "s77=1,64"}).exit_code, 0);
  const Json manifest = Json::parse(Files().at("manifest.json"));
  EXPECT_TRUE(manifest.at("batch_invariant"));
  for (const Json& step : manifest.at("targets").at("cpu").at("steps"))
    EXPECT_FALSE(step.contains("when")) << step.dump(1);
  const ArtifactSource source = *ReadArtifactSource(artifact_);
  for (const MeasuredRegion& region : source.tuning.at("cpu").regions) {
    ASSERT_EQ(region.sizes.size(), 2u);
    const MeasuredSize &one = region.sizes[0], &many = region.sizes[1];
    EXPECT_EQ(one.kernels.size(), many.kernels.size());
    EXPECT_EQ(one.kernels[one.winner].choice, many.kernels[many.winner].choice);
  }
  EXPECT_EQ(Fusec({"verify", artifact_, "--model", kModels + "lola.dynamo.onnx", "--device", "cpu"})
                .exit_code,
            0);
  const ChildResult explained = Fusec({"explain", artifact_, "--target", "cpu"});
  EXPECT_NE(explained.output.find("batch-invariant"), std::string::npos) << explained.output;
}

TEST_F(Tune, RunsWhatWasChosenAndAnswersTheSame) {
  ASSERT_EQ(TuneIt({"--dim", "s77=1,64"}).exit_code, 0);
  KernelChoice choice;
  choice.shape.chunk = 640;
  Choose(choice);
  const auto files = Files();
  EXPECT_NE(files.at("cpu/kernels.cc").find("_chunk_640"), std::string::npos);
  EXPECT_NE(files.at("manifest.json").find("_chunk_640"), std::string::npos);
  const ChildResult verified = Fusec({"verify", artifact_, "--device", "cpu", "--model",
                                      kModels + "lola.dynamo.onnx", "--dim", "s77=1,7,8,9,64,100"});
  EXPECT_EQ(verified.exit_code, 0) << verified.output << verified.errors;
  const ChildResult alone = Fusec({"verify", artifact_, "--device", "cpu", "--per-fusion"});
  EXPECT_EQ(alone.exit_code, 0) << alone.output << alone.errors;
}

TEST_F(Tune, LeavesAsPlannedWhatThereIsNoTimeFor) {
  const auto before = Files();
  const ChildResult child = TuneIt({"--time-limit", "0"});
  EXPECT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_NE(child.errors.find("10 measurements left out"), std::string::npos) << child.errors;
  const auto after = Files();
  EXPECT_EQ(after.at("cpu/kernels.cc"), before.at("cpu/kernels.cc"));
  EXPECT_EQ(Fusec({"run", artifact_, "--device", "cpu", "--random"}).exit_code, 0);
}

TEST_F(Tune, TakesSizesOfSeveralDimsTogether) {
  const std::string model = folder_ + "/attention";
  Fusec({std::string(FUSEC_SOURCE_DIR) + "/tests/end_to_end/models/lora_attention.dynamo.onnx",
         "-o", model, "--target", "cpu", "--cpu-level", "native"});
  const ChildResult child = Fusec({"tune", model, "--device", "cpu"});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  const Json explained = Json::parse(Fusec({"explain", model, "--target", "cpu", "--json"}).output);
  std::set<Json> dims;
  for (const Json& choice : explained["tuning"]["choices"]) dims.insert(choice["dims"]);
  for (const int64_t size : {1, 4, 11, 32, 64})
    EXPECT_TRUE(dims.count({{"batch", size}, {"seq", size}})) << size;
}

TEST_F(Tune, MeasuresAgainWhereTheCacheIsDamaged) {
  ASSERT_EQ(TuneIt({"--dim", "s77=64"}).exit_code, 0);
  for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/cache")) {
    if (entry.is_regular_file()) fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
  }
  const ChildResult child = TuneIt({"--dim", "s77=64"});
  EXPECT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_NE(child.errors.find("2 measurements and 0 remembered"), std::string::npos)
      << child.errors;
}

// Every candidate for the GPU is accepted by its compiler.
TEST_F(Tune, CompilesEveryCandidateForTheGpu) {
  const ArtifactSource source = *ReadArtifactSource(artifact_);
  const Graph& graph = *source.targets.at(1).graph;
  for (size_t number = 0; number < 2; ++number) {
    auto race = RegionRace::Make(graph, number, {"sm_90a", "highest", "cuda", "", {}},
                                 {{{"s0", 1}}, {{"s0", 16}}, {{"s0", 4096}}});
    ASSERT_TRUE(race) << race.error().message;
    const TemporaryFolder folder(*MakeTemporaryFolder());
    const auto compiled = race->Compile(folder.path());
    EXPECT_TRUE(compiled) << compiled.error().message;
  }
}

}  // namespace
}  // namespace fusec
