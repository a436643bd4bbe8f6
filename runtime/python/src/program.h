// A loaded artifact, with its signature in the form that calls need.
#pragma once

#include <fusec/fusec.h>
#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fusec::python {

namespace nb = nanobind;

struct TensorSignature {
  std::string name;
  fusec_dtype dtype = FUSEC_F32;
  std::vector<std::string> dims;   // "13", or an expression of symbols
  nb::object key;                  // the name as an interned str, like keywords
  bool has_run_time_dims = false;  // of an output: `dims` are upper bounds
  int in_place_of = -1;            // of an output: the input in whose memory it may lie

  std::string type() const;                    // "f32[batch, 13]"
  std::string Quoted(const char* what) const;  // "input "x""
};

// A program that models, contexts and memory share; the last of them unloads it. The GIL must be
// held when it is created, used and freed.
class Program {
 public:
  // Raises the errors of fusec_load.
  Program(const std::string& path, const std::optional<std::string>& device, bool strict);
  ~Program();
  Program(const Program&) = delete;

  fusec_program* handle() const { return handle_; }
  const std::vector<TensorSignature>& inputs() const { return inputs_; }
  const std::vector<TensorSignature>& outputs() const { return outputs_; }
  bool is_on_gpu() const { return gpu_ >= 0; }
  int gpu() const { return gpu_; }  // the N of cuda:N, -1 on the CPU
  bool is_strict() const { return strict_; }
  bool has_run_time_dims() const { return has_run_time_dims_; }  // any of its outputs
  // Raises BadUsage in a process that was forked after the program was loaded.
  void CheckNotForked() const;
  bool is_of_this_process() const;
  // Called if a tensor has to be copied before it is read; warns once per input.
  void WarnOfCopy(size_t input, const std::string& why);

 private:
  fusec_program* handle_ = nullptr;
  uint64_t fork_count_;
  int gpu_ = -1;
  bool strict_;
  bool has_run_time_dims_ = false;
  std::vector<TensorSignature> inputs_, outputs_;
  std::vector<bool> warned_;  // by input
};

// Host memory that tensors share, aligned to 64 bytes.
class HostMemory {
 public:
  explicit HostMemory(size_t bytes);                           // pageable
  HostMemory(std::shared_ptr<Program> program, size_t bytes);  // page-locked for a GPU
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  void* data() const { return data_; }

 private:
  std::shared_ptr<Program> program_;
  void* data_ = nullptr;
};

}  // namespace fusec::python
