// Updates of rows on a fake GPU: the order of copies, kernels and runs, with the text of the kernels run on the CPU.
#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "codegen_templates/host/cuda_on_cpu.h"
#include "tests/serving/fake_gpu_test.h"

namespace fusec_kernels {

// Additional definitions for the text: GPU threads run one after the other here.
struct uint4 {
  unsigned x, y, z, w;
};
inline unsigned long long atomicCAS(unsigned long long* address, unsigned long long expected,
                                    unsigned long long desired) {
  const unsigned long long found = *address;
  if (found == expected) *address = desired;
  return found;
}
inline void atomicMax(unsigned long long* address, unsigned long long value) {
  *address = std::max(*address, value);
}
inline void atomicMin(unsigned long long* address, unsigned long long value) {
  *address = std::min(*address, value);
}
#define __grid_constant__
#include "codegen_templates/device/stored_row.cuh"
#include "codegen_templates/runtime/update_rows.cu"
#undef __grid_constant__

}  // namespace fusec_kernels

namespace fusec::runtime {
namespace {

using fusec_kernels::RowPiece;

// With the tables in GPU memory, or in host memory.
class FakeGpuRows : public FakeGpuTest, public testing::WithParamInterface<bool> {
 protected:
  static constexpr int64_t kRows = 4;

  // y = x + weights, whose 4 elements are rows of a table; beside it, one of int8 rows and one of
  // rows of 32 bytes.
  void SetUp() override {
    FakeGpuTest::SetUp();
    const std::vector<uint8_t> codes(kRows * 3);
    const std::vector<float> floats(kRows * 8);
    const int int8 = made_.Constant("codes", FUSEC_U8, kRows * 3, codes.data());
    const int factors = made_.Constant("factors", FUSEC_F32, kRows * 2, floats.data());
    const int wide = made_.Constant("wide", FUSEC_F32, kRows * 8, floats.data());
    made_.Table("int8", FUSEC_F32, kRows, 3, "int8", int8, factors);
    made_.Table("weights", FUSEC_F32, kRows, 1, "f32", 1);
    made_.Table("wide", FUSEC_F32, kRows, 8, "f32", wide);
    if (GetParam()) {
      for (const int table : {1, int8, factors, wide}) made_.PlaceOnHost(table);
    }
    path_ = made_.Write("sm_90a", true);
    for (const auto& [name, kernel] : {std::pair("clear_slots", &fusec_kernels::clear_slots),
                                       {"claim_rows", &fusec_kernels::claim_rows},
                                       {"copy_rows_16", &fusec_kernels::copy_rows_16},
                                       {"copy_rows_2", &fusec_kernels::copy_rows_2},
                                       {"store_rows", &fusec_kernels::store_rows}}) {
      Add(name, {sizeof(RowPiece)},
          [kernel = kernel](void** arguments) { kernel(*static_cast<RowPiece*>(arguments[0])); });
    }
    Add("check_rows", {sizeof(RowPiece), 8}, [](void** arguments) {
      fusec_kernels::check_rows(*static_cast<RowPiece*>(arguments[0]),
                                *static_cast<unsigned long long**>(arguments[1]));
    });
  }

  // A kernel that is called once for each thread of a block.
  template <class Run>
  void Add(const std::string& name, std::vector<size_t> argument_bytes, Run run) {
    gpu_.kernels[name] = {[run](void** arguments, unsigned blocks, unsigned block_size) {
                            for (unsigned i = 0; i < blocks * block_size; ++i) {
                              fusec_kernels::blockIdx.x = i;
                              run(arguments);
                            }
                          },
                          std::move(argument_bytes)};
  }

  static Status Update(Program& program, const char* table, const std::vector<int64_t>& ids,
                       const std::vector<float>& rows, void* stream = nullptr,
                       bool on_device = false) {
    runtime::RowUpdate update;
    update.ids = ids.data();
    update.rows = rows.data();
    update.count = static_cast<int64_t>(ids.size());
    update.stream = stream;
    update.on_device = on_device;
    return program.UpdateRows(table, update, FUSEC_F32);
  }
  // A constant as the fake GPU has it.
  template <class T>
  static const T* OnGpu(Program& program, const std::string& name) {
    const auto& buffers = program.manifest().buffers;
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].name != name) continue;
      const auto& device = static_cast<CudaDevice&>(program.device());
      return static_cast<const T*>(HostPointer(device.weights().Address(static_cast<int>(i))));
    }
    return nullptr;
  }
};

TEST_P(FakeGpuRows, StoresTheBitsOfTheCpu) {
  const auto program = Load();
  std::mt19937 random(3);
  std::vector<int64_t> ids(100'000);
  std::vector<float> rows(ids.size() * 3), wide_rows(ids.size() * 8);
  std::vector<int64_t> last(kRows);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int64_t>(random() % kRows);
    last[static_cast<size_t>(ids[i])] = static_cast<int64_t>(i);
  }
  for (float& x : rows) x = static_cast<float>(random()) / 1e9f - 2;
  for (float& x : wide_rows) x = static_cast<float>(random());
  ASSERT_TRUE(Update(*program, "int8", ids, rows));
  ASSERT_TRUE(Update(*program, "wide", ids, wide_rows));
  const Table& table = program->manifest().tables[0];
  for (size_t id = 0; id < kRows; ++id) {
    std::byte codes[3];
    float factors[2];
    table.Store(rows.data() + last[id] * 3, codes, factors);
    EXPECT_EQ(std::memcmp(OnGpu<uint8_t>(*program, "codes") + id * 3, codes, 3), 0) << id;
    EXPECT_EQ(std::memcmp(OnGpu<float>(*program, "factors") + id * 2, factors, 8), 0) << id;
    EXPECT_EQ(
        std::memcmp(OnGpu<float>(*program, "wide") + id * 8, wide_rows.data() + last[id] * 8, 32),
        0)
        << id;
  }
  EXPECT_EQ(program->table_version(0), 1u);
}

