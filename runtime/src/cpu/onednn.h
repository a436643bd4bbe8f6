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

// libdnnl.so.2, opened when a program with a matmul first asks for it. Threads may share it.
class OneDnn {
 public:
  // Null where it is not installed, is not a 2.x, or FUSEC_ONEDNN=0.
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

// A constant b in the layout that oneDNN wants for some shape.
class PackedWeight;

// The packed weights of a program, shared by its contexts. Keyed by everything that the packed
// bytes depend on.
class PackedWeights {
 public:
  PackedWeights();
  ~PackedWeights();
  // Packs `plain` (described by `from`) as `to`, once. Null if oneDNN cannot, or if this weight
  // already has kMostLayouts others.
  std::shared_ptr<const PackedWeight> Get(const OneDnn& library, const void* plain,
                                          const dnnl_memory_desc_t& from,
                                          const dnnl_memory_desc_t& to);

 private:
  static constexpr size_t kMostLayouts = 4;
  std::mutex mutex_;
  std::map<const void*, std::vector<std::shared_ptr<const PackedWeight>>> by_source_;
};

// A matmul of fixed sizes, ready to run on any memory; used by one thread at a time.
class OneDnnMatmul {
 public:
  // `weights` is null where b is not constant, else b's bytes never change. Null if oneDNN has no
  // implementation for it. Its relu turns NaN into 0, so Create refuses relu.
  static std::unique_ptr<OneDnnMatmul> Create(const OneDnn& library, const HostMatmul& call,
                                              PackedWeights* weights);
  ~OneDnnMatmul();
  OneDnnMatmul(const OneDnnMatmul&) = delete;

  // The pointers of `call`; its sizes must be those of Create. False if oneDNN reports an error.
  bool Run(const HostMatmul& call) const;

 private:
  explicit OneDnnMatmul(const OneDnn& library) : library_(library) {}
  bool CreatePrimitive(const HostMatmul& call, PackedWeights* weights);
  bool CreatePrimitiveFor(const dnnl_memory_desc_t& b, const HostMatmul& call,
                          dnnl_primitive_desc_t* description) const;

  const OneDnn& library_;
  dnnl_stream_t stream_ = nullptr;
  dnnl_primitive_t primitive_ = nullptr;
  dnnl_memory_t a_ = nullptr, b_ = nullptr, bias_ = nullptr, d_ = nullptr;
  std::shared_ptr<const PackedWeight> packed_;  // what b_ points to, if any
};

}  // namespace fusec::runtime
