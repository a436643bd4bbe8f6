// The C++ interface of fusec's runtime: classes that own the handles of fusec.h, header only,
// C++20. Errors are thrown as fusec::Exception. The rules of fusec.h for lifetimes, threads and
// errors hold here too.
//
//   fusec::Program program("model_fused");  // one per model and device
//   fusec::Context context(program);        // one per thread or stream
//   context.BindInput<float>("dense", dense, {batch, 13});
//   context.Run();
//   std::span<const float> scores = context.Output<float>("scores");
#pragma once

#include <fusec/fusec.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace fusec {

class Exception : public std::runtime_error {
 public:
  Exception(fusec_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  fusec_status status() const { return status_; }

 private:
  fusec_status status_;
};

namespace internal {
inline void Check(fusec_status status) {
  if (status != FUSEC_OK) throw Exception(status, fusec_last_error());
}

// Whether elements of `dtype` may be read as T. f16 and bf16 are read as uint16_t, because C++20
// has no types for them.
template <class T>
constexpr bool Holds(fusec_dtype dtype) {
  switch (dtype) {
    case FUSEC_F32:
      return std::is_same_v<T, float>;
    case FUSEC_F64:
      return std::is_same_v<T, double>;
    case FUSEC_F16:
    case FUSEC_BF16:
      return std::is_same_v<T, uint16_t>;
    case FUSEC_I8:
      return std::is_same_v<T, int8_t>;
    case FUSEC_I16:
      return std::is_same_v<T, int16_t>;
    case FUSEC_I32:
      return std::is_same_v<T, int32_t>;
    case FUSEC_I64:
      return std::is_same_v<T, int64_t>;
    case FUSEC_U8:
      return std::is_same_v<T, uint8_t>;
    case FUSEC_U16:
      return std::is_same_v<T, uint16_t>;
    case FUSEC_U32:
      return std::is_same_v<T, uint32_t>;
    case FUSEC_U64:
      return std::is_same_v<T, uint64_t>;
    case FUSEC_BOOL:
      return std::is_same_v<T, bool> || std::is_same_v<T, uint8_t>;
  }
  return false;
}
}  // namespace internal

struct TensorInfo {
  std::string name;
  fusec_dtype dtype = FUSEC_F32;
  std::vector<std::string> dims;   // each "13" or an expression such as "batch*27"
  bool has_run_time_dims = false;  // of an output: `dims` are upper bounds
  int in_place_of = -1;            // of an output: the input in whose memory it may lie
};

struct Symbol {
  std::string name;
  int64_t min = 1, max = 1;  // inclusive
};

// A table whose rows fusec_update_rows can overwrite.
struct TableInfo {
  std::string name;
  fusec_dtype dtype = FUSEC_F32;  // in the model
  int64_t rows = 0, columns = 0;
  std::string storage;  // storage type of the rows, such as "f32" or "int8"
  size_t bytes = 0;     // as stored
  std::string fixed;    // why its rows cannot be updated; "" if they can
};

// A loaded artifact; any number of threads may use it at the same time.
class Program {
 public:
  // `device`: "cpu", "cuda", "cuda:1", or null for the first GPU if there is one and the CPU
  // otherwise.
  explicit Program(const std::string& artifact_path, const char* device = nullptr) {
    internal::Check(fusec_load(artifact_path.c_str(), device, &handle_));
  }
  Program(Program&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Program& operator=(Program&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Program() { fusec_unload(handle_); }

  // The error that the constructor would throw on this machine, or "" (see fusec_can_load, which
  // reads no weights).
  static std::string WhyNot(const std::string& artifact_path, const char* device = nullptr) {
    return fusec_can_load(artifact_path.c_str(), device) == FUSEC_OK ? "" : fusec_last_error();
  }

  // Replaces the weights by those of the artifact at this path, which `fusec refit` wrote. Any
  // thread may call it at any time.
  void UpdateWeights(const std::string& artifact_path) {
    internal::Check(fusec_update_weights(handle_, artifact_path.c_str()));
  }

  // Adapters of a program that was compiled with --adapters; see fusec_load_adapter.
  int adapter_slots() const { return fusec_adapter_slots(handle_); }
  void LoadAdapter(int slot, const std::string& path) {
    internal::Check(fusec_load_adapter(handle_, slot, path.c_str()));
  }
  void UnloadAdapter(int slot) { internal::Check(fusec_unload_adapter(handle_, slot)); }

  // Overwrites the rows with these ids, from host memory. `rows` holds one row for each id,
  // consecutively, in the table's dtype (f16 and bf16 as uint16_t). See fusec_update_rows.
  template <class Id, class T>
  void UpdateRows(const std::string& table, std::span<const Id> ids, std::span<const T> rows) {
    static_assert(std::is_same_v<Id, int32_t> || std::is_same_v<Id, int64_t>);
    const TableInfo info = Table(table);
    if (!internal::Holds<T>(info.dtype)) {
      throw Exception(FUSEC_BAD_INPUT, "table \"" + table + "\" is " +
                                           fusec_dtype_name(info.dtype) +
                                           ", which is not the type of the rows");
    }
    const size_t elements = ids.size() * static_cast<size_t>(info.columns);
    if (rows.size() != elements) {
      throw Exception(FUSEC_BAD_INPUT, "table \"" + table + "\": the rows have " +
                                           std::to_string(rows.size()) + " elements, expected " +
                                           std::to_string(elements));
    }
    constexpr fusec_dtype kIdDtype = std::is_same_v<Id, int32_t> ? FUSEC_I32 : FUSEC_I64;
    internal::Check(fusec_update_rows(handle_, table.c_str(), ids.data(), kIdDtype, rows.data(),
                                      info.dtype, static_cast<int64_t>(ids.size()), 0, nullptr));
  }
  template <class Id, class T>
  void UpdateRows(const std::string& table, const std::vector<Id>& ids,
                  const std::vector<T>& rows) {
    UpdateRows(table, std::span<const Id>(ids), std::span<const T>(rows));
  }
  // How often the rows of the table were updated (fusec_table_version).
  uint64_t TableVersion(const std::string& table) const {
    uint64_t version = 0;
    internal::Check(fusec_table_version(handle_, table.c_str(), &version));
    return version;
  }
  // State of the GPU cache of a table in host memory (--table-cache). WarmTable loads the rows that
  // occur most often among these ids into it.
  fusec_cache_info TableCache(const std::string& table) const {
    fusec_cache_info info;
    internal::Check(fusec_table_cache(handle_, table.c_str(), &info));
    return info;
  }
  void WarmTable(const std::string& table, std::span<const int64_t> ids) {
    internal::Check(fusec_warm_table(handle_, table.c_str(), ids.data(), FUSEC_I64,
                                     static_cast<int64_t>(ids.size())));
  }
  std::vector<TableInfo> Tables() const {
    std::vector<TableInfo> tables;
    for (int i = 0; i < fusec_table_count(handle_); ++i) {
      fusec_table table;
      internal::Check(fusec_table_info(handle_, i, &table));
      tables.push_back({table.name, table.dtype, table.rows, table.columns, table.storage,
                        table.bytes, table.fixed});
    }
    return tables;
  }
  TableInfo Table(const std::string& name) const {
    for (const TableInfo& table : Tables()) {
      if (table.name == name) return table;
    }
    static_cast<void>(TableVersion(name));  // throws an error that lists the existing names
    return {};
  }

  fusec_program* handle() const { return handle_; }
  std::string device_name() const { return fusec_device_name(handle_); }
  size_t weight_bytes() const { return fusec_weight_bytes(handle_); }  // of device memory

  std::vector<TensorInfo> Inputs() const {
    return Describe(fusec_input_count(handle_), fusec_input_info);
  }
  std::vector<TensorInfo> Outputs() const {
    std::vector<TensorInfo> outputs = Describe(fusec_output_count(handle_), fusec_output_info);
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].has_run_time_dims = fusec_output_has_run_time_dims(handle_, static_cast<int>(i));
      outputs[i].in_place_of = fusec_output_in_place_of(handle_, static_cast<int>(i));
    }
    return outputs;
  }
  std::vector<Symbol> Symbols() const {
    std::vector<Symbol> symbols;
    for (int i = 0; i < fusec_symbol_count(handle_); ++i) {
      fusec_symbol info;
      internal::Check(fusec_symbol_info(handle_, i, &info));
      symbols.push_back({info.name, info.min, info.max});
    }
    return symbols;
  }

