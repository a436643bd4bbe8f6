#include <gtest/gtest.h>

#include "compiler/driver/explain/cubin_reader.h"
#include "compiler/driver/explain/occupancy.h"
#include "compiler/driver/explain/ptx_reader.h"
#include "runtime/src/cuda/nvrtc.h"

namespace fusec {
namespace {

using Class = InstructionClass;

TEST(Ptx, ClassifiesOpcodes) {
  const std::pair<const char*, Class> cases[] = {
      {"ld.global.nc.v4.f32", Class::kGlobalLoad},
      {"ld.v2.u64", Class::kGlobalLoad},  // a generic address
      {"cp.async.cg.shared.global", Class::kGlobalLoad},
      {"st.global.f32", Class::kGlobalStore},
      {"ld.shared.f32", Class::kSharedLoad},
      {"st.shared::cluster.b32", Class::kSharedStore},
      {"ld.param.u64", Class::kMove},
      {"ld.local.u32", Class::kLocal},
      {"atom.global.cas.b32", Class::kAtomic},
      {"fma.rn.f32", Class::kFma},
      {"mad.lo.s32", Class::kInteger},
      {"add.rn.f16x2", Class::kFloat},
      {"setp.lt.f32", Class::kFloat},
      {"setp.lt.s32", Class::kInteger},
      {"div.rn.f32", Class::kSpecial},
      {"ex2.approx.ftz.f32", Class::kSpecial},
      {"div.s32", Class::kInteger},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", Class::kTensor},
      {"shfl.sync.bfly.b32", Class::kShuffle},
      {"bar.sync", Class::kBarrier},
      {"bra.uni", Class::kControl},
      {"ret", Class::kControl},
      {"cvt.f32.f16", Class::kMove},
      {"selp.f32", Class::kMove},
  };
  for (const auto& [opcode, expected] : cases)
    EXPECT_STREQ(InstructionClassName(ClassifyPtx(opcode)), InstructionClassName(expected))
        << opcode;
}

int Count(const InstructionMix& mix, Class instruction_class) {
  return mix[static_cast<size_t>(instruction_class)];
}

TEST(Ptx, CountsInstructionsOfEachKernel) {
  const auto kernels = ReadPtx(
      ".version 9.0\n"
      ".func (.param .b32 out) helper(\n\t.param .b32 in\n)\n{\n\tadd.s32 \t%r1, %r2, "
      "1;\n\tret;\n}\n"
      ".visible .entry first(\n\t.param .u64 first_param_0\n)\n.maxntid 32, 1, 1\n{\n"
      "\t.reg .f32 \t%f<3>;\n\n"
      "\tld.param.u64 \t%rd1, [first_param_0];\n"
      "$L__BB0_1:\n\t.pragma \"nounroll\";\n"
      "\t// add.f32 in a comment\n"
      "\tld.global.v4.f32 \t{%f1, %f2, %f3, %f4}, [%rd1];\n"
      "\t@!%p1 bra \t$L__BB0_1;\n"
      "\t{  cvt.f32.f16 %f1, %rs1;}\n"
      "\t{ // callseq 0, 0\n\t.param .b32 param0;\n\tst.param.b32 \t[param0], %r1;\n"
      "\tcall.uni (retval0), \n\thelper, \n\t(\n\tparam0\n\t);\n\t}\n"
      "\tret;\n}\n"
      ".visible .entry second()\n{\n\tret;\n}\n");
  ASSERT_EQ(kernels.size(), 2u);
  const InstructionMix& first = kernels.at("first");
  EXPECT_EQ(Count(first, Class::kGlobalLoad), 1);
  EXPECT_EQ(Count(first, Class::kControl), 3) << "bra, call, ret";
  EXPECT_EQ(Count(first, Class::kMove), 3) << "ld.param, cvt, st.param";
  EXPECT_EQ(Count(first, Class::kInteger), 0) << "the function's";
  EXPECT_EQ(Count(first, Class::kFloat), 0) << "a comment";
  EXPECT_EQ(Count(kernels.at("second"), Class::kControl), 1);
  EXPECT_TRUE(ReadPtx("").empty());
}

TEST(Ptx, ReadsTheAssemblersLog) {
  const auto kernels = ReadPtxasLog(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     56 bytes stack frame, 52 bytes spill stores, 48 bytes spill loads\n"
      "ptxas info    : Used 61 registers, used 1 barriers, 128 bytes smem\n");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels.at("k").registers, 61);
  EXPECT_EQ(kernels.at("k").spill_store_bytes, 52);
  EXPECT_EQ(kernels.at("k").spill_load_bytes, 48);
  EXPECT_EQ(kernels.at("k").shared_bytes, 128);
}

// Two kernels: one with shared memory and a thread-local array, one with neither.
constexpr char kSource[] = R"(
extern "C" __global__ void __launch_bounds__(96) turn(const float* in, float* out, int n) {
  __shared__ float tile[300];
  float own[40];
  for (int i = 0; i < 40; ++i) own[i] = 0.0f;
  for (int i = 0; i < n; ++i) own[(unsigned)(i * threadIdx.x) % 40u] += in[i];
  tile[threadIdx.x] = own[threadIdx.x % 40u];
  __syncthreads();
  out[threadIdx.x] = tile[95 - threadIdx.x];
}
extern "C" __global__ void one(float* out) { out[threadIdx.x] = 1.0f; }
)";

