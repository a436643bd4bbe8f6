// LoRA adapters in slots: rows of a batch use different adapters, which are loaded during runs. A row's answer is that of the model with
// its adapter merged, which `fusec refit` makes.
//
//   FUSEC_TEST_SECONDS=10                       instead of one second
//   FUSEC_TEST_DEVICE=cuda                      on the first GPU
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <random>
#include <thread>

#include "runtime/src/artifact/artifact.h"
#include "tests/serving/served_model.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using serving::DeviceUnderTest;
using serving::RunFusec;

constexpr int64_t kBatch = 37, kInputs = 256, kOutputs = 64, kRank = 8, kSlots = 4;
constexpr double kTolerance = 1e-5;

// Tensors of a .safetensors file, f32.
struct FileTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

void WriteSafetensors(const fs::path& path, const std::vector<FileTensor>& tensors) {
  std::string header = "{", data;
  for (const FileTensor& tensor : tensors) {
    if (header.size() > 1) header += ",";
    header += "\"" + tensor.name + "\":{\"dtype\":\"F32\",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      header += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * 4);
    header += std::to_string(data.size()) + "]}";
  }
  header += "}";
  while (header.size() % 8 != 0) header += " ";
  const uint64_t size = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header << data;
}

// The matrices of adapter number `number`; 0 has zeros.
std::vector<FileTensor> PlainAdapter(int number) {
  std::mt19937 random(static_cast<unsigned>(number));
  std::normal_distribution<float> distribution(0, 0.2f);
  std::vector<FileTensor> tensors = {{"layers.0.A", {256, kRank}, {}},
                                     {"layers.0.B", {kRank, 128}, {}},
                                     {"layers.2.A", {128, kRank}, {}},
                                     {"layers.2.B", {kRank, 64}, {}}};
  for (FileTensor& tensor : tensors) {
    for (int64_t i = 0; i < tensor.shape[0] * tensor.shape[1]; ++i)
      tensor.values.push_back(number == 0 ? 0 : distribution(random));
  }
  return tensors;
}

// Saves it as PEFT does.
std::vector<FileTensor> PeftAdapter(int number) {
  std::vector<FileTensor> tensors = PlainAdapter(number);
  for (FileTensor& tensor : tensors) {
    const std::string module = tensor.name.substr(0, tensor.name.size() - 2);
    tensor.name = "base_model.model." + module + ".lora_" + tensor.name.back() + ".weight";
    const std::vector<float> values = tensor.values;
    const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
    for (int64_t i = 0; i < rows * columns; ++i)
      tensor.values[static_cast<size_t>(i % columns * rows + i / columns)] =
          values[static_cast<size_t>(i)];
    std::swap(tensor.shape[0], tensor.shape[1]);
  }
  return tensors;
}

// lora_mlp_256 with slots, and merged with each of some adapters.
class AdapterModels {
 public:
  static constexpr int kCount = 4;

