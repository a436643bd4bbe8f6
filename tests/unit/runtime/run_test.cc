#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <fusec/fusec.hpp>
#include <limits>
#include <memory>
#include <thread>

#include "tests/unit/runtime/tiny_artifact.h"

namespace fusec::runtime {
namespace {

struct Data {
  explicit Data(int64_t batch) {
    for (int64_t i = 0; i < batch * 3; ++i) x.push_back(static_cast<float>(i % 7 - 3));
    for (int64_t i = 0; i < batch * 2; ++i) index.push_back(i % 20 - 10);
  }
  void Bind(::fusec::Context& context) const {
    const auto batch = static_cast<int64_t>(x.size() / 3);
    context.BindInput("x", x.data(), {batch, 3});
    context.BindInput("index", index.data(), {batch, 2});
  }
  std::vector<float> x;
  std::vector<int64_t> index;
};

using FusecContext = ::fusec::Context;
using FusecProgram = ::fusec::Program;
using ::fusec::HostArray;

std::vector<float> Copy(std::span<const float> values) { return {values.begin(), values.end()}; }

// The message of the exception that `body` throws.
template <class Body>
std::string ErrorOf(Body body, fusec_status status) {
  try {
    body();
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.status(), status) << exception.what();
    return exception.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

class RunTest : public testing::Test {
 protected:
  TinyArtifact artifact_;
};

TEST_F(RunTest, DescribesItsTensors) {
  const FusecProgram program(artifact_.path(), "cpu");
  EXPECT_EQ(program.device_name(), "cpu (native)");
  ASSERT_EQ(program.Inputs().size(), 2u);
  EXPECT_EQ(program.Inputs()[1].name, "index");
  EXPECT_EQ(program.Inputs()[1].dtype, FUSEC_I64);
  EXPECT_EQ(program.Outputs()[0].dims, (std::vector<std::string>{"batch", "4"}));
}

TEST_F(RunTest, AnswersWhatAUserMayAsk) {
  EXPECT_EQ(fusec_abi_version(), FUSEC_ABI_VERSION);
  EXPECT_STREQ(fusec_version(), FUSEC_VERSION);
  EXPECT_STREQ(fusec_dtype_name(FUSEC_BF16), "bf16");
  EXPECT_STREQ(fusec_dtype_name(static_cast<fusec_dtype>(99)), "");
  EXPECT_EQ(fusec_dtype_bytes(FUSEC_I64), 8u);
  const FusecProgram program(artifact_.path(), "cpu");
  ASSERT_EQ(program.Symbols().size(), 1u);
  EXPECT_EQ(program.Symbols()[0].name, "batch");
  EXPECT_EQ(program.Symbols()[0].min, 0);
  EXPECT_EQ(program.weight_bytes(), 0u);
  int i = -1;
  EXPECT_EQ(fusec_find_input(program.handle(), "index", &i), FUSEC_OK);
  EXPECT_EQ(i, 1);
  EXPECT_EQ(fusec_find_output(program.handle(), "x", &i), FUSEC_BAD_INPUT);
  EXPECT_STREQ(fusec_last_error(), "there is no output \"x\", the program has \"y\"");
  fusec_symbol symbol;
  EXPECT_EQ(fusec_symbol_info(program.handle(), 1, &symbol), FUSEC_BAD_USAGE);
  FusecContext context(program);
  EXPECT_EQ(context.stream(), nullptr);
  EXPECT_EQ(context.scratch_bytes(), 0u);
  const Data data(100);
  data.Bind(context);
  context.Run();
  EXPECT_GE(context.scratch_bytes(), 100u * 4 * 4);  // hidden
}

TEST_F(RunTest, SaysWhetherItCanBeLoaded) {
  EXPECT_EQ(FusecProgram::WhyNot(artifact_.path()), "");
  EXPECT_EQ(FusecProgram::WhyNot(artifact_.path(), "tpu"),
            "unknown device \"tpu\", expected cpu, cuda or cuda:N");
  std::filesystem::remove(artifact_.path() + "/weights.safetensors");  // not read
  EXPECT_EQ(FusecProgram::WhyNot(artifact_.path(), "cpu"), "");
  artifact_.EditManifest("\"cpu\": {", "\"sm_90a\": {");
  EXPECT_NE(FusecProgram::WhyNot(artifact_.path(), "cpu").find("was not compiled for the CPU"),
            std::string::npos);
}

TEST_F(RunTest, ChecksTypesAndSizesOfSpans) {
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  const Data data(4);
  context.BindInput("x", data.x, {4, 3});
  context.BindInput("index", data.index, {4, 2});
  EXPECT_EQ(ErrorOf(
                [&] {
                  context.BindInput("x", data.x, {5, 3});
                },
                FUSEC_BAD_INPUT),
            "input \"x\" has 12 elements, but its dims make 15");
  EXPECT_EQ(ErrorOf(
                [&] {
                  context.BindInput("index", data.x, {6, 2});
                },
                FUSEC_BAD_INPUT),
            "input \"index\" is i64, which is not the type asked for");
  context.Run();
  EXPECT_EQ(Copy(context.Output<float>("y")), TinyArtifact::Expected(data.x, data.index));
  EXPECT_EQ(ErrorOf([&] { context.Output<double>("y"); }, FUSEC_BAD_INPUT),
            "output \"y\" is f32, which is not the type asked for");
}

TEST_F(RunTest, RunsAnyBatchOneAfterTheOther) {
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  for (const int64_t batch : {1, 5, 0, 1000, 3, 20000, 1}) {
    const Data data(batch);
    data.Bind(context);
    EXPECT_EQ(context.OutputDims("y"), (std::vector<int64_t>{batch, 4}));
    context.Run();
    EXPECT_EQ(Copy(context.Output<float>("y")), TinyArtifact::Expected(data.x, data.index));
  }
}

TEST_F(RunTest, KeepsNanAndInfinity) {
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  Data data(2);
  data.x = {std::numeric_limits<float>::infinity(),  0, 0,
            std::numeric_limits<float>::quiet_NaN(), 0, 0};
  data.index = {0, 0, 0, 0};
  data.Bind(context);
  context.Run();
  const auto y = context.Output<float>("y");
  EXPECT_EQ(y[3], std::numeric_limits<float>::infinity());
  for (int j = 4; j < 8; ++j) EXPECT_TRUE(std::isnan(y[j])) << j << " " << y[j];
}

TEST_F(RunTest, TakesUnalignedMemory) {
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  const Data data(9);
  std::vector<char> memory(4096);
  char* x = memory.data() + 1;
  char* index = memory.data() + 1003;
  char* y = memory.data() + 2005;
  std::memcpy(x, data.x.data(), data.x.size() * 4);
  std::memcpy(index, data.index.data(), data.index.size() * 8);
  context.BindInput(0, x, {9, 3});
  context.BindInput(1, index, {9, 2});
  context.BindOutput(0, y, 9 * 16);
  context.Run();
  std::vector<float> result(36);
  std::memcpy(result.data(), y, 9 * 16);
  EXPECT_EQ(result, TinyArtifact::Expected(data.x, data.index));
  size_t bytes = 1;
  EXPECT_EQ(fusec_get_output(context.handle(), 0, &bytes), nullptr);
  EXPECT_EQ(bytes, 0u);
  context.BindOutput(0, nullptr, 0);  // the last run's result is the caller's all the same
  EXPECT_EQ(fusec_get_output(context.handle(), 0, &bytes), nullptr);
  context.Run();
  EXPECT_NE(fusec_get_output(context.handle(), 0, &bytes), nullptr);
}

TEST_F(RunTest, MoreHostMemoryThanThereIsIsRefused) {
  const FusecProgram program(artifact_.path(), "cpu");
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2 + 1}) {
    void* memory = nullptr;
    EXPECT_EQ(fusec_allocate_host(program.handle(), bytes, &memory), FUSEC_NO_DEVICE);
    EXPECT_EQ(memory, nullptr);
  }
}

TEST_F(RunTest, RunsInMemoryOfTheProgram) {
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  const Data data(9);
  HostArray<float> x(program, 0), y(program, 36);
  x = HostArray<float>(program, data.x.size());
  HostArray<int64_t> index(program, data.index.size());
  std::copy(data.x.begin(), data.x.end(), x.data());
  std::copy(data.index.begin(), data.index.end(), index.data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % 64, 0u);
  context.BindInput("x", x.values(), {9, 3});
  context.BindInput("index", index.values(), {9, 2});
  context.BindOutput(0, y.data(), y.size() * sizeof(float));
  context.Run();
  EXPECT_EQ(Copy(y.values()), TinyArtifact::Expected(data.x, data.index));
  EXPECT_EQ(fusec_allocate_host(program.handle(), 8, nullptr), FUSEC_BAD_USAGE);
  void* memory = y.data();
  EXPECT_EQ(fusec_allocate_host(nullptr, 8, &memory), FUSEC_BAD_USAGE);
  EXPECT_EQ(memory, nullptr);
  memory = y.data();
  EXPECT_EQ(fusec_allocate_host(program.handle(), size_t{1} << 60, &memory), FUSEC_NO_DEVICE);
  EXPECT_EQ(memory, nullptr);
  fusec_free_host(program.handle(), nullptr);
}

TEST_F(RunTest, ManyContextsShareAProgram) {
  const FusecProgram program(artifact_.path(), "cpu");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&program, thread] {
      FusecContext context(program);
      for (int run = 0; run < 20; ++run) {
        const Data data(1 + (thread * 37 + run * 211) % 3000);
        data.Bind(context);
        context.RunAsync(nullptr);
        context.Synchronize();
        EXPECT_EQ(Copy(context.Output<float>(0)), TinyArtifact::Expected(data.x, data.index));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RunTest, NamesTheBadIndexAndRecovers) {
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  Data data(8);
  data.index[11] = 200;
  data.Bind(context);
  EXPECT_EQ(
      ErrorOf([&] { context.Run(); }, FUSEC_BAD_INPUT),
      "node \"tables.3/Gather\": index 200 at position [5, 1] of \"index\" is outside -10..9");
  data.index[11] = 3;
  context.Run();
  EXPECT_EQ(Copy(context.Output<float>(0)), TinyArtifact::Expected(data.x, data.index));
}

TEST_F(RunTest, RejectsBadCalls) {
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  const Data data(4);
  const auto error = [&](auto body, fusec_status status = FUSEC_BAD_INPUT) {
    return ErrorOf(body, status);
  };
  EXPECT_EQ(error([&] { context.Run(); }), "input \"x\" is not bound");
  EXPECT_EQ(error([&] { context.BindInput(0, data.x.data(), {4}); }),
            "input \"x\" has rank 1, expected rank 2 ([batch, 3])");
  EXPECT_EQ(error([&] { context.BindInput("z", data.x.data(), {4}); }),
            "there is no input \"z\", the program has \"x\", \"index\"");
  EXPECT_EQ(error([&] { context.BindInput(7, data.x.data(), {4}); }, FUSEC_BAD_USAGE),
            "there is no input 7, the program has 2");
  EXPECT_EQ(error([&] {
              context.BindInput(0, data.x.data(), {4, 3}, true);
            }),
            "input \"x\" is device memory, but the program runs on cpu (native)");
  data.Bind(context);
  context.BindInput(1, data.index.data(), {3, 2});
  EXPECT_EQ(error([&] { context.Run(); }),
            "input \"index\" dim 0 is 3, but \"batch\" is already 4 (from input \"x\")");
  data.Bind(context);
  context.BindInput(0, nullptr, {4, 3});
  EXPECT_EQ(error([&] { context.Run(); }), "input \"x\" is null, expected 48 bytes");
  data.Bind(context);
  float small[4];
  context.BindOutput(0, small, sizeof(small));
  EXPECT_EQ(error([&] { context.Run(); }), "output \"y\" has 64 bytes, but room for 16 was bound");
  EXPECT_EQ(fusec_run(nullptr), FUSEC_BAD_USAGE);
  EXPECT_EQ(fusec_load(nullptr, "cpu", nullptr), FUSEC_BAD_USAGE);
  EXPECT_EQ(error([&] { FusecProgram(artifact_.path(), "tpu"); }, FUSEC_BAD_USAGE),
            "unknown device \"tpu\", expected cpu, cuda or cuda:N");
}

TEST_F(RunTest, TheRankIsCheckedBeforeDimsAreRead) {
  fusec_program* program = nullptr;
  fusec_context* context = nullptr;
  ASSERT_EQ(fusec_load(artifact_.path().c_str(), "cpu", &program), FUSEC_OK);
  ASSERT_EQ(fusec_create_context(program, &context), FUSEC_OK);
  const int64_t dim = 4;
  for (const int rank : {-1, 1, INT_MAX}) {
    EXPECT_EQ(fusec_bind_input(context, 0, nullptr, &dim, rank, 0), FUSEC_BAD_INPUT);
    EXPECT_EQ(std::string(fusec_last_error()),
              "input \"x\" has rank " + std::to_string(rank) + ", expected rank 2 ([batch, 3])");
  }
  EXPECT_EQ(fusec_bind_input(context, 0, nullptr, nullptr, 2, 0), FUSEC_BAD_USAGE);
  EXPECT_EQ(fusec_bind_output(context, 0, nullptr, 64, 0), FUSEC_BAD_USAGE);
  EXPECT_STREQ(fusec_last_error(), "data is null");
  EXPECT_EQ(fusec_bind_output(context, 0, nullptr, 0, 0), FUSEC_OK);
  fusec_destroy_context(context);
  fusec_unload(program);
}

TEST_F(RunTest, WeightsThatAreCutOffWhileInUseFailTheRun) {
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  const Data data(4);
  data.Bind(context);
  context.Run();
  const std::string weights = artifact_.path() + "/weights.safetensors";
  const auto bytes = std::filesystem::file_size(weights);
  std::filesystem::resize_file(weights, 1);
  EXPECT_EQ(ErrorOf([&] { context.Run(); }, FUSEC_BAD_ARTIFACT),
            weights + ": was truncated while it is in use, expected " + std::to_string(bytes) +
                " bytes");
}

TEST_F(RunTest, DamagedFilesNameThemselves) {
  const auto load_error = [&](fusec_status status = FUSEC_BAD_ARTIFACT) {
    return ErrorOf([&] { FusecProgram(artifact_.path(), "cpu"); }, status);
  };
  const std::string weights = artifact_.Read("weights.safetensors");
  std::string altered = weights;
  altered.back() ^= 1;
  artifact_.Write("weights.safetensors", altered);
  EXPECT_NE(load_error().find("weights.safetensors: was altered"), std::string::npos);
  std::filesystem::remove(artifact_.path() + "/weights.safetensors");
  EXPECT_NE(load_error().find("weights.safetensors: cannot be read"), std::string::npos);
  artifact_.Write("weights.safetensors", weights);
  artifact_.EditManifest("\"k01_gather_add\"", "\"k02\"");
  EXPECT_NE(load_error().find("kernels-native.so: has no function k02_blocks"), std::string::npos);
  artifact_.EditManifest("\"native\"", "\"x86-64-v9\"");
  EXPECT_NE(load_error(FUSEC_NO_DEVICE).find("has CPU kernels for x86-64-v9"), std::string::npos);
  artifact_.EditManifest("\"cpu\": {", "\"sm_90a\": {");
  EXPECT_NE(load_error(FUSEC_NO_DEVICE).find("was not compiled for the CPU"), std::string::npos);
  std::filesystem::remove(artifact_.path() + "/manifest.json");
  EXPECT_NE(load_error().find("manifest.json: cannot be read"), std::string::npos);
}

// A serving process replaces an artifact on the disk while it still runs the old one.
TEST_F(RunTest, LoadsAReplacedArtifactBesideTheOldOne) {
  const FusecProgram old_program(artifact_.path(), "cpu");
  artifact_.Write("cpu/kernels-native.so", artifact_.Read("cpu/kernels-native.so"));
  artifact_.EditManifest("\"extent\": \"10\"", "\"extent\": \"11\"");
  const FusecProgram new_program(artifact_.path(), "cpu");
  for (const FusecProgram* program : {&old_program, &new_program}) {
    FusecContext context(*program);
    const Data data(3);
    data.Bind(context);
    context.Run();
    EXPECT_EQ(Copy(context.Output<float>(0)), TinyArtifact::Expected(data.x, data.index));
  }
}

bool IsMappedAsCode(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" r-xp ") != std::string::npos && line.ends_with(path)) return true;
  }
  return false;
}

