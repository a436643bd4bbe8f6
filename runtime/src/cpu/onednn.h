#pragma once

#include <oneapi/dnnl/dnnl_types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/src/cpu/host_matmul.h"

namespace fusec::runtime {

// libdnnl.so.2, opened when a program with a matmul first needs it. Threads may share it.
class OneDnn {
 public:
  // Null if it is not installed, is not version 2.x, or FUSEC_ONEDNN=0 is set.
  static const OneDnn* Get();

  struct Functions;
  const Functions& functions() const { return *functions_; }
  dnnl_engine_t engine() const { return engine_; }

 private:
  OneDnn() = default;
  bool Open();
  std::unique_ptr<Functions, void (*)(Functions*)> functions_{nullptr, nullptr};
  dnnl_engine_t engine_ = nullptr;
};

// A constant matrix b in the layout that oneDNN prefers for some shape.
class PackedWeight;

// The packed weights of a program, shared by its contexts. Their key has everything on which the
// packed bytes depend.
class PackedWeights {
 public:
  PackedWeights();
  ~PackedWeights();
  // Converts `plain` from the layout `from` to `to`, once. Null if oneDNN cannot do this, or if the
  // weight already has kMostLayouts other layouts.
  std::shared_ptr<const PackedWeight> Get(const OneDnn& library, const void* plain,
                                          const dnnl_memory_desc_t& from,
                                          const dnnl_memory_desc_t& to);

 private:
  static constexpr size_t kMostLayouts = 4;
  std::mutex mutex_;
  std::map<const void*, std::vector<std::shared_ptr<const PackedWeight>>> by_source_;
};

// A matmul of fixed sizes that can run on any memory; used by one thread at a time.
class OneDnnMatmul {
 public:
  // `weights` is null if b is not constant; otherwise the bytes of b never change. Returns null if
  // oneDNN has no implementation, for relu, because oneDNN's relu turns NaN into 0, and with
  // `only_blocks` if oneDNN would not read constant weights in blocks, which are packed once.
  static std::unique_ptr<OneDnnMatmul> Create(const OneDnn& library, const HostMatmul& call,
                                              PackedWeights* weights, bool only_blocks);
  ~OneDnnMatmul();
  OneDnnMatmul(const OneDnnMatmul&) = delete;

  // Runs with the pointers of `call`, whose sizes must be those of Create. False: oneDNN has
  // failed.
  bool Run(const HostMatmul& call) const;

 private:
  explicit OneDnnMatmul(const OneDnn& library) : library_(library) {}
  bool CreatePrimitive(const HostMatmul& call, PackedWeights* weights, bool only_blocks);
  // The layout of b with which oneDNN is fastest.
  dnnl_memory_desc_t FastestLayout(const HostMatmul& call) const;
  bool CreatePrimitiveFor(const dnnl_memory_desc_t& b, const HostMatmul& call,
                          dnnl_primitive_desc_t* description) const;

  const OneDnn& library_;
  dnnl_stream_t stream_ = nullptr;
  dnnl_primitive_t primitive_ = nullptr;
  dnnl_memory_t a_ = nullptr, b_ = nullptr, bias_ = nullptr, d_ = nullptr;
  std::shared_ptr<const PackedWeight> packed_;  // the memory of b_ if it is packed
};

}  // namespace fusec::runtime
