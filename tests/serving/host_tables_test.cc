// Compares tables in host memory with the same tables in GPU memory: answers are equal before and after updates, and tables in host memory
// take no GPU memory. On a CPU both programs are the same.
//
//   FUSEC_TEST_DEVICE=cuda                      on the first GPU
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "tests/serving/served_model.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using serving::DeviceUnderTest;
using serving::RunFusec;

constexpr int64_t kRows = 200'000, kColumns = 64;
constexpr int64_t kTableBytes = kRows * kColumns * 4;

// Two tables of floats, of which one is stored as int8, in an artifact for each placement.
class PlacedModel {
 public:
  PlacedModel() : folder_(fs::temp_directory_path() / ("fusec_host_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    const std::string target = DeviceUnderTest() == "cpu" ? "cpu" : "native";
    for (const std::string place : {"host", "device", "cached"}) {
      RunFusec(Write(1) + " -o " + path(place) + " --target " + target +
               " --table-storage small=int8 --table-placement '*=" +
               (place == "cached" ? "host' --table-cache 2%" : place + "'"));
    }
    RunFusec("refit " + path("cached") + " --weights " + Write(2) + " -o " + path("cached_refitted"));
    RunFusec("refit " + path("device") + " --weights " + Write(2) + " -o " + path("refitted_device"));
    RunFusec("refit " + path("host") + " --weights " + Write(2) + " -o " + path("refitted"));
  }
  ~PlacedModel() {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  std::string path(const std::string& name) const { return folder_ / name; }

 private:
  std::string Write(unsigned seed) const {
    const std::string name = "model_" + std::to_string(seed), data = name + ".bin";
    std::vector<float> elements(static_cast<size_t>(2 * kRows * kColumns));
    std::mt19937 random(seed);
    for (float& x : elements) x = static_cast<float>(random() % 2001) / 1000 - 1;
    std::ofstream(folder_ / data, std::ios::binary)
        .write(reinterpret_cast<const char*>(elements.data()), 2 * kTableBytes);
    const auto table = [&](const std::string& table_name, int64_t offset) {
      return "float[" + std::to_string(kRows) + ", " + std::to_string(kColumns) + "] " +
             table_name + " = [\"location\": \"" + data + "\", \"offset\": \"" +
             std::to_string(offset) + "\", \"length\": \"" + std::to_string(kTableBytes) + "\"]";
    };
    const std::string file = folder_ / (name + ".onnxtxt");
    std::ofstream(file) << "<ir_version: 10, opset_import: [\"\" : 18]>\n"
                           "g (int64[batch] ids) => (float[batch, 64] y_large, float[batch, 64] "
                           "y_small)\n<"
                        << table("large", 0) << ", " << table("small", kTableBytes)
                        << ">\n{\n  y_large = Gather(large, ids)\n  y_small = Gather(small, "
                           "ids)\n}\n";
    return file;
  }

  fs::path folder_;
};

const PlacedModel& Model() {
  static const PlacedModel model;
  return model;
}

class HostTables : public testing::Test {
 protected:
  static Program Load(const std::string& name) {
    return Program(Model().path(name), DeviceUnderTest().c_str());
  }

  // The answers for every 7th row of both tables.
  static std::vector<float> Answers(const Program& program) {
    Context context(program);
    std::vector<int64_t> ids;
    for (int64_t id = 0; id < kRows; id += 7) ids.push_back(id);
    context.BindInput<int64_t>("ids", ids, {static_cast<int64_t>(ids.size())});
    context.Run();
    std::vector<float> answers;
    for (const std::string output : {"y_large", "y_small"}) {
      const auto values = context.Output<float>(output);
      answers.insert(answers.end(), values.begin(), values.end());
    }
    return answers;
  }
};

// The answers of one context in many consecutive runs, for ids of which a few are frequent.
TEST_F(HostTables, AnswersDoNotDependOnTheCache) {
  Program cached = Load("cached"), device = Load("device");
  Context of_cached(cached), of_device(device);
  std::mt19937 random(6);
  std::vector<int64_t> ids(4096);
  std::vector<float> rows(500 * kColumns);
  const auto check = [&](const std::string& when) {
    for (int64_t& id : ids) {
      const uint64_t range = 1 + random() % (random() % 4 == 0 ? kRows : 3000);
      id = static_cast<int64_t>(random() % range * 61 % kRows);
    }
    for (Context* context : {&of_cached, &of_device}) {
      context->BindInput<int64_t>("ids", ids, {static_cast<int64_t>(ids.size())});
      context->Run();
    }
    for (const std::string output : {"y_large", "y_small"}) {
      const auto found = of_cached.Output<float>(output), expected = of_device.Output<float>(output);
      ASSERT_TRUE(std::equal(found.begin(), found.end(), expected.begin())) << when;
    }
  };
  for (int round = 0; round < 300; ++round) {
    check("run " + std::to_string(round));
    if (round % 20 != 10) continue;
    for (float& x : rows) x = static_cast<float>(random() % 1000);
    const std::vector<int64_t> updated(ids.begin(), ids.begin() + 500);
    for (const std::string table : {"large", "small"}) {
      cached.UpdateRows(table, updated, rows);
      device.UpdateRows(table, updated, rows);
    }
  }
  const fusec_cache_info info = cached.TableCache("large");
  if (DeviceUnderTest() != "cpu") {
    EXPECT_EQ(info.rows, 4000);
    EXPECT_GT(info.hits, info.misses);
    EXPECT_GT(info.loaded, 1000u);
  }
  cached.UpdateWeights(Model().path("cached_refitted"));
  device.UpdateWeights(Model().path("refitted_device"));
  check("other weights");
  cached.WarmTable("large", ids);
  check("warm");
  EXPECT_THROW(cached.WarmTable("large", std::vector<int64_t>{kRows}), Exception);
}

TEST_F(HostTables, GiveTheSameAnswersThroughAllUpdates) {
  Program host = Load("host"), device = Load("device");
  const std::vector<float> first = Answers(host);
  EXPECT_EQ(first, Answers(device));
  std::mt19937 random(5);
  std::vector<int64_t> ids(60'000);  // several pieces on a GPU
  for (int64_t& id : ids) id = static_cast<int64_t>(random() % kRows);
  std::vector<float> rows(ids.size() * kColumns);
  for (float& x : rows) x = static_cast<float>(random() % 1000);
  for (const std::string table : {"large", "small"}) {
    host.UpdateRows(table, ids, rows);
    device.UpdateRows(table, ids, rows);
  }
  const std::vector<float> second = Answers(host);
  EXPECT_NE(second, first);
  EXPECT_EQ(second, Answers(device));
  for (Program* program : {&host, &device}) program->UpdateWeights(Model().path("refitted"));
  const std::vector<float> third = Answers(host);
  EXPECT_NE(third, first);
  EXPECT_EQ(third, Answers(device));
  EXPECT_EQ(third, Answers(Load("refitted")));
  host.UpdateWeights(Model().path("host"));
  EXPECT_EQ(Answers(host), first);
}

TEST_F(HostTables, TakeNoRoomOnTheGpu) {
  const auto gpu = serving::OpenGpu();
  if (gpu == nullptr) {
    EXPECT_EQ(Load("host").weight_bytes(), 0u);
    return;
  }
  const auto room_of = [&](const std::string& name) {
    const int64_t before = serving::FreeDeviceBytes(gpu.get());
    const Program program = Load(name);
    const int64_t room = before - serving::FreeDeviceBytes(gpu.get());
    std::printf("%s: %lld bytes of device memory, %zu of them weights\n", name.c_str(),
                static_cast<long long>(room), program.weight_bytes());
    return std::pair(room, static_cast<int64_t>(program.weight_bytes()));
  };
  room_of("host");  // what the first program of a process takes
  const auto [host_room, host_weights] = room_of("host");
  const auto [device_room, device_weights] = room_of("device");
  EXPECT_LT(host_weights, 1 << 10);
  EXPECT_LT(host_room, kTableBytes / 4);
  EXPECT_GT(device_weights, kTableBytes * 5 / 4);
  EXPECT_GT(device_room, kTableBytes * 5 / 4);
}

}  // namespace
}  // namespace fusec
