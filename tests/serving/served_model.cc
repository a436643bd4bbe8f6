#include "tests/serving/served_model.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/artifact/dtype.h"

namespace fusec::serving {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatches[] = {1, 3, 40, 130};

std::string Environment(const char* name, const std::string& otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? text : otherwise;
}

struct CompiledArtifact {
  CompiledArtifact() : path(Environment("FUSEC_TEST_ARTIFACT", "")) {
    if (!path.empty()) return;
    folder = fs::temp_directory_path() / ("fusec_serving_" + std::to_string(getpid()));
    fs::create_directories(folder);
    path = folder / "model_fused";
    const std::string target = DeviceUnderTest() == "cpu" ? "cpu" : "native";
    RunFusec(std::string(FUSEC_SOURCE_DIR) + "/models/dlrm_dot.ts.onnx -o " + path + " --target " +
             target + PlacementFlags());
  }
  ~CompiledArtifact() {
    std::error_code error;
    if (!folder.empty()) fs::remove_all(folder, error);
  }
  fs::path folder;
  std::string path;
};

// Values below the index limit of an input that chooses rows; otherwise floats around 0.
std::vector<std::byte> RandomInput(const runtime::TensorSignature& input, int64_t elements,
                                   const std::vector<int64_t>& symbols, std::mt19937& random) {
  std::vector<std::byte> bytes(static_cast<size_t>(elements * runtime::DtypeBytes(input.dtype)));
  if (input.dtype == FUSEC_F32) {
    std::normal_distribution<float> distribution;
    for (int64_t i = 0; i < elements; ++i) {
      const float value = distribution(random);
      std::memcpy(&bytes[static_cast<size_t>(i) * 4], &value, 4);
    }
    return bytes;
  }
  int64_t limit = 1001;  // the least of all tables that the input's columns reach
  for (const auto& each : input.index_limits) limit = std::min(limit, *each.Evaluate(symbols));
  std::uniform_int_distribution<int64_t> distribution(0, limit - 1);
  if (input.dtype != FUSEC_I64) throw Exception(FUSEC_BAD_INPUT, "expected f32 or i64 inputs");
  for (int64_t i = 0; i < elements; ++i) {
    const int64_t value = distribution(random);
    std::memcpy(&bytes[static_cast<size_t>(i) * 8], &value, 8);
  }
  return bytes;
}

}  // namespace

std::string PlacementFlags() {
  const std::string place = Environment("FUSEC_TEST_PLACEMENT", "");
  return place.empty() ? "" : " --table-placement '*=" + place + "'";
}

void RunFusec(const std::string& arguments) {
  const std::string command = Environment("FUSEC", FUSEC_PROGRAM) + " " + arguments;
  if (std::system(command.c_str()) != 0) throw Exception(FUSEC_BAD_ARTIFACT, "failed: " + command);
}

std::string DeviceUnderTest() { return Environment("FUSEC_TEST_DEVICE", "cpu"); }

const std::string& ServedArtifact() {
  static const CompiledArtifact artifact;
  return artifact.path;
}

std::vector<Request> MakeRequests(const Program& program, int count) {
  const auto artifact = Value(runtime::Artifact::OpenManifest(ServedArtifact()));
  const runtime::Manifest& manifest = artifact->manifest();
  std::vector<Request> requests;
  Context context(program);
  for (int i = 0; i < count; ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    // Every symbol of the model stands for its batch.
    const std::vector<int64_t> symbols(manifest.symbols.size(), kBatches[i % std::size(kBatches)]);
    Request& request = requests.emplace_back();
    for (const runtime::TensorSignature& input : manifest.inputs) {
      int64_t elements = 1;
      std::vector<int64_t>& dims = request.dims.emplace_back();
      for (const auto& dim : input.shape) {
        elements *= dims.emplace_back(*dim.Evaluate(symbols));
      }
      request.inputs.push_back(RandomInput(input, elements, symbols, random));
    }
    Bind(context, request);
    context.Run();
    for (size_t output = 0; output < manifest.outputs.size(); ++output) {
      const auto values = context.Output<float>(static_cast<int>(output));
      request.answers.emplace_back(values.begin(), values.end());
    }
  }
  return requests;
}

void Bind(Context& context, const Request& request) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    context.BindInput(static_cast<int>(i), request.inputs[i].data(), request.dims[i]);
  }
}

bool IsAnswer(const Request& request, size_t output, const float* values) {
  constexpr float kRounding = 1e-5f;  // sums of up to 512 products of values around 1 in f32
  const std::vector<float>& answer = request.answers[output];
  for (size_t i = 0; i < answer.size(); ++i) {
    if (!(std::fabs(values[i] - answer[i]) <= kRounding * (1 + std::fabs(answer[i])))) return false;
  }
  return true;
}

void Check(const runtime::Status& status) {
  if (!status) throw Exception(status.error().code, status.error().message);
}

std::unique_ptr<runtime::CudaContext> OpenGpu() {
  return DeviceUnderTest() == "cpu" ? nullptr : Value(runtime::CudaContext::Create(0));
}

int64_t FreeDeviceBytes(const runtime::CudaContext* gpu) {
  if (gpu == nullptr) return 0;
  runtime::ScopedContext scope(*gpu);
  size_t free_bytes = 0, total_bytes = 0;
  Check(FUSEC_CUDA(*gpu, "its free memory", cuMemGetInfo, &free_bytes, &total_bytes));
  return static_cast<int64_t>(free_bytes);
}

int64_t ResidentBytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  int64_t total_pages = 0, resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace fusec::serving
