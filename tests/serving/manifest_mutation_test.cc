// A manifest without hash that is changed in one place is either rejected or gives the right answers: it must not crash the process, access
// memory out of bounds, or give a wrong answer. FUSEC_TEST_MUTANTS is the number of mutants that are tried for each artifact, or "all".
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/src/artifact/dtype.h"
#include "tests/serving/served_model.h"

namespace fusec::serving {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Mutant {
  std::string what;  // "/targets/cpu/steps/0/arguments/1 is deleted"
  std::function<void(Json&)> change;
};

// Other values for a field.
std::vector<Json> Others(const Json& field) {
  if (field.is_boolean()) return {!field.get<bool>()};
  if (field.is_number_integer()) {
    const auto number = field.get<int64_t>();
    return {number + 1, number - 1, 0, int64_t{1} << 40};
  }
  if (!field.is_string()) return {};
  const std::string text = field;
  return {"0",   "1", text + " + 1", "max(" + text + ", 1000)", "floordiv(" + text + ", 2)", "-1",
          "f64", ""};
}

// All mutants that change one place below `place`.
void AddMutants(const Json& manifest, const Json::json_pointer& place,
                std::vector<Mutant>& mutants) {
  const auto add = [&](const std::string& how, const std::function<void(Json&)>& change) {
    mutants.push_back(
        {place.to_string() + how, [place, change](Json& changed) { change(changed.at(place)); }});
  };
  const Json& field = manifest.at(place);
  for (const Json& other : Others(field))
    add(" is " + other.dump(), [other](Json& changed) { changed = other; });
  if (!field.is_structured()) return;
  for (const auto& [key, value] : field.items()) {
    const std::string name = key, below = "/" + key;
    if (field.is_object()) {
      add(below + " is deleted", [name](Json& object) { object.erase(name); });
      for (const auto& [other, other_value] : field.items()) {
        if (key < other && value.type() == other_value.type())
          add(below + " and " + other + " are swapped",
              [name, other = other](Json& object) { std::swap(object[name], object[other]); });
      }
    } else {
      const size_t i = std::stoul(key);
      add(below + " is deleted", [i](Json& list) { list.erase(i); });
      add(below + " is repeated", [i](Json& list) {
        list.insert(list.begin() + static_cast<ptrdiff_t>(i), Json(list[i]));
      });
      if (i + 1 < field.size())
        add(below + " and the next are swapped",
            [i](Json& list) { std::swap(list[i], list[i + 1]); });
    }
    AddMutants(manifest, place / key, mutants);
  }
}

// Fields that no other part of the manifest repeats, so that a changed value legitimately changes the answer.
bool IsSaidOnce(const std::string& what) {
  for (const char* field : {"/transpose_a", "/transpose_b", "/activation"}) {
    if (what.find(field) != std::string::npos) return true;
  }
  // Two buffers of one type and size change their places with all that is said of them.
  return what.starts_with("/buffers/") && what.ends_with(" and the next are swapped");
}

// The model's inputs, and its answers by the artifact as it was compiled, in memory that child
// processes share.
class Call {
 public:
  Call(const Json& manifest, int64_t size) {
    std::mt19937 random(7);
    for (const Json& input : manifest.at("inputs")) {
      Tensor& tensor = inputs_.emplace_back();
      tensor.name = input.at("name");
      tensor.dtype = *runtime::ParseDtype(input.at("dtype").get<std::string>());
      size_t elements = 1;
      for (const std::string dim : input.at("shape")) {
        const bool is_number = dim.find_first_not_of("0123456789") == std::string::npos;
        tensor.dims.push_back(is_number ? std::stoll(dim) : size);
        elements *= static_cast<size_t>(tensor.dims.back());
      }
      const auto bytes = static_cast<size_t>(runtime::DtypeBytes(tensor.dtype));
      tensor.bytes.resize(elements * bytes);
      for (size_t i = 0; i < elements; ++i) {
        const auto number = static_cast<int64_t>(random() % 4);
        const float real = std::ldexp(static_cast<float>(random() % 2000) - 1000, -9);
        std::memcpy(tensor.bytes.data() + i * bytes,
                    tensor.dtype == FUSEC_F32 ? static_cast<const void*>(&real) : &number, bytes);
      }
    }
    answers_ = static_cast<std::byte*>(
        mmap(nullptr, kMostBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~Call() { munmap(answers_, kMostBytes); }
  Call(const Call&) = delete;

  enum End { kRefused = 40, kRight, kWrong };

  // In a child process: loads the artifact, runs it, and compares with the answers or keeps them.
  int Try(const std::string& artifact, bool keeps) const {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      int end = kRefused;
      try {
        end = Run(artifact, keeps);
      } catch (const Exception&) {
      }
      _exit(end);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  static constexpr size_t kMostBytes = size_t{1} << 20;
  struct Tensor {
    std::string name;
    fusec_dtype dtype = FUSEC_F32;
    std::vector<int64_t> dims;
    std::vector<std::byte> bytes;
  };

  int Run(const std::string& artifact, bool keeps) const {
    fusec_program* program = nullptr;
    fusec_context* context = nullptr;
    const auto try_call = [](fusec_status status) {
      if (status != FUSEC_OK) throw Exception(status, fusec_last_error());
    };
    try_call(fusec_load(artifact.c_str(), "cpu", &program));
    try_call(fusec_create_context(program, &context));
    for (const Tensor& tensor : inputs_) {
      int i = 0;
      fusec_tensor_info info;
      try_call(fusec_find_input(program, tensor.name.c_str(), &i));
      try_call(fusec_input_info(program, i, &info));
      if (info.dtype != tensor.dtype) return kRefused;  // by the caller
      try_call(fusec_bind_input(context, i, tensor.bytes.data(), tensor.dims.data(),
                                static_cast<int>(tensor.dims.size()), 0));
    }
    try_call(fusec_run(context));
    fusec_tensor_info info;
    try_call(fusec_output_info(program, 0, &info));
    size_t bytes = 0;
    const void* output = fusec_get_output(context, 0, &bytes);
    if (bytes == 0 || bytes + sizeof bytes > kMostBytes) return kWrong;
    if (keeps) {
      std::memcpy(answers_, &bytes, sizeof bytes);
      std::memcpy(answers_ + sizeof bytes, output, bytes);
      return kRight;
    }
    size_t expected = 0;
    std::memcpy(&expected, answers_, sizeof expected);
    if (info.dtype != FUSEC_F32) return kRefused;  // by the caller
    const auto* values = static_cast<const float*>(output);
    const auto* answers = reinterpret_cast<const float*>(answers_ + sizeof bytes);
    for (size_t i = 0; i < bytes / sizeof(float); ++i) {
      if (!(std::abs(values[i] - answers[i]) <= 1e-3f * (1 + std::abs(answers[i])))) return kWrong;
    }
    return bytes == expected ? kRight : kWrong;
  }

  std::vector<Tensor> inputs_;
  std::byte* answers_;
};

// A model in this repository, and what is done to it.
struct Made {
  const char* model;
  const char* verb = "";
  const char* flags = "";
};
void PrintTo(const Made& made, std::ostream* stream) { *stream << made.verb << made.model; }

class ManifestMutation : public testing::TestWithParam<Made> {};

TEST_P(ManifestMutation, IsRefusedOrRight) {
  // Without oneDNN: a child process has none of its parent's threads, and would have to load oneDNN each time.
  setenv("FUSEC_NUM_THREADS", "1", 1);
  setenv("FUSEC_ONEDNN", "0", 1);
  const std::string folder =
      fs::temp_directory_path() / ("fusec_mutants_" + std::to_string(getpid()));
  RunFusec(std::string(GetParam().verb) + FUSEC_SOURCE_DIR "/" + GetParam().model + " -o " +
           folder + GetParam().flags + " --target cpu --cpu-level x86-64-v3 >/dev/null 2>&1");
  const std::string path = folder + "/manifest.json";
  Json manifest = Json::parse(std::ifstream(path));
  manifest.erase("hash");
  const Call call(manifest, 3);
  ASSERT_EQ(call.Try(folder, true), Call::kRight);
  std::vector<Mutant> mutants;
  for (const char* part :
       {"symbols", "inputs", "outputs", "buffers", "index_sites", "targets", "tables"}) {
    if (manifest.contains(part))
      AddMutants(manifest, Json::json_pointer("/" + std::string(part)), mutants);
  }
  const char* wanted = std::getenv("FUSEC_TEST_MUTANTS");
  const std::string count = wanted ? wanted : "100";
  std::mt19937 random(1);
  std::shuffle(mutants.begin(), mutants.end(), random);
  if (count != "all") mutants.resize(std::min(mutants.size(), std::stoul(count)));
  int refused = 0;
  for (const Mutant& mutant : mutants) {
    Json changed = manifest;
    mutant.change(changed);
    if (changed == manifest) continue;
    std::ofstream(path) << changed.dump(1);
    const int end = call.Try(folder, false);
    refused += end == Call::kRefused;
    const bool is_good = end == Call::kRefused || end == Call::kRight ||
                         (end == Call::kWrong && IsSaidOnce(mutant.what));
    EXPECT_TRUE(is_good) << GetParam().model << ": " << mutant.what << ": "
                         << (end == Call::kWrong ? "wrong answers"
                                                 : "ended with " + std::to_string(end));
  }
  EXPECT_GT(refused, static_cast<int>(mutants.size()) / 3);
  unsetenv("FUSEC_NUM_THREADS");
  unsetenv("FUSEC_ONEDNN");
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ManifestMutation,
    testing::Values(Made{"models/lora_mlp_256.ts.onnx"}, Made{"models/lecture_dlrm.ts.onnx"},
                    Made{"tests/end_to_end/models/history.onnx"},
                    Made{"tests/end_to_end/models/two_towers.dynamo.onnx"},
                    Made{"models/dlrm_dot.ts.onnx", "shard ",
                         " --shards 2 --replicate-below 1KB --index-policy wrap"}));

}  // namespace
}  // namespace fusec::serving
