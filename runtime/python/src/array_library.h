// The libraries whose tensors come in and go out: NumPy, PyTorch, CuPy, JAX and others that speak
// DLPack, and Python's own buffers. None of them is imported here: whose tensors come in is loaded.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <memory>
#include <vector>

#include "runtime/python/src/dtype.h"
#include "runtime/python/src/tensor_view.h"

namespace fusec::python {

// An output for the caller: the object that he gets, and its memory. `view.owner` lives as long as
// the run.
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
    kExchanged,  // not torch, but with the table of functions of DLPack 1.3
    kPlain,      // fusec.Tensor, memoryview, array.array, and what speaks DLPack alone
  };

  // The library of a tensor; null if the object is none.
  static ArrayLibrary* Of(nb::handle object);
  // Of fusec.Tensor.
  static ArrayLibrary& Plain();

  // Whether memory is given back to its stream: a tensor may be freed while a run on the current
  // stream of the library uses it.
  bool is_stream_ordered() const { return is_stream_ordered_; }
  // Whether Read asks for the stream on which a tensor on a GPU will be used, and has the library
  // order what still writes it before that. The others work on CurrentStream, or have no GPU.
  bool needs_stream() const { return api_ == nullptr && kind_ != Kind::kNumpy; }
  bool IsOnGpu(nb::handle object) const;
  // The stream on which the caller works now; null is CUDA's default stream.
  void* CurrentStream(int gpu);

  // As it lies in memory; `stream` as in ReadDlpack. Throws Unreadable, or what the object raises.
  void Read(nb::handle object, void* stream, bool writable, TensorView& view);
  // Room for a result, on a GPU where `gpu` is not -1, `like` being a tensor of the library there.
  // `stream`: on which the result will be written. Pass it to Finish once it is written.
  Output Allocate(fusec_dtype dtype, const std::vector<int64_t>& dims, int gpu, nb::handle like,
                  void* stream);
  // `dims`: those of the result, whose elements come first in that room.
  nb::object Finish(Output output, const std::vector<int64_t>& dims);
  // A dense copy of a tensor on a GPU, aligned as kernels need it; null where the library has no
  // function that makes one.
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
  // Made when first asked for.
  std::array<nb::object, kDtypeCount> dtypes_;
  struct TorchOption {
    fusec_dtype dtype;
    int gpu;
    nb::dict keywords;
  };
  std::vector<TorchOption> torch_options_;
};

}  // namespace fusec::python