TEST(Cubin, AgreesWithTheAssembler) {
  const auto nvrtc = runtime::Nvrtc::Get();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100", "sm_120"}) {
    const auto cubin = (*nvrtc)->CompileToCubin("turn.cu", kSource, architecture);
    ASSERT_TRUE(cubin) << cubin.error().message;
    const auto inspection = (*nvrtc)->Inspect("turn.cu", kSource, architecture);
    ASSERT_TRUE(inspection) << inspection.error().message;
    auto log = ReadPtxasLog(inspection->log);
    const auto kernels = ReadCubin(*cubin, "turn.cubin");
    ASSERT_TRUE(kernels) << kernels.error().message;
    ASSERT_EQ(kernels->size(), 2u);
    for (const CubinKernel& kernel : *kernels) {
      EXPECT_EQ(kernel.registers, log[kernel.name].registers) << architecture;
      EXPECT_GT(kernel.registers, 0);
      EXPECT_EQ(kernel.shared_bytes, log[kernel.name].shared_bytes) << architecture;
      EXPECT_GT(kernel.code_bytes, 0);
      EXPECT_EQ(kernel.code_bytes % 16, 0);
    }
    const CubinKernel &one = (*kernels)[0], &turn = (*kernels)[1];
    EXPECT_EQ(one.name, "one");
    EXPECT_EQ(one.shared_bytes, 0);
    EXPECT_EQ(one.frame_bytes, 0);
    EXPECT_EQ(turn.shared_bytes, 1200);
    EXPECT_GE(turn.frame_bytes, 160) << "the array that data indexes";
    EXPECT_EQ(turn.max_threads, 96);
    EXPECT_EQ(turn.barriers, 1);
    EXPECT_GT(Count(ReadPtx(inspection->ptx)["turn"], Class::kLocal), 0);
    EXPECT_GT(Count(turn.mix, Class::kLocal), 0);
    EXPECT_EQ(Count(turn.mix, Class::kBarrier), 1);
    EXPECT_EQ(Count(turn.mix, Class::kSharedStore), 1);
    EXPECT_EQ(Count(turn.mix, Class::kOther), 0) << architecture;
    EXPECT_EQ(Count(one.mix, Class::kGlobalStore), 1);
    EXPECT_EQ(Count(one.mix, Class::kOther), 0) << architecture;
  }
}

TEST(Cubin, DamagedFilesAreErrorsOrEmpty) {
  const auto cubin = (*runtime::Nvrtc::Get())->CompileToCubin("turn.cu", kSource, "sm_90a");
  ASSERT_TRUE(cubin);
  EXPECT_FALSE(ReadCubin("", "x"));
  EXPECT_FALSE(ReadCubin(std::string(200, 'x'), "x"));
  for (size_t size = 0; size < cubin->size(); size += 37)
    (void)ReadCubin(std::string_view(*cubin).substr(0, size), "x");
  for (size_t at = 0; at < cubin->size(); at += 5) {
    std::string damaged = *cubin;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    (void)ReadCubin(damaged, "x");  // for the sanitizers: nothing outside of the file is read
  }
}

TEST(Occupancy, CountsBlocksThatFit) {
  const Gpu &h200 = GpuFor("sm_90a"), &a100 = GpuFor("sm_80");

  Occupancy full = OccupancyOf(h200, 256, 32, 0);
  EXPECT_EQ(full.blocks, 8);
  EXPECT_EQ(full.fraction, 1.0);
  EXPECT_EQ(full.limit, "threads");
  // 61 registers are 2048 a warp: 32 warps, half of 64.
  const Occupancy registers = OccupancyOf(h200, 256, 61, 128);
  EXPECT_EQ(registers.blocks, 4);
  EXPECT_EQ(registers.fraction, 0.5);
  EXPECT_EQ(registers.limit, "registers");
  // One warp a block: 32 blocks hold half of the warps.
  EXPECT_EQ(OccupancyOf(h200, 32, 26, 128).limit, "blocks");
  EXPECT_EQ(OccupancyOf(h200, 32, 26, 128).fraction, 0.5);
  // 48 KB and the system's 1 KB, three times in 164 KB.
  EXPECT_EQ(OccupancyOf(a100, 128, 32, 48 << 10).blocks, 3);
  EXPECT_EQ(OccupancyOf(a100, 128, 32, 48 << 10).limit, "shared memory");
  EXPECT_EQ(OccupancyOf(a100, 1024, 255, 0).blocks, 0) << "no such block can start";
}

}  // namespace
}  // namespace fusec
