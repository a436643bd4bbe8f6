#include "runtime/src/artifact/same_program.h"

#include <algorithm>
#include <string_view>

namespace fusec::runtime {
namespace {

bool IsOfKernels(std::string_view path) {
  return path.starts_with("kernels/") || path.starts_with("cubin/") || path.starts_with("cpu/");
}

template <class T, class Same>
bool AllSame(const std::vector<T>& a, const std::vector<T>& b, Same same) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

bool SameSignature(const std::vector<TensorSignature>& a, const std::vector<TensorSignature>& b) {
  return AllSame(a, b, [](const TensorSignature& x, const TensorSignature& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape && x.buffer == y.buffer &&
           x.sizes == y.sizes;
  });
}

bool SameSymbols(const std::vector<Symbol>& a, const std::vector<Symbol>& b) {
  return AllSame(a, b, [](const Symbol& x, const Symbol& y) {
    return x.name == y.name && x.min == y.min && x.max == y.max;
  });
}

// Names are not compared, because names of constants may contain hashes of weights.
bool SameBuffers(const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
  return AllSame(a, b, [](const Buffer& x, const Buffer& y) {
    return x.kind == y.kind && x.dtype == y.dtype && x.elements == y.elements &&
           x.in_place_of == y.in_place_of;
  });
}

}  // namespace

Status CheckSameProgram(const Manifest& manifest, const Manifest& other, const std::string& path) {
  const auto differs = [&](const auto&... what) {
    return Fail(FUSEC_BAD_ARTIFACT, path, ": is not the loaded program with other weights, its ",
                what...);
  };
  if (!SameSymbols(manifest.symbols, other.symbols)) return differs("symbols are others");
  if (!SameSignature(manifest.inputs, other.inputs)) return differs("inputs are others");
  if (!SameSignature(manifest.outputs, other.outputs)) return differs("outputs are others");
  if (!SameBuffers(manifest.buffers, other.buffers)) return differs("buffers are others");
  for (const auto* hashes : {&manifest.hashes, &other.hashes}) {
    for (const auto& [file, hash] : *hashes) {
      if (!IsOfKernels(file)) continue;
      const auto a = manifest.hashes.find(file), b = other.hashes.find(file);
      const bool in_both = a != manifest.hashes.end() && b != other.hashes.end();
      if (!in_both || a->second != b->second) return differs(file, " is another");
    }
  }
  if (manifest.batch_invariant != other.batch_invariant)
    return differs("sums are made in another order (--batch-invariant)");
  if (manifest.targets == other.targets) return {};
  return differs("steps are others");
}

}  // namespace fusec::runtime
