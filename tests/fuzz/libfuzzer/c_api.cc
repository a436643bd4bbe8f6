// Makes arbitrary sequences of calls of the C API on a small artifact for the CPU, with tables or with adapters, with arbitrary numbers,
// names, dims, and pointers that may be null. Every call must return a status, and any call may follow. Memory that is passed to the API is
// as large as the dims say.
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/include/fusec/fusec.h"
#include "tests/fuzz/libfuzzer/expect.h"

namespace fusec {
namespace {

// Decisions that are read from the input; they are 0 after its end.
class Decisions {
 public:
  Decisions(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}
  bool AtEnd() const { return data_ == end_; }
  uint8_t Byte() { return AtEnd() ? 0 : *data_++; }
  int64_t Number() {  // mostly small, sometimes any
    const uint8_t kind = Byte();
    if (kind < 200) return kind % 8;
    int64_t number = 0;
    for (int i = 0; i < 8; ++i) number = static_cast<int64_t>(static_cast<uint64_t>(number) << 8 | Byte());
    return number;
  }

 private:
  const uint8_t *data_, *end_;
};

constexpr int64_t kMostElements = 1 << 12;
constexpr int kMostRank = 8;  // of the outputs
constexpr int kMostIds = 4;

fusec_program* Load(const std::string& artifact) {
  fusec_program* program = nullptr;
  Expect(fusec_load(artifact.c_str(), "cpu", &program) == FUSEC_OK, fusec_last_error());
  return program;
}

// An artifact on the disk, with a loaded program that no input has changed: loading takes longer than all calls of an input.
class Artifact {
 public:
  explicit Artifact(const std::string& path) : path_(path), keeps_code_open_(Load(path)) {}
  ~Artifact() {
    if (waiting_ != nullptr) fusec_unload(waiting_);
    fusec_unload(keeps_code_open_);
  }
  const std::string& path() const { return path_; }
  fusec_program* Take() { return waiting_ != nullptr ? std::exchange(waiting_, nullptr) : Load(path_); }
  void Return(fusec_program* program, bool is_changed) {
    if (is_changed)
      fusec_unload(program);
    else
      waiting_ = program;
  }

 private:
  const std::string path_;
  fusec_program* const keeps_code_open_;  // keeps the code loaded that programs share
  fusec_program* waiting_ = nullptr;
};

// A program with a context, and the memory that is bound to it.
class Session {
 public:
  explicit Session(Artifact& artifact) : artifact_(artifact), program_(artifact.Take()) {
    Expect(fusec_create_context(program_, &context_) == FUSEC_OK, fusec_last_error());
  }
  ~Session() {
    fusec_destroy_context(context_);
    artifact_.Return(program_, is_changed_);
  }

  void Call(Decisions& decisions) {
    fusec_tensor_info info;
    fusec_symbol symbol;
    fusec_table table;
    int number = 0;
    int64_t dims[kMostRank];
    switch (decisions.Byte() % 20) {
      case 0:
        Check(fusec_input_info(Program(decisions), Int(decisions), &info));
        break;
      case 1:
        Check(fusec_output_info(Program(decisions), Int(decisions), &info));
        break;
      case 2:
        Check(fusec_symbol_info(Program(decisions), Int(decisions), &symbol));
        break;
      case 3:
        Check(fusec_find_input(Program(decisions), Name(decisions), &number));
        break;
      case 4:
        Check(fusec_find_output(Program(decisions), Name(decisions), &number));
        break;
      case 5:
        Check(fusec_table_info(Program(decisions), Int(decisions), &table));
        break;
      case 6:
        BindInput(decisions);
        break;
      case 7:
        BindOutput(decisions);
        break;
      case 8:
        Check(fusec_run(Context(decisions)));
        break;
      case 9:
        ReadOutput(decisions);
        break;
      case 10:
        UpdateRows(decisions);
        break;
      case 11:
        is_changed_ = true;
        Check(fusec_load_adapter(Program(decisions), Int(decisions), Name(decisions)));
        break;
      case 12:
        is_changed_ = true;
        Check(fusec_unload_adapter(Program(decisions), Int(decisions)));
        break;
      case 13:
        Check(fusec_output_dims(Context(decisions), Int(decisions), dims));
        break;
      case 14:
        Check(fusec_output_bounds(Context(decisions), Int(decisions), dims));
        break;
      case 15:
        Check(fusec_run_async(Context(decisions), nullptr));
        break;
      case 16:
        Check(fusec_synchronize(Context(decisions)));
        break;
      case 17:
        is_changed_ = true;
        Check(fusec_update_weights(Program(decisions), decisions.Byte() < 128 ? artifact_.path().c_str() : Name(decisions)));
        break;
      case 18:
        AskTable(decisions);
        break;
      default:
        Check(fusec_can_load(Name(decisions), Name(decisions)));
        break;
    }
  }