// The dynamic loader remembers a library under every name by which it was opened, even if the name belongs to another file later.
TEST_F(RunTest, LoadsAnotherArtifactAfterASecondProgramOfTheFirst) {
  const FusecProgram first(artifact_.path(), "cpu");
  std::make_unique<FusecProgram>(artifact_.path(), "cpu").reset();
  const TinyArtifact other;
  const FusecProgram program(other.path(), "cpu");
  EXPECT_TRUE(IsMappedAsCode(artifact_.path() + "/cpu/kernels-native.so"));
  EXPECT_TRUE(IsMappedAsCode(other.path() + "/cpu/kernels-native.so"));
}

TEST_F(RunTest, MatmulOutsideItsBuffersIsRefused) {
  const auto error = [&] {
    const FusecProgram program(artifact_.path(), "cpu");
    FusecContext context(program);
    const Data data(2);
    data.Bind(context);
    return ErrorOf([&] { context.Run(); }, FUSEC_BAD_ARTIFACT);
  };
  artifact_.EditManifest("\"k\": \"3\"", "\"k\": \"4\"");
  EXPECT_EQ(error(),
            "step \"m00_matmul\": 88 bytes read, 32 bytes written and 48 flops do not fit its 1 "
            "products of 2 x 4 and 4 x 4");
  artifact_.EditManifest("batch*12 + 64", "batch*16 + 80");
  artifact_.EditManifest("batch*24", "batch*32");
  EXPECT_EQ(error(),
            "step \"m00_matmul\": operand a does not lie inside buffer \"x\" of 6 elements");
}

