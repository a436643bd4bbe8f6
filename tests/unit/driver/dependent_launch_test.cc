// Checks the rule of codegen_templates/device/dependent_launch.cuh for the kernels of every model.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "compiler/driver/build/compile.h"
#include "compiler/support/read_file.h"
#include "runtime/src/cuda/nvrtc.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string Read(const fs::path& path) {
  const auto text = ReadWholeFile(path.string(), ErrorKind::kModel);
  EXPECT_TRUE(text) << path;
  return text ? *text : "";
}

// The instructions before the wait in a kernel's PTX text, or in its machine code.
struct BeforeWait {
  std::string wrong;      // an instruction that must not be there
  int weights_loads = 0;  // loads that may be there
};

// The numbers of a kernel's parameters that point to weights, and of those that point to other data.
struct Pointers {
  std::set<int> weights, others;
};

bool Meet(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int i) { return b.count(i) != 0; });
}

// Before the wait, loads of weights and copies of weights to shared memory are allowed, and the instructions that compute their addresses.
// Other data must never be loaded as read-only data (ld.global.nc).
BeforeWait InPtx(const std::string& ptx, const Pointers& pointers) {
  static const std::regex kParameter(R"(^\tld\.param\S*\s+(%\w+), \[\w*?_param_(\d+)\])");
  static const std::regex kLoad(R"(^\t(@!?%p\d+ )?ld\.global(\.nc)?\S*\s+[^\[]*\[(%\w+))");
  static const std::regex kCopy(
      R"(^\t(@!?%p\d+ )?cp\.async\.(?:c[ag]|bulk)\S*\s+\[%\w+\], \[(%\w+))");
  static const std::regex kBranch(R"(^\t(@!?%p\d+ )?bra\S*\s+(\$\w+);)");
  static const std::regex kForbidden(
      R"(^\t(@!?%p\d+ )?(bar|call|(ld|st)\.(?!param|shared|local)|atom|red|cp\.(?!async\.commit)|ldmatrix|prefetch))");
  static const std::regex kRegister(R"(%\w+)");
  BeforeWait found;
  std::map<std::string, std::set<int>> from;  // the parameters from which a register was computed
  std::set<std::string> ahead;                // labels that must also be before the wait
  std::set<std::string> behind;               // labels that are before the wait
  bool has_waited = false;
  std::istringstream lines(ptx.substr(ptx.find(".entry")));
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("griddepcontrol.wait") != std::string::npos) {
      if (!ahead.empty()) return {"a way around the wait", 0};
      has_waited = true;
    } else if (line.starts_with("$")) {
      behind.insert(line.substr(0, line.find(':')));
      ahead.erase(line.substr(0, line.find(':')));
    } else if (std::regex_search(line, match, kParameter)) {
      from[match[1]] = {std::stoi(match[2])};
    } else if (std::regex_search(line, match, kLoad)) {
      const std::set<int>& parameters = from[match[3]];
      const bool may_change = Meet(parameters, pointers.others);
      if (may_change && (!has_waited || match[2].matched)) return {line, 0};
      if (!has_waited && !Meet(parameters, pointers.weights)) return {line, 0};
      found.weights_loads += !has_waited;
    } else if (!has_waited && std::regex_search(line, match, kCopy)) {
      const std::set<int>& parameters = from[match[2]];
      if (Meet(parameters, pointers.others) || !Meet(parameters, pointers.weights))
        return {line, 0};
      ++found.weights_loads;
    } else if (!has_waited && std::regex_search(line, match, kBranch)) {
      if (!behind.count(match[2])) ahead.insert(match[2]);
    } else if (!has_waited && std::regex_search(line, kForbidden)) {
      return {line, 0};
    } else if (std::sregex_iterator at(line.begin(), line.end(), kRegister), end; at != end) {
      std::set<int>& made = from[at->str()];
      for (++at; at != end; ++at) made.merge(std::set<int>(from[at->str()]));
    }
  }
  return has_waited ? found : BeforeWait{"no wait", 0};
}

