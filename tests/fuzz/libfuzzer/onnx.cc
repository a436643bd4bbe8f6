// Imports any bytes as an ONNX model, mostly a changed valid model. The result must be a graph whose text can be parsed again, or an error
// with a bounded number of lines that name the file. A file beside the model serves for external data.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "compiler/import/import.h"
#include "compiler/import/names.h"
#include "tests/fuzz/libfuzzer/expect.h"
#include "tests/fuzz/libfuzzer/onnx_mutator.h"

using namespace fusec;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kMostLines = 32;  // of an error: 20 problems, how many more, and sizes that would fit
constexpr size_t kExternalBytes = 64;

// A folder in memory, which is removed when the process ends.
class ModelFolder {
 public:
  ModelFolder() {
    Expect(mkdtemp(path_) != nullptr, "a folder can be made in /dev/shm");
    Write("data", std::string(kExternalBytes, '\1').data(), kExternalBytes);
  }
  ~ModelFolder() {
    for (const char* name : {"data", "model.onnx"}) unlink(FileName(name).c_str());
    rmdir(path_);
  }
  std::string FileName(const std::string& name) const { return std::string(path_) + "/" + name; }
  void Write(const std::string& name, const void* data, size_t size) {
    const int file = open(FileName(name).c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    Expect(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size), "the folder takes the input");
    close(file);
  }

 private:
  char path_[32] = "/dev/shm/fuzz_onnx_XXXXXX";
};

void ExpectLines(const std::string& message, const std::string& path) {
  Expect(message.starts_with(path + ": "), "names the file: " + message);
  Expect(Printable(message) == message, "has printable characters only: " + message);
  Expect(static_cast<size_t>(std::count(message.begin(), message.end(), '\n')) < kMostLines, "has few lines: " + message);
}

size_t Written(const onnx::ModelProto& model, uint8_t* data, size_t max_size) {
  const size_t size = model.ByteSizeLong();
  if (size == 0 || size > max_size) return 0;
  model.SerializePartialToArray(data, static_cast<int>(size));
  return size;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::mt19937_64 random(seed);
  onnx::ModelProto model;
  if (random() % 16 == 0 || !model.ParsePartialFromArray(data, static_cast<int>(size))) return LLVMFuzzerMutate(data, size, max_size);
  const size_t changes = 1 + random() % 4;
  for (size_t i = 0; i < changes; ++i) MutateModel(model, random);
  const size_t written = Written(model, data, max_size);
  return written > 0 ? written : LLVMFuzzerMutate(data, size, max_size);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size, uint8_t* out, size_t max_size,
                                            unsigned int seed) {
  std::mt19937_64 random(seed);
  onnx::ModelProto model, other;
  if (!model.ParsePartialFromArray(a, static_cast<int>(a_size)) || !other.ParsePartialFromArray(b, static_cast<int>(b_size))) return 0;
  CrossModels(model, other, random);
  return Written(model, out, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ModelFolder folder;
  static const std::string path = folder.FileName("model.onnx");
  folder.Write("model.onnx", data, size);
  const auto model = ImportOnnx(path, {});
  if (!model) {
    ExpectLines(model.error().message, path);
    return 0;
  }
  for (const std::string& warning : model->warnings) Expect(PrintableLine(warning) == warning, "warns in a printable line: " + warning);
  const auto verified = Verify(*model->graph);
  const std::string text = Print(*model->graph);
  Expect(verified.has_value(), verified ? "" : verified.error().message + "\n" + text);
  const auto again = Parse(text);
  Expect(again.has_value(), again ? "" : again.error().message + "\n" + text);
  Expect(Print(**again) == text, "is the same text when parsed and printed:\n" + text + "\n" + Print(**again));
  return 0;
}