  AdapterModels()
      : folder_(fs::temp_directory_path() / ("fusec_adapters_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    const std::string model = std::string(FUSEC_SOURCE_DIR) + "/models/lora_mlp_256.ts.onnx";
    const std::string target = " --target " + std::string(OnCpu() ? "cpu" : "native");
    RunFusec(model + " -o " + slots() + target + " --adapters slots=4,rank=12");
    RunFusec(model + " -o " + (folder_ / "own").string() + target);
    for (int number = 0; number < kCount; ++number) {
      WriteSafetensors(file(number), PlainAdapter(number));
      RunFusec("refit " + (folder_ / "own").string() + " --weights " + file(number) + " --model " +
               model + " -o " + merged(number));
    }
    RunFusec("refit " + slots() + " --weights " + file(3) + " --model " + model + " -o " +
             (folder_ / "refit").string());
  }
  ~AdapterModels() {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  static bool OnCpu() { return DeviceUnderTest() == "cpu"; }
  std::string slots() const { return folder_ / "slots"; }
  // `slots`, with adapter 3 as the model's own.
  std::string refit() const { return folder_ / "refit"; }
  std::string merged(int number) const { return folder_ / ("merged_" + std::to_string(number)); }
  std::string file(int number) const {
    return folder_ / ("adapter_" + std::to_string(number) + ".safetensors");
  }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

const AdapterModels& Models() {
  static const AdapterModels models;
  return models;
}

class Adapters : public testing::Test {
 protected:
  Adapters() : program_(Models().slots(), DeviceUnderTest().c_str()) {
    std::mt19937 random(1);
    std::normal_distribution<float> distribution;
    for (int64_t i = 0; i < kBatch * kInputs; ++i) x_.push_back(distribution(random));
  }

  std::vector<float> Run(const Program& program, const std::vector<int32_t>& ids) const {
    Context context(program);
    return RunIn(context, ids);
  }
  std::vector<float> RunIn(Context& context, const std::vector<int32_t>& ids) const {
    context.BindInput<float>("in0", x_, {kBatch, kInputs});
    if (!ids.empty()) context.BindInput<int32_t>("adapter_id", ids, {kBatch});
    context.Run();
    const auto values = context.Output<float>("out0");
    return {values.begin(), values.end()};
  }
  std::vector<float> Merged(int number) const {
    return Run(Program(Models().merged(number), DeviceUnderTest().c_str()), {});
  }
  // Whether row `row` of the answers is that of the model with this adapter.
  static bool IsRow(const std::vector<float>& answers, int64_t row,
                    const std::vector<float>& merged) {
    for (int64_t i = row * kOutputs; i < (row + 1) * kOutputs; ++i) {
      const auto at = static_cast<size_t>(i);
      if (std::abs(answers[at] - merged[at]) > kTolerance) return false;
    }
    return true;
  }
  std::string Load(int slot, const std::string& path) {
    try {
      program_.LoadAdapter(slot, path);
    } catch (const Exception& error) {
      return error.what();
    }
    return "";
  }
  fs::path PeftFolder(const std::string& name, const std::vector<FileTensor>& tensors,
                      const std::string& config) const {
    const fs::path folder = Models().folder() / name;
    fs::create_directories(folder);
    WriteSafetensors(folder / "adapter_model.safetensors", tensors);
    std::ofstream(folder / "adapter_config.json") << config;
    return folder;
  }

  Program program_;
  std::vector<float> x_;
};

TEST_F(Adapters, ARowIsThatOfTheMergedModel) {
  EXPECT_EQ(program_.adapter_slots(), kSlots);
  for (const int slot : {1, 2, 3}) program_.LoadAdapter(slot, Models().file(slot));
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < kBatch; ++row) ids.push_back(static_cast<int32_t>(row % 5) - 1);
  const std::vector<float> answers = Run(program_, ids);
  std::vector<std::vector<float>> merged;
  for (const int number : {0, 1, 2, 3}) merged.push_back(Merged(number));
  const std::vector<float> own =
      Run(Program(Models().folder() / "own", DeviceUnderTest().c_str()), {});
  for (int64_t row = 0; row < kBatch; ++row) {
    const int slot = ids[static_cast<size_t>(row)];
    const std::vector<float>& expected =
        slot == 0 ? own : merged[static_cast<size_t>(slot < 0 ? 0 : slot)];
    EXPECT_TRUE(IsRow(answers, row, expected)) << "row " << row << ", slot " << slot;
  }
  // Far enough from each other for the comparison to tell them apart.
  EXPECT_FALSE(IsRow(merged[1], 0, merged[2]));
  EXPECT_FALSE(IsRow(merged[0], 0, own));
}

TEST_F(Adapters, PeftFilesAreReadByTheirConfig) {
  const auto artifact = *runtime::Artifact::Open(Models().slots());
  const double alpha = artifact->manifest().adapters.sites[0].scale * kRank;
  const auto config = [](double number, const std::string& more = "") {
    return "{\"peft_type\": \"LORA\", \"r\": 8, \"bias\": \"none\", \"lora_alpha\": " +
           std::to_string(number) + more + "}";
  };
  const std::vector<float> merged = Merged(2);
  const std::vector<int32_t> ids(kBatch, 1);
  const auto is_merged = [&](const std::vector<float>& answers) {
    for (int64_t row = 0; row < kBatch; ++row) {
      if (!IsRow(answers, row, merged)) return false;
    }
    return true;
  };
  const fs::path plain = PeftFolder("peft", PeftAdapter(2), config(alpha));
  program_.LoadAdapter(1, plain);
  EXPECT_TRUE(is_merged(Run(program_, ids)));
  program_.UnloadAdapter(1);
  EXPECT_FALSE(is_merged(Run(program_, ids)));
  program_.LoadAdapter(1, plain / "adapter_model.safetensors");
  EXPECT_TRUE(is_merged(Run(program_, ids)));
  std::vector<FileTensor> longer = PeftAdapter(2);  // "model.net_layers.0" for "layers.0"
  for (FileTensor& tensor : longer)
    tensor.name.replace(tensor.name.find("layers"), 6, "net_layers");
  program_.LoadAdapter(1, PeftFolder("longer", longer, config(alpha)));
  EXPECT_TRUE(is_merged(Run(program_, ids)));
  const double root = std::sqrt(static_cast<double>(kRank));
  program_.LoadAdapter(
      1, PeftFolder("rs", PeftAdapter(2), config(alpha / root, ", \"use_rslora\": true")));
  EXPECT_TRUE(is_merged(Run(program_, ids)));
  program_.LoadAdapter(
      1, PeftFolder(
             "pattern", PeftAdapter(2),
             config(1, ", \"alpha_pattern\": {\"layers.[02]\": " + std::to_string(alpha) + "}")));
  EXPECT_TRUE(is_merged(Run(program_, ids)));
  program_.LoadAdapter(1, PeftFolder("double", PeftAdapter(2), config(2 * alpha)));
  EXPECT_FALSE(is_merged(Run(program_, ids)));
}

TEST_F(Adapters, WhatIsWrongIsSaidAndTheSlotKeepsItsAdapter) {
  program_.LoadAdapter(1, Models().file(1));
  const std::vector<int32_t> ids(kBatch, 1);
  const std::vector<float> before = Run(program_, ids);
  const std::string folder = Models().folder();
  const auto fails = [&](const std::string& path, const std::string& said) {
    const std::string message = Load(1, path);
    EXPECT_NE(message.find(said), std::string::npos) << message << "\nexpected: " << said;
  };
  const auto with = [&](const std::string& name, auto&& change) {
    std::vector<FileTensor> tensors = PlainAdapter(2);
    change(tensors);
    WriteSafetensors(folder + "/" + name, tensors);
    return folder + "/" + name;
  };
  fails(folder + "/none.safetensors", "none.safetensors");
  fails(with("shape",
             [](auto& t) {
               t[0].shape = {kRank, 256};
             }),
        "tensor \"layers.0.A\" is [8, 256], expected [256, rank]");
  fails(with("layer", [](auto& t) { t[0].name = "layers.7.A"; }),
        "tensor \"layers.7.A\" belongs to a layer that has no slots; there are \"layers.0\", "
        "\"layers.2\"");
  fails(with("other", [](auto& t) { t[0].name = "layers.0.weight"; }),
        "tensor \"layers.0.weight\" is no matrix of a LoRA adapter");
  fails(with("half", [](auto& t) { t.erase(t.begin() + 1); }),
        "tensor \"layers.0.A\" has no lora_B");
  fails(with("rank",
             [](auto& t) {
               t[0].shape[1] = 13;
               t[0].values.resize(256 * 13);
             }),
        "tensor \"layers.0.A\" has rank 13, the slots hold up to 12");
  fails(with("ranks",
             [](auto& t) {
               t[0].shape[1] = 4;
               t[0].values.resize(256 * 4);
             }),
        "tensor \"layers.0.B\" has rank 8, but \"layers.0.A\" has 4");
  fails(with("infinite", [](auto& t) { t[1].values[3] = std::numeric_limits<float>::infinity(); }),
        "tensor \"layers.0.B\" has elements that are not finite in f32, times their scale");
  fails(PeftFolder("dora", PeftAdapter(2), "{\"use_dora\": true, \"lora_alpha\": 8}"),
        "use_dora is true");
  fails(PeftFolder("kind", PeftAdapter(2), "{\"peft_type\": \"IA3\"}"), "peft_type is \"IA3\"");
  fails(PeftFolder("alpha", PeftAdapter(2), "{}"), "lora_alpha is missing");
  std::ofstream(folder + "/cut") << "not a file of tensors";
  fails(folder + "/cut", "/cut");
  EXPECT_EQ(Load(4, Models().file(2)), "slot 4 is outside 0..3");
  EXPECT_EQ(Load(-1, Models().file(2)), "slot -1 is outside 0..3");
  EXPECT_EQ(Run(program_, ids), before);
  try {
    Run(program_, std::vector<int32_t>(kBatch, 4));
    ADD_FAILURE() << "slot 4 was taken";
  } catch (const Exception& error) {
    const std::string said = error.what();  // of any row
    EXPECT_NE(said.find("slot 4 at position ["), std::string::npos) << said;
    EXPECT_NE(said.find("] of \"adapter_id\" is outside -1..3"), std::string::npos) << said;
  }
}

TEST_F(Adapters, UpdatesOfWeightsLeaveThem) {
  program_.LoadAdapter(1, Models().file(1));
  program_.UpdateWeights(Models().refit());
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < kBatch; ++row) ids.push_back(static_cast<int32_t>(row % 2));
  const std::vector<float> answers = Run(program_, ids);
  const std::vector<float> merged[2] = {Merged(3), Merged(1)};
  for (int64_t row = 0; row < kBatch; ++row)
    EXPECT_TRUE(IsRow(answers, row, merged[row % 2])) << "row " << row;
}

// Runs see either the old or the new adapter, never parts of both.
TEST_F(Adapters, LoadUnderRuns) {
  const char* text = std::getenv("FUSEC_TEST_SECONDS");
  const auto end = Clock::now() + std::chrono::duration<double>(text ? std::atof(text) : 1);
  const std::vector<float> merged[2] = {Merged(1), Merged(2)};
  program_.LoadAdapter(2, Models().file(1));
  std::atomic<int64_t> runs = 0, wrong = 0, seen[2] = {0, 0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      Context context(program_);
      const std::vector<int32_t> ids(kBatch, 2);
      for (; Clock::now() < end; ++runs) {
        const std::vector<float> answers = RunIn(context, ids);
        const int which = IsRow(answers, 0, merged[0]) ? 0 : 1;
        ++seen[which];
        for (int64_t row = 0; row < kBatch; ++row) {
          if (!IsRow(answers, row, merged[which])) ++wrong;
        }
      }
    });
  }
  int64_t loads = 0;
  for (; Clock::now() < end; ++loads) program_.LoadAdapter(2, Models().file(1 + loads % 2));
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(seen[0], 0);
  EXPECT_GT(seen[1], 0);
  RecordProperty("loads", static_cast<int>(loads));
  std::printf("%ld runs, %ld loads\n", static_cast<long>(runs), static_cast<long>(loads));
}

}  // namespace
}  // namespace fusec