TEST_P(FakeGpuRows, RunsSeeTheRowsOfTheirTurn) {
  const auto program = Load();
  CUstream stream = nullptr;
  driver_.cuStreamCreate(&stream, 0);
  {
    constexpr int64_t kBatch = 4;
    const auto early = *Context::Create(*program);
    const auto late = *Context::Create(*program);
    const std::vector<float> x(kBatch, 1);
    std::vector<float> y_early(kBatch), y_late(kBatch);
    const auto start = [&](Context& context, std::vector<float>& y) {
      ASSERT_TRUE(context.BindInput(0, x.data(), {&kBatch, 1}, false));
      ASSERT_TRUE(context.BindOutput(0, y.data(), y.size() * sizeof(float), false));
      ASSERT_TRUE(context.RunAsync(context.executor().stream()));
    };
    // The fake GPU executes nothing until something waits for it.
    start(*early, y_early);
    gpu_.calls.clear();
    ASSERT_TRUE(Update(*program, "weights", {2, 1, 2}, {7, 8, 9}, stream));
    start(*late, y_late);
    ASSERT_TRUE(late->Synchronize());
    ASSERT_TRUE(early->Synchronize());
    EXPECT_EQ(y_early, (std::vector<float>{11, 21, 31, 41}));
    EXPECT_EQ(y_late, (std::vector<float>{11, 9, 10, 41}));
    start(*early, y_early);
    ASSERT_TRUE(early->Synchronize());
    EXPECT_EQ(y_early, y_late);
    // A file that differs in nothing puts its own rows back.
    ASSERT_TRUE(program->UpdateWeights(path_));
    start(*early, y_early);
    ASSERT_TRUE(early->Synchronize());
    EXPECT_EQ(y_early, (std::vector<float>{11, 21, 31, 41}));
    EXPECT_LE(gpu_.calls["cuGraphInstantiate"], 8);  // the late context's first run
  }
  driver_.cuStreamDestroy(stream);
}

TEST_P(FakeGpuRows, ChecksRowsInDeviceMemory) {
  const auto program = Load();
  const std::vector<float> zeros(9);
  const auto update = [&](const std::vector<int64_t>& ids, const std::vector<float>& rows) {
    const Status updated = Update(*program, "int8", ids, rows, nullptr, true);
    return updated ? "" : updated.error().message;
  };
  EXPECT_EQ(update({0, 5, -7}, zeros), "table \"int8\": id 1 is 5, expected 0 to 3");
  EXPECT_EQ(update({0, 3, -7}, zeros), "table \"int8\": id 2 is -7, expected 0 to 3");
  std::vector<float> infinite = zeros;
  infinite[4] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(update({0, 3, 2}, infinite),
            "table \"int8\": row 1, of id 3, has an element that int8 has no code for");
  EXPECT_EQ(OnGpu<float>(*program, "factors")[1], 0);
  EXPECT_EQ(update({0, 3, 2}, {1, 1, 1, 2, 2, 2, 3, 3, 3}), "");
  EXPECT_EQ(OnGpu<float>(*program, "factors")[1], 1);  // the bias of row 0
  EXPECT_EQ(OnGpu<float>(*program, "factors")[7], 2);
}

TEST_P(FakeGpuRows, PageLockedRowsNeedNoStaging) {
  const auto program = Load();
  const size_t before = gpu_.pinned_bytes;
  auto* ids = static_cast<int64_t*>(*program->device().AllocateHost(8));
  auto* rows = static_cast<float*>(*program->device().AllocateHost(32));
  const size_t own = gpu_.pinned_bytes - before;
  *ids = 1;
  std::fill_n(rows, 8, 3.0f);
  runtime::RowUpdate update;
  update.ids = ids;
  update.rows = rows;
  update.count = 1;
  ASSERT_TRUE(program->UpdateRows("wide", update, FUSEC_F32));
  EXPECT_EQ(OnGpu<float>(*program, "wide")[8], 3);
  EXPECT_LE(gpu_.pinned_bytes - before, own + 8);  // the word that reports out-of-range ids
  program->device().FreeHost(ids);
  program->device().FreeHost(rows);
}

TEST_P(FakeGpuRows, AFullGpuKeepsItsRows) {
  const auto program = Load();
  driver_.cuMemAlloc = [](CUdeviceptr*, size_t) { return CUDA_ERROR_OUT_OF_MEMORY; };
  const Status full = Update(*program, "wide", {1}, std::vector<float>(8, 1));
  driver_.cuMemAlloc = gpu_.Driver().cuMemAlloc;
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, FUSEC_NO_DEVICE);
  EXPECT_EQ(OnGpu<float>(*program, "wide")[8], 0);
  ASSERT_TRUE(Update(*program, "wide", {1}, std::vector<float>(8, 1)));
  EXPECT_EQ(OnGpu<float>(*program, "wide")[8], 1);
}

INSTANTIATE_TEST_SUITE_P(Placement, FakeGpuRows, testing::Bool(),
                         [](const auto& on_host) { return on_host.param ? "Host" : "Device"; });

}  // namespace
}  // namespace fusec::runtime
