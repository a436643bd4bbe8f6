// The libraries whose tensors are inputs and results: NumPy, PyTorch, CuPy, JAX and others that
// support DLPack, and Python's own buffers. None of them is imported here: a library whose tensors
// are passed in is already loaded.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <memory>
#include <vector>

#include "runtime/python/src/dtype.h"
#include "runtime/python/src/tensor_view.h"

namespace fusec::python {

// An output for the caller: the object that is returned, and its memory. `view.owner` lives as long
// as the run.
struct Output {
  nb::object object;
  TensorView view;
};

class ArrayLibrary {
 public:
  enum class Kind {
    kNumpy,
    kTorch,
    kCupy,
    kArrayApi,   // such as JAX: has the functions of the array API standard
    kExchanged,  // not torch, but has DLPack 1.3's table of functions
    kPlain,      // fusec.Tensor, memoryview, array.array, and objects that support only DLPack
  };

  // The library of a tensor; null if the object is not a tensor.
  static ArrayLibrary* Of(nb::handle object);
  // The library of fusec.Tensor.
  static ArrayLibrary& Plain();

  // Whether the library frees memory in stream order: a tensor may be freed while a run on the
  // library's current stream uses it.
  bool is_stream_ordered() const { return is_stream_ordered_; }
  // Whether Read needs the stream on which a tensor on a GPU will be used; the library then makes
  // that stream wait for writes to the tensor. Other libraries work on CurrentStream, or do not use
  // a GPU.
  bool needs_stream() const { return api_ == nullptr && kind_ != Kind::kNumpy; }
  bool IsOnGpu(nb::handle object) const;
  // The caller's current stream of the library; null is CUDA's default stream.
  void* CurrentStream(int gpu);

  // Reads the memory layout of a tensor; `stream` is as for ReadDlpack. Throws Unreadable, or the
  // error that the object raises.
  void Read(nb::handle object, void* stream, bool writable, TensorView& view);
  // Allocates a result, on a GPU if `gpu` is not -1; `like` is a tensor of the library there. The
  // result will be written on `stream`. Pass it to Finish when it is written.
  Output Allocate(fusec_dtype dtype, const std::vector<int64_t>& dims, int gpu, nb::handle like,
                  void* stream);
  // Returns the object of a result. `dims` are its actual dims; its elements are at the beginning
  // of the allocated memory.
  nb::object Finish(Output output, const std::vector<int64_t>& dims);
  // A dense copy of a tensor on a GPU, aligned for kernels; null if the library has no function for
  // it.
  nb::object DenseCopy(nb::handle object);

 private:
  // How a type's tensors are read.
  enum class Protocol { kExchange, kHostTensor, kBuffer, kDlpack };
  struct TypeEntry {
    nb::object type;
    ArrayLibrary* library = nullptr;
    Protocol protocol = Protocol::kDlpack;
  };
  static TypeEntry* EntryOf(nb::handle object);
  static bool Classify(nb::handle object, TypeEntry& entry);
  static ArrayLibrary& Make(Kind kind, nb::object module, const dlpack::ExchangeApi* api);

  ArrayLibrary(Kind kind, nb::object module, const dlpack::ExchangeApi* api);
  void ReadNumpy(nb::handle object, bool writable, TensorView& view);
  nb::object DtypeObject(fusec_dtype dtype);
  nb::dict TorchOptions(fusec_dtype dtype, int gpu);
  Output AllocateExchanged(fusec_dtype dtype, const std::vector<int64_t>& dims, int gpu);

  Kind kind_;
  nb::object module_;  // numpy, torch, ...; none for kPlain
  const dlpack::ExchangeApi* api_ = nullptr;
  bool is_stream_ordered_ = false;
  nb::object empty_;
  // Created when first needed.
  std::array<nb::object, kDtypeCount> dtypes_;
  struct TorchOption {
    fusec_dtype dtype;
    int gpu;
    nb::dict keywords;
  };
  std::vector<TorchOption> torch_options_;
};

}  // namespace fusec::python
