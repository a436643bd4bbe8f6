// The rule of codegen_templates/device/dependent_launch.cuh, held against the kernels of every
// model.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "compiler/driver/compile.h"
#include "compiler/support/read_file.h"
#include "runtime/src/nvrtc.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

constexpr char kCall[] = "  AwaitEarlierKernels();";

std::string Read(const fs::path& path) {
  const auto text = ReadWholeFile(path.string(), ErrorKind::kModel);
  EXPECT_TRUE(text) << path;
  return text ? *text : "";
}

// The kernel's first statement behind its named constants, with their comments and further lines.
std::string FirstStatement(const std::string& text) {
  std::istringstream lines(text.substr(text.find("extern \"C\" __global__")));
  std::string line;
  while (std::getline(lines, line) && !line.ends_with("{")) {
  }
  while (std::getline(lines, line) &&
         (line.starts_with("  constexpr") || line.starts_with("  static constexpr") ||
          line.starts_with("  //") || line.starts_with("   "))) {
  }
  return line;
}

// What is wrong with the only kernel of a PTX text: it must wait in its first block, before
// anything that touches memory of the GPU.
std::string WrongInPtx(const std::string& ptx) {
  static const std::regex kBefore(
      R"(^\s*(@|\$L|bra|bar|call|(ld|st)\.(?!param|shared|local)|atom|red|cp\.|ldmatrix|prefetch))");
  std::istringstream lines(ptx.substr(ptx.find(".entry")));
  std::string line;
  while (std::getline(lines, line)) {
    if (line.find("griddepcontrol.wait") != std::string::npos) return "";
    if (std::regex_search(line, kBefore)) return line;
  }
  return "no wait";
}

template <class T>
T At(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The same of the machine code of every kernel of a cubin, since the assembler moves loads too: an
// instruction has 16 bytes, of which the lowest 9 bits say what it is (instruction_mix.cc).
std::vector<std::string> WrongInMachineCode(std::string_view cubin) {
  constexpr uint64_t kWait = 0x02e, kBranch = 0x147;
  const std::set<uint64_t> memory = {0x180, 0x181, 0x185, 0x186, 0x18a, 0x18e, 0x1a8, 0x1a9, 0x1ae};
  const auto sections = At<uint64_t>(cubin, 40);
  const auto header = [&](int i) { return sections + 64 * static_cast<uint64_t>(i); };
  const auto names = At<uint64_t>(cubin, header(At<uint16_t>(cubin, 62)) + 24);
  std::vector<std::string> wrong;
  int kernels = 0;
  for (int i = 0; i < At<uint16_t>(cubin, 60); ++i) {
    const std::string name = cubin.data() + names + At<uint32_t>(cubin, header(i));
    if (!name.starts_with(".text.k")) continue;
    ++kernels;
    const auto begin = At<uint64_t>(cubin, header(i) + 24);
    const auto end = begin + At<uint64_t>(cubin, header(i) + 32);
    auto at = begin;
    const auto opcode = [&] { return At<uint64_t>(cubin, at) & 0x1ff; };
    while (at < end && opcode() != kWait && opcode() != kBranch && !memory.count(opcode()))
      at += 16;
    if (at == end || opcode() != kWait) wrong.push_back(name);
  }
  if (kernels == 0) wrong.push_back("no kernels");
  return wrong;
}

class DependentLaunch : public testing::TestWithParam<std::string> {};

TEST_P(DependentLaunch, KernelsWaitBeforeTheyTouchMemory) {
  const auto nvrtc = runtime::Nvrtc::Get();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  const fs::path folder =
      fs::path(testing::TempDir()) / ("dependent_launch_" + std::to_string(getpid()));
  for (const char* target : {"sm_80", "sm_90a"}) {
    CompileOptions options;
    options.model_path = FUSEC_SOURCE_DIR "/models/" + GetParam();
    options.output_path = (folder / "artifact").string();
    options.targets = {target};
    fs::create_directories(folder);
    const auto report = CompileModel(options);
    ASSERT_TRUE(report) << report.error().message;
    const bool expected = std::string(target) == "sm_90a" && report->launches.at(target) > 1;
    const std::string manifest = Read(folder / "artifact/manifest.json");
    EXPECT_EQ(manifest.find("\"dependent_launch\": true") != std::string::npos, expected);
    EXPECT_EQ(manifest.find("\"dependent_launch\": false") != std::string::npos, !expected);
    if (expected) {
      for (const auto& entry : fs::directory_iterator(folder / "artifact/cubin"))
        EXPECT_EQ(WrongInMachineCode(Read(entry.path())), std::vector<std::string>())
            << entry.path();
    }
    for (const auto& entry : fs::directory_iterator(folder / "artifact/kernels")) {
      const std::string text = Read(entry.path());
      if (!expected) {
        EXPECT_EQ(text.find("AwaitEarlierKernels"), std::string::npos) << entry.path();
        continue;
      }
      EXPECT_TRUE(FirstStatement(text).starts_with(kCall)) << entry.path() << "\n" << text;
      const auto ptx = (*nvrtc)->CompileToPtx("kernel.cu", text, "compute_90a");
      ASSERT_TRUE(ptx) << ptx.error().message;
      EXPECT_EQ(WrongInPtx(*ptx), "") << entry.path();
    }
    fs::remove_all(folder);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DependentLaunch,
                         testing::Values("dlrm_dot.ts.onnx", "lecture_dlrm.ts.onnx", "lola.ts.onnx",
                                         "lora_block.ts.onnx"));

TEST(DependentLaunchText, SeesLoadsBeforeTheWait) {
  EXPECT_EQ(WrongInPtx(".entry k()\n\tld.param.u64 %rd1, [p];\n\tgriddepcontrol.wait;\n"), "");
  EXPECT_NE(WrongInPtx(".entry k()\n\tld.global.nc.f32 %f1, [p];\n\tgriddepcontrol.wait;\n"), "");
  EXPECT_NE(WrongInPtx(".entry k()\n\t@%p1 bra $L1;\n\tgriddepcontrol.wait;\n"), "");
  EXPECT_NE(WrongInPtx(".entry k()\n\tret;\n"), "");
  const std::string wait = "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n";
  const std::string begin = "extern \"C\" __global__ void k(const float* x, float* y) {\n";
  const std::string load = "float a = *x;\n", store = "*y = a;\n}\n";
  for (const bool right : {false, true}) {
    const auto cubin =
        (*runtime::Nvrtc::Get())
            ->CompileToCubin("k.cu", begin + (right ? wait + load : load + wait) + store, "sm_90a");
    ASSERT_TRUE(cubin) << cubin.error().message;
    EXPECT_EQ(WrongInMachineCode(*cubin).empty(), right);
  }
}

}  // namespace
}  // namespace fusec