TEST_F(RunTest, StepsThatDoNotRunForTheDimsWriteNothing) {
  artifact_.EditManifest("\"kind\": \"matmul\",",
                         "\"kind\": \"matmul\", \"when\": {\"size\": \"batch\", \"from\": 3, "
                         "\"to\": 9},");
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  const Data few(2), more(3);
  few.Bind(context);
  EXPECT_EQ(ErrorOf([&] { context.Run(); }, FUSEC_BAD_ARTIFACT),
            "the steps for these dims: \"k01_gather_add\" reads buffer \"hidden\", which no step "
            "before it writes");
  more.Bind(context);
  context.Run();
  EXPECT_EQ(Copy(context.Output<float>(0)), TinyArtifact::Expected(more.x, more.index));
}

TEST_F(RunTest, AKernelWithoutBlocksIsRefused) {
  artifact_.EditManifest("\"blocks\": \"batch\"", "\"blocks\": \"0\"");
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  const Data data(2);
  data.Bind(context);
  EXPECT_EQ(ErrorOf([&] { context.Run(); }, FUSEC_BAD_ARTIFACT),
            "step \"k01_gather_add\": 0 blocks write 32 bytes, expected 1..2147483647 blocks");
}

// Sizes are checked before anything runs: the library's product would stay inside a smaller `hidden`, but a kernel does not know its size.
TEST_F(RunTest, BuffersTooSmallForTheirStepsAreRefused) {
  artifact_.EditManifest("\"arena\", \"dtype\": \"f32\", \"elements\": \"batch*4\"",
                         "\"arena\", \"dtype\": \"f32\", \"elements\": \"min(batch*4, 40)\"");
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  const auto run = [&](int64_t batch) {
    const Data data(batch);
    data.Bind(context);
    context.Run();
    EXPECT_EQ(Copy(context.Output<float>("y")), TinyArtifact::Expected(data.x, data.index));
  };
  run(10);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ErrorOf([&] { run(13); }, FUSEC_BAD_ARTIFACT),
              "step \"m00_matmul\" writes 208 bytes, 48 more than its buffers hold: \"hidden\"");
  }
  run(3);
}

TEST_F(RunTest, SizesThatOverflowAreRefused) {
  artifact_.EditManifest("\"bytes_written\": \"batch*16\"",
                         "\"bytes_written\": \"batch*4611686018427387904\"");
  const FusecProgram program(artifact_.path(), "cpu");
  FusecContext context(program);
  const Data data(2);
  data.Bind(context);
  EXPECT_EQ(ErrorOf([&] { context.Run(); }, FUSEC_BAD_INPUT),
            "the dim batch*4611686018427387904 does not fit in 64 bits");
}

}  // namespace
}  // namespace fusec::runtime
