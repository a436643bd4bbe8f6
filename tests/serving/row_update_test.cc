// Rows of tables are updated during runs: the same bytes are stored as by `fusec refit`, a run never sees part of an update of a row, and
// an update that fails changes nothing.
//
//   FUSEC_TEST_SECONDS=10                       instead of one second
//   FUSEC_TEST_DEVICE=cuda                      on the first GPU
//   FUSEC_TEST_PLACEMENT=host                   with its tables in host memory
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "tests/serving/served_model.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using serving::DeviceUnderTest;
using serving::RunFusec;

constexpr int64_t kRows = 40, kColumns = 6;
const std::vector<std::string> kStorages = {"f32", "f16", "bf16", "int8", "int4", "fp8"};

// An element of the tables of a version: it has six digits, and magnitude and sign differ from row to row.
float Element(int version, int64_t row, int64_t column) {
  const double x = std::sin(1.7 * static_cast<double>(row * kColumns + column) + version);
  return static_cast<float>(std::round(1e6 * x) / 1e6 * (row % 7 == 3 ? 1000 : 1));
}

// Tables t_f32, t_int8, ... of each storage, one that the model casts to f16, one of 1 column, and
// one that is read at a fixed row alone; an output for each.
class TablesModel {
 public:
  TablesModel() : folder_(fs::temp_directory_path() / ("fusec_rows_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    const std::string target = DeviceUnderTest() == "cpu" ? "cpu" : "native";
    std::string flags = " --target " + target + serving::PlacementFlags();
    for (const std::string& storage : kStorages) {
      if (storage != "f32") flags += " --table-storage t_" + storage + "=" + storage;
    }
    RunFusec(Write(1) + " -o " + path(1) + flags);
    RunFusec("refit " + path(1) + " --weights " + Write(2) + " -o " + path(2));
  }
  ~TablesModel() {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  std::string path(int version) const { return folder_ / ("fused_" + std::to_string(version)); }

 private:
  static std::string Table(const std::string& name, int version, int64_t columns) {
    std::string text = "float[" + std::to_string(kRows) +
                       (columns > 1 ? ", " + std::to_string(columns) : "") + "] " + name + " = {";
    for (int64_t i = 0; i < kRows * columns; ++i) {
      char number[32];
      std::snprintf(number, sizeof number, "%s%.9g", i > 0 ? ", " : "",
                    static_cast<double>(Element(version, i / columns, i % columns)));
      text += number;
    }
    return text + "}";
  }

  std::string Write(int version) const {
    std::string outputs, tables, nodes;
    const auto add = [&](const std::string& name, int64_t columns, const std::string& found) {
      if (!outputs.empty()) outputs += ", ", tables += ", ";
      const std::string dims = columns > 1 ? "batch, " + std::to_string(columns) : "batch";
      outputs += "float[" + dims + "] y_" + name;
      tables += Table("t_" + name, version, columns);
      nodes += "  y_" + name + " = " + found + "\n";
    };
    for (const std::string& storage : kStorages)
      add(storage, kColumns, "Gather(t_" + storage + ", ids)");
    add("vector", 1, "Gather(t_vector, ids)");
    nodes += "  half = Cast<to = 10>(t_cast)\n  found = Gather(half, ids)\n";
    add("cast", kColumns, "Cast<to = 1>(found)");
    nodes += "  first = Gather(t_fixed, zeros)\n";
    add("fixed", kColumns, "Add(first, y_f32)");
    const std::string file = folder_ / ("model_" + std::to_string(version) + ".onnxtxt");
    std::ofstream(file) << "<ir_version: 8, opset_import: [\"\" : 17]>\ng (int64[batch] ids) => ("
                        << outputs << ")\n  <" << tables << ", int64[1] zeros = {0}>\n{\n"
                        << nodes << "}\n";
    return file;
  }

  fs::path folder_;
};

const TablesModel& Model() {
  static const TablesModel model;
  return model;
}

int64_t ColumnsOf(const std::string& name) { return name == "vector" ? 1 : kColumns; }

std::vector<float> RowOf(const std::string& name, int version, int64_t row) {
  std::vector<float> elements;
  for (int64_t c = 0; c < ColumnsOf(name); ++c) elements.push_back(Element(version, row, c));
  return elements;
}

class RowUpdate : public testing::Test {
 protected:
  static bool OnGpu() { return DeviceUnderTest() != "cpu"; }
  static double Seconds() {
    const char* text = std::getenv("FUSEC_TEST_SECONDS");
    return text ? std::atof(text) : 1;
  }

  // All rows of a table, as look-ups return them.
  static std::vector<float> Rows(const Program& program, const std::string& name) {
    Context context(program);
    std::vector<int64_t> ids(kRows);
    std::iota(ids.begin(), ids.end(), 0);
    context.BindInput<int64_t>("ids", ids, {kRows});
    context.Run();
    const auto values = context.Output<float>("y_" + name);
    return {values.begin(), values.end()};
  }

  // Makes an update through the C ABI, with any kind of memory; returns its error message.
  static std::string Update(const Program& program, const std::string& table,
                            const std::vector<int64_t>& ids, const std::vector<float>& rows) {
    const fusec_status status =
        fusec_update_rows(program.handle(), table.c_str(), ids.data(), FUSEC_I64, rows.data(),
                          FUSEC_F32, static_cast<int64_t>(ids.size()), 0, nullptr);
    return status == FUSEC_OK ? "" : fusec_last_error();
  }

  Program program_{Model().path(1), DeviceUnderTest().c_str()};
};

const std::vector<std::string> kNames = {"f32",  "f16", "bf16",   "int8",
                                         "int4", "fp8", "vector", "cast"};

TEST_F(RowUpdate, StoresWhatARefitStores) {
  const Program other(Model().path(2), DeviceUnderTest().c_str());
  for (const std::string& name : kNames) {
    const std::vector<float> before = Rows(program_, name), refitted = Rows(other, name);
    ASSERT_NE(before, refitted) << name;
    std::vector<int32_t> ids;
    std::vector<float> rows;
    for (int64_t i = 0; i < kRows - 1; ++i) {  // in another order, and all but one
      ids.push_back(static_cast<int32_t>(i * 7 % kRows));
      const std::vector<float> row = RowOf(name, 2, ids.back());
      rows.insert(rows.end(), row.begin(), row.end());
    }
    EXPECT_EQ(program_.TableVersion("t_" + name), 0u);
    program_.UpdateRows("t_" + name, ids, rows);
    EXPECT_EQ(program_.TableVersion("t_" + name), 1u);
    const auto missing = static_cast<size_t>((kRows - 1) * 7 % kRows);
    const std::vector<float> after = Rows(program_, name);
    const auto columns = static_cast<size_t>(ColumnsOf(name));
    for (size_t i = 0; i < after.size(); ++i) {
      const std::vector<float>& expected = i / columns == missing ? before : refitted;
      EXPECT_EQ(after[i], expected[i]) << name << ", element " << i;
    }
  }
}

TEST_F(RowUpdate, TheLastOfEqualIdsCounts) {
  std::mt19937 random(1);
  for (const std::string name : {"f32", "int8", "vector"}) {
    for (const int64_t count : {1, 2, 300, 200'000}) {  // the last in several pieces on a GPU
      std::vector<int64_t> ids(static_cast<size_t>(count)), last(kRows, -1);
      std::vector<float> rows;
      for (int64_t i = 0; i < count; ++i) {
        ids[static_cast<size_t>(i)] = static_cast<int64_t>(random() % kRows);
        last[static_cast<size_t>(ids[static_cast<size_t>(i)])] = i;
        rows.insert(rows.end(), static_cast<size_t>(ColumnsOf(name)), static_cast<float>(i));
      }
      std::vector<float> expected = Rows(program_, name);
      program_.UpdateRows("t_" + name, ids, rows);
      for (size_t i = 0; i < expected.size(); ++i) {
        const int64_t position = last[i / static_cast<size_t>(ColumnsOf(name))];
        if (position >= 0) expected[i] = static_cast<float>(position);
      }
      EXPECT_EQ(Rows(program_, name), expected) << name << ", " << count;
    }
  }
}

TEST_F(RowUpdate, ABadRowLeavesAllAsTheyAre) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> good(3 * kColumns, 5);
  std::vector<float> with_nan = good, too_large = good;
  with_nan[kColumns] = kNan;
  too_large[2 * kColumns] = 70000;
  for (const std::string name : {"f32", "int8"}) {
    const std::string place = "table \"t_" + name + "\": ";
    const std::vector<float> before = Rows(program_, name);
    EXPECT_EQ(Update(program_, "t_" + name, {1, -1, 2}, good),
              place + "id 1 is -1, expected 0 to 39");
    EXPECT_EQ(Update(program_, "t_" + name, {1, 2, kRows}, good),
              place + "id 2 is 40, expected 0 to 39");
    EXPECT_EQ(Rows(program_, name), before) << name;
  }
  for (const std::string name : {"int8", "int4", "fp8"}) {
    const std::vector<float> before = Rows(program_, name);
    EXPECT_EQ(Update(program_, "t_" + name, {1, 7, 2}, with_nan),
              "table \"t_" + name + "\": row 1, of id 7, has an element that " + name +
                  " has no code for");
    EXPECT_EQ(Rows(program_, name), before) << name;
  }
  EXPECT_EQ(Update(program_, "t_f16", {1, 7, 2}, too_large),
            "table \"t_f16\": row 2, of id 2, has an element that f16 has no code for");
  EXPECT_EQ(Update(program_, "t_f16", {1, 7, 2}, with_nan), "");
  EXPECT_TRUE(std::isnan(Rows(program_, "f16")[7 * kColumns]));
  EXPECT_EQ(program_.TableVersion("t_int8"), 0u);
  EXPECT_EQ(program_.TableVersion("t_f16"), 1u);
}

TEST_F(RowUpdate, SaysWhatIsWrongWithACall) {
  const int64_t id = 0;
  const float row[kColumns] = {};
  const auto update = [&](const char* table, fusec_dtype ids, fusec_dtype rows, int64_t count,
                          int on_device) -> std::string {
    const fusec_status status =
        fusec_update_rows(program_.handle(), table, &id, ids, row, rows, count, on_device, nullptr);
    return std::to_string(status) + " " + (status == FUSEC_OK ? "" : fusec_last_error());
  };
  EXPECT_EQ(update("t_f32", FUSEC_I64, FUSEC_F32, 0, 0), "0 ");
  EXPECT_EQ(update("t_f32", FUSEC_I64, FUSEC_F32, -1, 0), "2 count is -1, expected 0 or more");
  EXPECT_EQ(update("t_f32", FUSEC_I16, FUSEC_F32, 1, 0),
            "6 table \"t_f32\": ids are i16, expected i32 or i64");
  EXPECT_EQ(update("t_int8", FUSEC_I64, FUSEC_U8, 1, 0),
            "6 table \"t_int8\": rows are u8, expected f32");
  EXPECT_EQ(update("emb", FUSEC_I64, FUSEC_F32, 1, 0),
            "6 there is no table \"emb\", the program has \"t_bf16\", \"t_cast\", \"t_f16\", "
            "\"t_f32\", \"t_fixed\", \"t_fp8\", \"t_int4\", \"t_int8\", \"t_vector\"");
  EXPECT_EQ(update("t_fixed", FUSEC_I64, FUSEC_F32, 1, 0),
            "6 table \"t_fixed\" cannot be updated by rows: other constants are computed from it "
            "(fold-constants)");
  if (!OnGpu()) {
    EXPECT_EQ(update("t_f32", FUSEC_I64, FUSEC_F32, 1, 1),
              "6 table \"t_f32\": ids and rows are in device memory, the program runs on " +
                  program_.device_name());
  }
  const auto* odd = reinterpret_cast<const std::byte*>(&id) + 1;
  EXPECT_EQ(
      fusec_update_rows(program_.handle(), "t_f32", odd, FUSEC_I64, row, FUSEC_F32, 1, 0, nullptr),
      FUSEC_BAD_INPUT);
  EXPECT_EQ(program_.TableVersion("t_f32"), 0u);
}

TEST_F(RowUpdate, TablesAreDescribed) {
  const TableInfo int4 = program_.Table("t_int4");
  EXPECT_EQ(int4.dtype, FUSEC_F32);
  EXPECT_EQ(int4.storage, "int4");
  EXPECT_EQ(int4.rows, kRows);
  EXPECT_EQ(int4.columns, kColumns);
  EXPECT_EQ(int4.bytes, kRows * (kColumns / 2 + 8u));
  EXPECT_EQ(int4.fixed, "");
  EXPECT_EQ(program_.Table("t_cast").storage, "f16");
  EXPECT_EQ(program_.Table("t_vector").columns, 1);
  EXPECT_EQ(program_.Table("t_fixed").storage, "");
  EXPECT_THROW(program_.Table("t"), Exception);
}

TEST_F(RowUpdate, AFileOfWeightsReplacesAllRows) {
  const std::vector<float> before = Rows(program_, "int8");
  program_.UpdateRows<int64_t, float>("t_int8", {3}, RowOf("int8", 2, 3));
  EXPECT_NE(Rows(program_, "int8"), before);
  program_.UpdateWeights(Model().path(1));  // equal to what was loaded, but for the row
  EXPECT_EQ(Rows(program_, "int8"), before);
  EXPECT_EQ(program_.TableVersion("t_int8"), 2u);
}

// Updates from every kind of memory, also on a stream.
TEST_F(RowUpdate, MemoryMayBeOfAnyKind) {
  const HostArray<int64_t> ids(program_, 2);
  const HostArray<float> rows(program_, 2 * kColumns);
  ids[0] = 4, ids[1] = 30;
  const auto fill = [&](float value) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = value;
  };
  const auto check = [&](float value) {
    const std::vector<float> found = Rows(program_, "f32");
    EXPECT_EQ(found[4 * kColumns], value);
    EXPECT_EQ(found[30 * kColumns + kColumns - 1], value);
  };
  const auto update = [&](const void* id_memory, const void* row_memory, bool on_device,
                          void* stream) {
    return fusec_update_rows(program_.handle(), "t_f32", id_memory, FUSEC_I64, row_memory,
                             FUSEC_F32, 2, on_device, stream);
  };
  fill(1);
  ASSERT_EQ(update(ids.data(), rows.data(), false, nullptr), FUSEC_OK);
  check(1);
  Context context(program_);
  fill(2);
  ASSERT_EQ(update(ids.data(), rows.data(), false, context.stream()), FUSEC_OK);
  check(2);
  const auto gpu = serving::OpenGpu();
  if (gpu == nullptr) return;
  const runtime::ScopedContext scope(*gpu);
  const auto on_gpu = [&](const void* from, size_t bytes) {
    auto memory = serving::Value(runtime::AllocateDevice(*gpu, bytes, "a test"));
    serving::Check(FUSEC_CUDA(*gpu, "a test", cuMemcpyHtoDAsync, memory.get(), from, bytes,
                              static_cast<CUstream>(context.stream())));
    return memory;
  };
  fill(3);
  const auto gpu_ids = on_gpu(ids.data(), 16), gpu_rows = on_gpu(rows.data(), rows.size() * 4);
  const auto* id_memory = reinterpret_cast<const void*>(gpu_ids.get());
  const auto* row_memory = reinterpret_cast<const void*>(gpu_rows.get());
  ASSERT_EQ(update(id_memory, row_memory, true, context.stream()), FUSEC_OK);
  check(3);
  ids[1] = kRows;
  const auto bad_ids = on_gpu(ids.data(), 16);
  ASSERT_EQ(
      update(reinterpret_cast<const void*>(bad_ids.get()), row_memory, true, context.stream()),
      FUSEC_BAD_INPUT);
  EXPECT_STREQ(fusec_last_error(), "table \"t_f32\": id 1 is 40, expected 0 to 39");
  check(3);
}

// Threads look up rows all the time. All columns of a row have the same number, which rises with each update: a run sees whole rows, none
// older than when the run began.
TEST_F(RowUpdate, RunsSeeWholeRowsInOrder) {
  constexpr int kThreads = 6;
  std::vector<int64_t> all(kRows);
  std::iota(all.begin(), all.end(), 0);
  const auto rows_of = [](int64_t count, float version) {
    return std::vector<float>(static_cast<size_t>(count * kColumns), version);
  };
  program_.UpdateRows("t_f32", all, rows_of(kRows, 0));
  std::vector<std::atomic<int>> done(kRows);  // by row: its last update that has returned
  std::atomic<int> begun = 0;
  std::atomic<bool> is_over = false;
  std::atomic<int64_t> torn = 0, old = 0, early = 0, runs = 0;
  const auto serve = [&](unsigned seed) {
    std::mt19937 random(seed);
    Context context(program_);
    while (!is_over) {
      std::vector<int64_t> ids(1 + random() % 100);
      for (int64_t& id : ids) id = static_cast<int64_t>(random() % kRows);
      std::vector<int> least;
      for (const int64_t id : ids) least.push_back(done[static_cast<size_t>(id)]);
      context.BindInput<int64_t>("ids", ids, {static_cast<int64_t>(ids.size())});
      context.Run();
      const int most = begun;
      const auto values = context.Output<float>("y_f32");
      for (size_t i = 0; i < ids.size(); ++i) {
        const float* row = values.data() + i * kColumns;
        if (!std::equal(row + 1, row + kColumns, row)) ++torn;
        if (row[0] < static_cast<float>(least[i])) ++old;
        if (row[0] > static_cast<float>(most)) ++early;
      }
      ++runs;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(serve, static_cast<unsigned>(i));
  std::mt19937 random(99);
  const auto end = Clock::now() + std::chrono::duration<double>(Seconds());
  int version = 0;
  while (Clock::now() < end) {
    std::vector<int64_t> ids = all;
    std::shuffle(ids.begin(), ids.end(), random);
    ids.resize(1 + random() % kRows);
    begun = ++version;
    program_.UpdateRows("t_f32", ids,
                        rows_of(static_cast<int64_t>(ids.size()), static_cast<float>(version)));
    for (const int64_t id : ids) done[static_cast<size_t>(id)] = version;
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(old, 0);
  EXPECT_EQ(early, 0);
  EXPECT_GT(runs, 10);
  EXPECT_GT(version, 10);
  std::printf("%d updates beside %lld runs\n", version, static_cast<long long>(runs.load()));
}

// One thread updates rows, one switches weights files, others run: every row that is read is one that one of these threads wrote.
TEST_F(RowUpdate, RacesWithFilesOfWeights) {
  std::atomic<bool> is_over = false;
  std::atomic<int64_t> torn = 0;
  const std::vector<float> rows[] = {
      Rows(program_, "int8"), Rows(Program(Model().path(2), DeviceUnderTest().c_str()), "int8")};
  const auto serve = [&] {
    while (!is_over) {
      const std::vector<float> found = Rows(program_, "int8");
      for (size_t i = 0; i < found.size(); i += kColumns) {
        const auto is_row_of = [&](const std::vector<float>& version) {
          return std::equal(&found[i], &found[i] + kColumns, &version[i]);
        };
        if (!is_row_of(rows[0]) && !is_row_of(rows[1])) ++torn;
      }
    }
  };
  const auto update = [&] {
    for (int64_t i = 0; !is_over; ++i) {
      const int64_t row = i % kRows;
      program_.UpdateRows<int64_t, float>("t_int8", {row}, RowOf("int8", 1 + i / kRows % 2, row));
    }
  };
  std::thread threads[] = {std::thread(serve), std::thread(serve), std::thread(update)};
  const auto end = Clock::now() + std::chrono::duration<double>(Seconds());
  int switches = 0;
  for (; Clock::now() < end; ++switches) program_.UpdateWeights(Model().path(1 + switches % 2));
  program_.UpdateWeights(Model().path(2));
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  EXPECT_GT(switches, 2);
  program_.UpdateWeights(Model().path(2));
  EXPECT_EQ(Rows(program_, "int8"), rows[1]);
}

TEST_F(RowUpdate, AFeedOfUpdatesTakesNoMoreMemory) {
  std::vector<int64_t> ids(1000);
  std::vector<float> rows(ids.size() * kColumns, 1);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i % kRows);
  const auto feed = [&](int count) {
    for (int i = 0; i < count; ++i) program_.UpdateRows(i % 2 ? "t_f32" : "t_int8", ids, rows);
  };
  feed(50);
  const int64_t before = serving::ResidentBytes();
  feed(1000);
  const int64_t grown = serving::ResidentBytes() - before;
  if (serving::kResidentBytesMeanSomething) {
    EXPECT_LT(grown, 4 << 20);
  }
}

}  // namespace
}  // namespace fusec