template <class T>
T At(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The same for every kernel of a cubin, by name, since the assembler moves loads, too. An instruction has 16 bytes, whose lowest 9 bits are
// the opcode (instruction_mix.cc). This does not show which data are loaded, so only the number of loads is compared with the PTX.
std::map<std::string, BeforeWait> InMachineCode(std::string_view cubin) {
  constexpr uint64_t kWait = 0x02e, kLoad = 0x181, kCopyToShared = 0x1ae, kBulkCopy = 0x1ba;
  const std::set<uint64_t> memory = {0x180, 0x185, 0x186, 0x18a, 0x18e, 0x1a8, 0x1a9};
  const auto sections = At<uint64_t>(cubin, 40);
  const auto header = [&](int i) { return sections + 64 * static_cast<uint64_t>(i); };
  const auto names = At<uint64_t>(cubin, header(At<uint16_t>(cubin, 62)) + 24);
  std::map<std::string, BeforeWait> kernels;
  for (int i = 0; i < At<uint16_t>(cubin, 60); ++i) {
    const std::string name = cubin.data() + names + At<uint32_t>(cubin, header(i));
    if (!name.starts_with(".text.k")) continue;
    BeforeWait& found = kernels[name.substr(std::strlen(".text."))];
    const auto begin = At<uint64_t>(cubin, header(i) + 24);
    const auto end = begin + At<uint64_t>(cubin, header(i) + 32);
    auto at = begin;
    const auto opcode = [&] { return At<uint64_t>(cubin, at) & 0x1ff; };
    while (at < end && opcode() != kWait && !memory.count(opcode())) {
      found.weights_loads +=
          opcode() == kLoad || opcode() == kCopyToShared || opcode() == kBulkCopy;
      at += 16;
    }
    if (at == end || opcode() != kWait) found.wrong = "no wait at first";
  }
  return kernels;
}

// The same for every kernel of an artifact for a target, by function.
std::map<std::string, Pointers> PointersOfKernels(const Json& manifest, const std::string& target) {
  std::map<std::string, Pointers> kernels;
  for (const Json& step : manifest["targets"][target]["steps"]) {
    if (step["kind"] != "kernel") continue;
    Pointers& pointers = kernels[step.value("function", step["name"].get<std::string>())];
    const Json& arguments = step["arguments"];
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].contains("buffer")) continue;
      const Json& buffer = manifest["buffers"][arguments[i]["buffer"].get<size_t>()];
      (buffer["kind"] == "constant" ? pointers.weights : pointers.others)
          .insert(static_cast<int>(i));
    }
  }
  return kernels;
}

class DependentLaunch : public testing::TestWithParam<std::string> {};