 private:
  static void Check(fusec_status status) {
    Expect(status == FUSEC_OK || status == FUSEC_BAD_USAGE || status == FUSEC_NO_DEVICE || status == FUSEC_BAD_ARTIFACT ||
               status == FUSEC_BAD_INPUT,
           std::to_string(status));
    if (status != FUSEC_OK) Expect(*fusec_last_error() != '\0' && !std::strchr(fusec_last_error(), '\n'), fusec_last_error());
  }
  // A dtype, or an invalid number that a fusec_dtype can hold in C++.
  static fusec_dtype AnyDtype(Decisions& decisions) { return static_cast<fusec_dtype>(decisions.Byte() % 16); }
  static int Int(Decisions& decisions) { return static_cast<int>(decisions.Number()); }
  fusec_program* Program(Decisions& decisions) { return decisions.Byte() == 255 ? nullptr : program_; }
  fusec_context* Context(Decisions& decisions) { return decisions.Byte() == 255 ? nullptr : context_; }
  const char* Name(Decisions& decisions) {
    static const char* const kNames[] = {"sparse",          "in0",       "adapter_id",  "rows.table.weight", "", "cpu",
                                         "cuda:9999999999", "/dev/null", "no such name"};
    const uint8_t which = decisions.Byte();
    return which == 255 ? nullptr : kNames[which % std::size(kNames)];
  }

  // Arbitrary dims; at most kMostElements elements if nothing else is checked.
  std::vector<int64_t> Dims(Decisions& decisions) {
    std::vector<int64_t> dims(decisions.Byte() % 5);
    for (int64_t& dim : dims) dim = decisions.Number();
    return dims;
  }
  static int64_t Elements(const std::vector<int64_t>& dims) {
    int64_t elements = 1;
    for (const int64_t dim : dims) {
      if (dim < 0 || dim > kMostElements) return -1;
      elements *= dim;
      if (elements > kMostElements) return -1;
    }
    return elements;
  }
  // Memory for `elements`, filled with a small number, which is also a good id.
  void* Memory(int64_t elements, Decisions& decisions) {
    auto& memory = memory_.emplace_back(new std::vector<int64_t>(static_cast<size_t>(elements) + 1, decisions.Byte() % 4));
    return memory->data();
  }

  void BindInput(Decisions& decisions) {
    const std::vector<int64_t> dims = Dims(decisions);
    const int64_t elements = Elements(dims);
    if (elements < 0) {  // an address that nobody may read
      fusec_status status = fusec_bind_input(Context(decisions), Int(decisions), nullptr, dims.data(), static_cast<int>(dims.size()), 0);
      return Check(status);
    }
    void* memory = Memory(elements, decisions);
    const int rank = decisions.Byte() < 250 ? static_cast<int>(dims.size()) : -1 - decisions.Byte();
    Check(fusec_bind_input(Context(decisions), Int(decisions), memory, dims.empty() ? nullptr : dims.data(), rank, 0));
  }
  void BindOutput(Decisions& decisions) {
    const int64_t bytes = decisions.Byte() * 16;
    void* memory = decisions.Byte() == 255 ? nullptr : Memory(bytes / 8, decisions);
    Check(fusec_bind_output(Context(decisions), Int(decisions), memory, static_cast<size_t>(bytes), 0));
  }
  void ReadOutput(Decisions& decisions) {
    size_t bytes = 0;
    const void* output = fusec_get_output(Context(decisions), Int(decisions), &bytes);
    if (output == nullptr) return;
    std::vector<uint8_t> copy(bytes);  // readable to its end
    if (bytes > 0) std::memcpy(copy.data(), output, bytes);
  }
  void AskTable(Decisions& decisions) {
    is_changed_ = true;
    uint64_t version = 0;
    fusec_cache_info cache;
    const std::vector<int64_t> ids(kMostIds, decisions.Byte() % 4);
    const fusec_dtype dtype = AnyDtype(decisions);
    Check(fusec_table_version(Program(decisions), Name(decisions), &version));
    Check(fusec_table_cache(Program(decisions), Name(decisions), &cache));
    Check(fusec_warm_table(Program(decisions), Name(decisions), ids.data(), dtype, decisions.Byte() % (kMostIds + 1)));
  }
  void UpdateRows(Decisions& decisions) {
    is_changed_ = true;
    fusec_table table;
    const int number = fusec_table_count(program_) > 0 ? decisions.Byte() % fusec_table_count(program_) : 0;
    if (fusec_table_info(program_, number, &table) != FUSEC_OK) return;
    const int64_t count = decisions.Byte() % 4;
    void* ids = Memory(count, decisions);
    void* rows = Memory(count * table.columns, decisions);
    const fusec_dtype dtype = decisions.Byte() < 200 ? table.dtype : AnyDtype(decisions);
    Check(fusec_update_rows(Program(decisions), table.name, ids, FUSEC_I64, rows, dtype, count, 0, nullptr));
  }

  Artifact& artifact_;
  fusec_program* const program_;
  fusec_context* context_ = nullptr;
  bool is_changed_ = false;  // the program's weights, adapters or caches, rather than the context
  std::vector<std::unique_ptr<std::vector<int64_t>>> memory_;
};

std::string ArtifactsFolder() {
  const char* folder = std::getenv("FUSEC_FUZZER_ARTIFACTS");
  Expect(folder != nullptr, "FUSEC_FUZZER_ARTIFACTS names a folder with two artifacts for the CPU, tables and adapters");
  return folder;
}

}  // namespace
}  // namespace fusec

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string folder = fusec::ArtifactsFolder();
  static fusec::Artifact tables(folder + "/tables"), adapters(folder + "/adapters");
  fusec::Decisions decisions(data, size);
  fusec::Session session(decisions.Byte() % 2 == 0 ? tables : adapters);
  while (!decisions.AtEnd()) session.Call(decisions);
  return 0;
}
