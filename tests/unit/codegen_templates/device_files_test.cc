#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "codegen_templates/templates.h"

namespace fusec {
namespace {

// Compiles `text` after the CPU's header; returns the compiler's messages, with "failed: " in front if it fails.
std::string CompileForCpu(const std::string& text, const std::string& flags) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("device_files_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "kernel.cc") << TemplateText("host/cuda_on_cpu.h").value()
                                      << "namespace fusec_kernels {\n" << text << "}\n";
  const std::string command = "cd " + folder.string() + " && g++ -std=c++20 -Wall -Wextra -Werror -Wno-unknown-pragmas "
                              "-march=x86-64-v3 -fno-math-errno -fno-trapping-math " + flags +
                              " -c kernel.cc -o kernel.o > messages 2>&1";
  const bool good = std::system(command.c_str()) == 0;
  std::stringstream messages;
  messages << std::ifstream(folder / "messages").rdbuf();
  std::filesystem::remove_all(folder);
  return (good ? "" : "failed: ") + messages.str();
}

// A file of device/ after the files on which it depends, in the order in which a kernel contains them.
std::string TextWithNeeds(const std::string& path) {
  static const std::map<std::string, std::vector<std::string>> kNeeds = {
      {"device/gelu_tanh.cuh", {"sigmoid"}},
      {"device/tile_memory.cuh", {"async_copy", "tensor_core", "vector"}},
      {"device/matmul_tile.cuh", {"async_copy", "tensor_core", "vector", "tile_memory"}},
      {"device/block_cluster.cuh", {"vector"}},
      {"device/made_operand.cuh", {"vector"}},
      {"device/matmul_rows.cuh", {"vector"}},
      {"device/matmul_few_rows.cuh", {"vector", "tensor_core", "matmul_rows"}},
      {"device/matmul_columns.cuh", {"vector"}},
      {"device/unpack_int4.cuh", {"vector"}},
      {"device/dequantize_int4.cuh", {"vector", "tensor_core"}},
      {"device/row_cache.cuh", {"vector"}},
      {"device/slot_matmul.cuh", {"half", "vector", "tensor_core", "matmul_rows", "block_cluster"}},
      {"device/dependent_neighbor.cuh", {"dependent_launch"}},
      {"device/slot_addend.cuh", {"half", "vector", "tensor_core", "matmul_rows", "dependent_launch"}},
      {"device/register_weights.cuh", {"half", "vector"}},
      {"device/simd_reduce.cuh", {"block_reduce"}},
      {"device/block_best.cuh", {"block_reduce"}},
      {"device/sort_parts.cuh", {"sort_key"}},
      {"device/choose_first.cuh", {"block_reduce", "sort_key", "sort_parts"}},
      {"device/keep_first.cuh", {"sort_key"}},
      {"device/count_before.cuh", {"order"}},
      {"device/matmul_warpgroup.cuh",
       {"async_copy", "tensor_core", "vector", "tile_memory", "block_cluster", "warpgroup", "split_half", "float8", "copy_barrier",
        "warpgroup_registers", "warpgroup_stages", "warpgroup_units"}},
      {"device/warpgroup_stages.cuh",
       {"async_copy", "tensor_core", "vector", "tile_memory", "block_cluster", "warpgroup", "split_half", "float8", "copy_barrier"}},
      {"device/split_half.cuh", {"tensor_core", "warpgroup"}},
      {"device/attention_tile.cuh", {"half", "vector", "tensor_core"}},
      {"device/attention_mma.cuh", {"half", "vector", "tensor_core", "attention_tile"}},
      {"device/attention_parts.cuh", {"half", "vector", "tensor_core", "attention_tile", "block_cluster"}},
      {"device/warpgroup.cuh", {"tensor_core"}},
      {"device/kept_product.cuh", {"tensor_core"}},
      {"device/attention_warpgroup.cuh", {"half", "vector", "tensor_core", "warpgroup", "attention_tile"}}};
  std::string text;
  if (const auto found = kNeeds.find(path); found != kNeeds.end()) {
    for (const std::string& file : found->second) text += TemplateText("device/" + file + ".cuh").value();
  }
  return text + std::string(TemplateText(path).value());
}

TEST(DeviceFilesTest, EachCompilesForTheCpu) {
  int files = 0;
  for (const std::string_view path : TemplatePaths()) {
    if (!path.starts_with("device/")) continue;
    EXPECT_EQ(CompileForCpu(TextWithNeeds(std::string(path)), "-O1"), "") << path;
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST(DeviceFilesTest, LoopsVectorize) {
  struct Loop {
    std::string file, element;
  };
  const std::vector<Loop> loops = {
      {"sigmoid.cuh", "Sigmoid(x)"},   {"gelu.cuh", "Gelu(x)"},         {"gelu_tanh.cuh", "GeluTanh(x)"},
      {"softplus.cuh", "Softplus(x)"}, {"mish.cuh", "Mish(x)"},         {"minmax.cuh", "Max(x, 0.5f)"},
      {"half.cuh", "RoundToHalf(x)"},  {"truncate.cuh", "TruncateToInt(x)"},
      {"hard_sigmoid.cuh", "HardSwish(x)"}, {"", "tanhf(x)"},           {"", "expf(x)"},
      {"", "logf(x)"},                 {"", "x < 0.0f ? 0.1f * expm1f(x) : x"}};
  for (const Loop& loop : loops) {
    std::string text = loop.file.empty() ? "" : TextWithNeeds("device/" + loop.file);
    text += "extern \"C\" __global__ void k(const float* __restrict__ a, float* __restrict__ b,"
            " int n) {\n  for (int i = 0; i < n; ++i) {\n    const float x = a[i];\n    b[i] = " +
            loop.element + ";\n  }\n}\n";
    const std::string messages = CompileForCpu(text, "-O3 -fopt-info-vec-optimized");
    EXPECT_NE(messages.find("loop vectorized using 32 byte vectors"), std::string::npos)
        << loop.element << ": " << messages;
  }
}

TEST(DeviceFilesTest, LanesFoldTheLargest) {
  const std::string messages = CompileForCpu(
      TextWithNeeds("device/simd_reduce.cuh") +
          "extern \"C\" __global__ void k(const float* __restrict__ a, float* __restrict__ b, int n) {\n"
          "  float largest = a[0];\n  #pragma omp simd reduction(larger : largest)\n"
          "  for (int i = 0; i < n; ++i) largest = LargerOf::Combine(largest, a[i]);\n  b[0] = largest;\n}\n",
      "-O3 -fopenmp-simd -fopt-info-vec-optimized");
  EXPECT_NE(messages.find("loop vectorized using 32 byte vectors"), std::string::npos) << messages;
}

}  // namespace
}  // namespace fusec
