// Damaged files give a result or an error that names them, and never a crash or a hang.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/driver/build/pipeline.h"
#include "compiler/import/import.h"
#include "compiler/package/weights_file.h"
#include "compiler/plan/plan_program.h"
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/read_file.h"
#include "passes/pass_manager.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

using Random = std::mt19937_64;

// The file cut somewhere, or with a few bytes changed, removed or repeated.
std::string Damaged(std::string bytes, Random& random) {
  if (random() % 4 == 0) return bytes.substr(0, random() % bytes.size());
  for (int change = static_cast<int>(random() % 6); change >= 0 && !bytes.empty(); --change) {
    const size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.erase(at, random() % 20);
        break;
      default:
        bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 8));
        break;
    }
  }
  return bytes;
}

void ExpectNamed(const Error& error, const std::string& path) {
  EXPECT_TRUE(error.message.starts_with(path + ": ")) << error.message;
}

class Damage : public testing::Test {
 protected:
  // `use` takes the path of a damaged copy of `file`, for as many seeds as the settings say.
  template <class Use>
  void ForDamagedCopies(const std::string& file, const Use& use) {
    const auto folder = MakeTemporaryFolder();
    ASSERT_TRUE(folder) << folder.error().message;
    const TemporaryFolder cleanup(*folder);
    const std::string path = *folder + "/" + std::filesystem::path(file).filename().string();
    const auto bytes = ReadWholeFile(FUSEC_SOURCE_DIR "/models/" + file, ErrorKind::kModel);
    ASSERT_TRUE(bytes) << bytes.error().message;
    for (const uint64_t seed : SeedsToRun(300)) {
      const NowTrying trying(seed, Graph());
      Random random(seed);
      ASSERT_TRUE(WriteFile(path, Damaged(*bytes, random)));
      use(path);
    }
  }
};

TEST_F(Damage, ModelsAreRefusedOrCompiled) {
  for (const char* file : {"lora_mlp.ts.onnx", "lora_mlp.dynamo.onnx"}) {
    ForDamagedCopies(file, [](const std::string& path) {
      auto model = ImportOnnx(path, {});
      if (!model) return ExpectNamed(model.error(), path);
      PassManager manager;
      ASSERT_TRUE(manager.Run(*model->graph, PipelinePasses(TargetKind::kGpu)));
      for (const TargetKind target : {TargetKind::kCpu, TargetKind::kGpu}) {
        std::vector<IndexSite> sites;
        EXPECT_TRUE(PlanProgram(*model->graph, {target, "highest", &GpuFor("sm_90")}, sites));
      }
    });
  }
}

TEST_F(Damage, ArchivesAreRefusedOrRead) {
  ForDamagedCopies("lora_mlp.golden.npz", [](const std::string& path) {
    const auto tensors = ReadNpz(path);
    if (!tensors) ExpectNamed(tensors.error(), path);
  });
}

TEST_F(Damage, ArraysAreRefusedOrRead) {
  const TensorData array(Dtype::kI64, {3, 4});
  for (const uint64_t seed : SeedsToRun(3000)) {
    const NowTrying trying(seed, Graph());
    Random random(seed);
    const auto read = ParseNpy(Damaged(NpyBytes(array), random), "x.npy");
    if (!read) ExpectNamed(read.error(), "x.npy");
  }
}

}  // namespace
}  // namespace fusec