 private:
  using InfoFunction = fusec_status (*)(const fusec_program*, int, fusec_tensor_info*);
  std::vector<TensorInfo> Describe(int count, InfoFunction describe) const {
    std::vector<TensorInfo> tensors;
    for (int i = 0; i < count; ++i) {
      fusec_tensor_info info;
      internal::Check(describe(handle_, i, &info));
      tensors.push_back({info.name, info.dtype, {info.dims, info.dims + info.rank}, false});
    }
    return tensors;
  }

  fusec_program* handle_ = nullptr;
};

// An array in host memory of fusec_allocate_host, not initialised, for inputs and outputs that a
// GPU copies directly. The program must outlive the array, and the array must outlive the runs that
// use it.
template <class T>
class HostArray {
 public:
  HostArray(const Program& program, size_t size) : program_(program.handle()), size_(size) {
    static_assert(std::is_trivially_copyable_v<T>);
    void* memory = nullptr;
    internal::Check(fusec_allocate_host(program_, size * sizeof(T), &memory));
    data_ = static_cast<T*>(memory);
  }
  HostArray(HostArray&& other) noexcept
      : program_(other.program_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  HostArray& operator=(HostArray&& other) noexcept {
    std::swap(program_, other.program_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~HostArray() { fusec_free_host(program_, data_); }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data_[i]; }
  std::span<const T> values() const { return {data_, size_}; }  // for BindInput

 private:
  fusec_program* program_ = nullptr;
  T* data_ = nullptr;
  size_t size_ = 0;
};

// Bindings and scratch memory for one run at a time of a program, which must outlive the context.
// Tensors are given by name or by index, as in the signature.
class Context {
 public:
  explicit Context(const Program& program) : program_(program.handle()) {
    internal::Check(fusec_create_context(program_, &handle_));
  }
  Context(Context&& other) noexcept
      : program_(other.program_), handle_(std::exchange(other.handle_, nullptr)) {}
  Context& operator=(Context&& other) noexcept {
    std::swap(program_, other.program_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Context() { fusec_destroy_context(handle_); }

  fusec_context* handle() const { return handle_; }
  size_t scratch_bytes() const { return fusec_context_bytes(handle_); }
  void* stream() const { return fusec_stream(handle_); }  // the context's own stream, for RunAsync

  // Binds host memory; type and number of elements are checked. Memory bound here and below must
  // stay valid until the run has finished.
  template <class T>
  void BindInput(const std::string& name, std::span<const T> values,
                 const std::vector<int64_t>& dims) {
    const int i = FindInput(name);
    fusec_tensor_info info;
    internal::Check(fusec_input_info(program_, i, &info));
    CheckDtype<T>("input", info);
    size_t elements = 1;
    for (const int64_t dim : dims) elements *= static_cast<size_t>(dim);
    if (values.size() != elements) {
      throw Exception(FUSEC_BAD_INPUT,
                      "input \"" + name + "\" has " + std::to_string(values.size()) +
                          " elements, but its dims make " + std::to_string(elements));
    }
    BindInput(i, values.data(), dims);
  }
  template <class T>
  void BindInput(const std::string& name, const std::vector<T>& values,
                 const std::vector<int64_t>& dims) {
    BindInput(name, std::span<const T>(values), dims);
  }

  // Binds host or device memory without checking its type or size.
  void BindInput(int i, const void* data, const std::vector<int64_t>& dims,
                 bool on_device = false) {
    internal::Check(
        fusec_bind_input(handle_, i, data, dims.data(), static_cast<int>(dims.size()), on_device));
  }
  void BindInput(const std::string& name, const void* data, const std::vector<int64_t>& dims,
                 bool on_device = false) {
    BindInput(FindInput(name), data, dims, on_device);
  }
  void BindOutput(int i, void* data, size_t bytes, bool on_device = false) {
    internal::Check(fusec_bind_output(handle_, i, data, bytes, on_device));
  }
  void BindOutput(const std::string& name, void* data, size_t bytes, bool on_device = false) {
    BindOutput(FindOutput(name), data, bytes, on_device);
  }

  std::vector<int64_t> OutputDims(int i) { return Dims(i, fusec_output_dims); }
  std::vector<int64_t> OutputDims(const std::string& name) { return OutputDims(FindOutput(name)); }
  // Upper bounds of the dims, for which BindOutput needs room (fusec_output_bounds).
  std::vector<int64_t> OutputBounds(int i) { return Dims(i, fusec_output_bounds); }
  std::vector<int64_t> OutputBounds(const std::string& name) {
    return OutputBounds(FindOutput(name));
  }

  void Run() { internal::Check(fusec_run(handle_)); }
  void RunAsync(void* stream) { internal::Check(fusec_run_async(handle_, stream)); }
  void Synchronize() { internal::Check(fusec_synchronize(handle_)); }

  // The elements of an output without bound memory, valid until the next run.
  template <class T>
  std::span<const T> Output(int i) {
    fusec_tensor_info info;
    internal::Check(fusec_output_info(program_, i, &info));
    CheckDtype<T>("output", info);
    size_t bytes = 0;
    const void* data = fusec_get_output(handle_, i, &bytes);
    if (!data)
      throw Exception(FUSEC_BAD_USAGE,
                      "output " + std::to_string(i) + " has no result in the context");
    return {static_cast<const T*>(data), bytes / sizeof(T)};
  }
  template <class T>
  std::span<const T> Output(const std::string& name) {
    return Output<T>(FindOutput(name));
  }

 private:
  std::vector<int64_t> Dims(int i, fusec_status (*ask)(fusec_context*, int, int64_t*)) {
    fusec_tensor_info info;
    internal::Check(fusec_output_info(program_, i, &info));
    std::vector<int64_t> dims(static_cast<size_t>(info.rank));
    internal::Check(ask(handle_, i, dims.data()));
    return dims;
  }
  int FindInput(const std::string& name) const {
    int i = 0;
    internal::Check(fusec_find_input(program_, name.c_str(), &i));
    return i;
  }
  int FindOutput(const std::string& name) const {
    int i = 0;
    internal::Check(fusec_find_output(program_, name.c_str(), &i));
    return i;
  }
  template <class T>
  static void CheckDtype(const char* what, const fusec_tensor_info& info) {
    if (internal::Holds<T>(info.dtype)) return;
    throw Exception(FUSEC_BAD_INPUT, std::string(what) + " \"" + info.name + "\" is " +
                                         fusec_dtype_name(info.dtype) +
                                         ", which is not the type asked for");
  }

  fusec_program* program_ = nullptr;
  fusec_context* handle_ = nullptr;
};

}  // namespace fusec