TEST_P(DependentLaunch, KernelsWaitBeforeTheyTouchMemory) {
  const auto nvrtc = runtime::Nvrtc::Get();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  const fs::path folder =
      fs::path(testing::TempDir()) / ("dependent_launch_" + std::to_string(getpid()));
  for (const char* target : {"sm_80", "sm_90a"}) {
    CompileOptions options;
    options.model_path = FUSEC_SOURCE_DIR "/" + GetParam();
    options.output_path = (folder / "artifact").string();
    options.targets = {target};
    fs::create_directories(folder);
    const auto report = CompileModel(options);
    ASSERT_TRUE(report) << report.error().message;
    const bool expected = std::string(target) == "sm_90a" && report->launches.at(target) > 1;
    const Json manifest = Json::parse(Read(folder / "artifact/manifest.json"));
    std::map<std::string, BeforeWait> machine_code;
    for (const auto& entry : fs::directory_iterator(folder / "artifact/cubin"))
      machine_code.merge(InMachineCode(Read(entry.path())));
    for (const Json& step : manifest["targets"][target]["steps"]) {
      if (step["kind"] != "kernel") continue;
      EXPECT_EQ(step["dependent_launch"], expected) << step["name"];
    }
    for (const auto& [name, pointers] : PointersOfKernels(manifest, target)) {
      const std::string text = Read(folder / ("artifact/kernels/" + name + ".cu"));
      EXPECT_EQ(text.find("AwaitEarlierKernels()") != std::string::npos, expected) << name;
      if (!expected) continue;
      const auto ptx = (*nvrtc)->CompileToPtx("kernel.cu", text, "compute_90a");
      ASSERT_TRUE(ptx) << ptx.error().message;
      const BeforeWait in_ptx = InPtx(*ptx, pointers);
      EXPECT_EQ(in_ptx.wrong, "") << name;
      EXPECT_EQ(machine_code[name].wrong, "") << name;
      EXPECT_EQ(machine_code[name].weights_loads, in_ptx.weights_loads) << name;
      const std::string before = text.substr(0, text.find("  AwaitEarlierKernels();"));
      const bool copies =
          before.find("CopyAsync<k", before.find("extern \"C\"")) != std::string::npos ||
          before.find("StartPanels<", before.find("extern \"C\"")) != std::string::npos;
      EXPECT_EQ(in_ptx.weights_loads > 0, copies || name.find("_rows_") != std::string::npos)
          << name;
    }
    fs::remove_all(folder);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DependentLaunch,
                         testing::Values("models/dlrm_dot.ts.onnx", "models/lecture_dlrm.ts.onnx",
                                         "models/lola.ts.onnx", "models/lora_block.ts.onnx",
                                         "tests/end_to_end/models/auto_int.ts.onnx",
                                         "tests/end_to_end/models/encoder.dynamo.onnx",
                                         "tests/end_to_end/models/lora_llama.ts.float16.onnx"));

TEST(DependentLaunchText, SeesLoadsBeforeTheWait) {
  const auto wrong = [](const std::string& text) {
    return InPtx(".entry k()\n" + text, {{1}, {0}}).wrong;
  };
  const std::string wait = "\tgriddepcontrol.wait;\n", load = "\tld.global.f32 %f1, [%rd2+4];\n";
  const std::string load_constant = "\tld.global.nc.f32 %f1, [%rd2+4];\n";
  const auto from = [](int i) {
    return "\tld.param.u64 %rd1, [k_param_" + std::to_string(i) +
           "];\n\tadd.s64 %rd2, %rd1, %rd3;\n";
  };
  EXPECT_EQ(wrong(from(0) + wait + load), "");
  EXPECT_NE(wrong(from(0) + wait + load_constant), "");
  EXPECT_EQ(wrong(from(1) + wait + load_constant), "");
  EXPECT_EQ(wrong(from(1) + load_constant + wait), "");
  EXPECT_EQ(wrong(from(1) + load + wait), "");
  EXPECT_NE(wrong(from(0) + load + wait), "");
  EXPECT_NE(wrong(load + wait), "");
  EXPECT_NE(wrong(from(1) + from(0) + "\tadd.s64 %rd2, %rd1, %rd2;\n" + load + wait), "");
  EXPECT_NE(wrong(from(1) + "\tst.global.f32 [%rd2], %f1;\n" + wait), "");
  const std::string copy = "\tcp.async.ca.shared.global [%r1], [%rd2], 16, %r2;\n";
  EXPECT_EQ(wrong(from(1) + copy + "\tcp.async.commit_group;\n" + wait), "");
  EXPECT_NE(wrong(from(0) + copy + wait), "");
  EXPECT_NE(wrong(from(1) + "\tcp.async.wait_group 0;\n" + wait), "");
  EXPECT_EQ(wrong("\t@%p1 bra $L1;\n$L1:\n" + wait), "");
  EXPECT_NE(wrong("\t@%p1 bra $L1;\n" + wait + "$L1:\n"), "");
  EXPECT_NE(wrong("\tret;\n"), "");

  const std::string await = "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n";
  const std::string begin = "extern \"C\" __global__ void k(const float* x, float* y) {\n";
  const std::string read = "float a = *x;\n", store = "*y = a;\n}\n";
  for (const bool loads_first : {false, true}) {
    const auto cubin =
        (*runtime::Nvrtc::Get())
            ->CompileToCubin("k.cu", begin + (loads_first ? read + await : await + read) + store,
                             "sm_90a");
    ASSERT_TRUE(cubin) << cubin.error().message;
    const BeforeWait found = InMachineCode(*cubin).at("k");
    EXPECT_EQ(found.wrong, "");
    EXPECT_EQ(found.weights_loads, loads_first);
  }
}

}  // namespace
}  // namespace fusec
