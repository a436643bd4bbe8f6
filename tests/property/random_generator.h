#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "compiler/support/adt.h"
#include "tests/property/random_graph.h"

namespace fusec {

inline constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 8, 0};
inline constexpr int64_t kMaxBatch = 16;
inline constexpr int64_t kMaxElements = 4096;
inline constexpr int kMaxRank = 4;

// Random numbers by remainders, since the distributions of the standard library differ between its versions.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(limit));
  }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  template <class T>
  const T& From(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(Below(static_cast<int64_t>(choices.size())))];
  }
  int64_t Size() { return OneIn(20) ? 0 : kSizes[Below(6)]; }
  // A multiple of 1/8 in -2..2, now and then -0.
  double Eighths() { return OneIn(24) ? -0.0 : static_cast<double>(Below(33) - 16) / 8; }

 private:
  std::mt19937_64 engine_;
};

// The implementation of RandomGraph: the values made so far, and steps that add more (random_steps.cc).
class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options)
      : options_(options), random_(seed), graph_(std::make_unique<Graph>()) {
    graph_->name = fmt::format("random_{}", seed);
    graph_->symbols = {{"batch", options.least_batch, kMaxBatch}};
  }

  std::unique_ptr<Graph> Run();

 private:
  // The number of bits that hold a value exactly: multiples of 1/8 in -2..2 have 3 bits after the point and 2 before it.
  struct Bits {
    int fraction = 3;
    int magnitude = 2;
  };
  static constexpr Bits kRounded = {100, 100};

  void AddFloat(Shape shape) {
    floats_.push_back(graph_->AddInput("x", {options_.dtype, std::move(shape)}));
    bits_[floats_.back()] = {};
  }
  static Bits Widest(const Bits& a, const Bits& b) {
    return {std::max(a.fraction, b.fraction), std::max(a.magnitude, b.magnitude)};
  }
  static Bits ProductBits(const Bits& a, const Bits& b, int64_t summed = 1) {
    int magnitude = a.magnitude + b.magnitude;
    for (; summed > 1; summed /= 2) ++magnitude;
    return {a.fraction + b.fraction, std::min(magnitude + 1, 100)};
  }
  // Whether the dtype holds the value without rounding, whatever the order of summation.
  bool IsExact(const Value* value) {
    const Bits bits = bits_[value];
    const int digits = options_.dtype == Dtype::kF16    ? 11
                       : options_.dtype == Dtype::kBF16 ? 8
                                                        : 24;
    return bits.fraction + bits.magnitude <= digits;
  }

  // Adds a node, unless Infer rejects it.
  Value* TryAdd(OpKind kind, ValueList operands, Attributes attributes = {}) {
    const Result<Node*> node =
        Builder(*graph_).Add(kind, std::move(operands), std::move(attributes));
    return node ? (*node)->result() : nullptr;
  }
  Value* Make(OpKind kind, ValueList operands, Attributes attributes = {}) {
    return Builder(*graph_).Make(kind, std::move(operands), std::move(attributes));
  }
  // `bits` are those of the result; by default those of the widest operand, which is right for views.
  void Add(OpKind kind, ValueList operands, Attributes attributes = {},
           std::optional<Bits> bits = std::nullopt) {
    if (!bits) {
      bits = Bits();
      for (const Value* operand : operands) bits = Widest(*bits, bits_[operand]);
    }
    Value* result = TryAdd(kind, std::move(operands), std::move(attributes));
    if (result == nullptr) return;
    if (result->type.rank() > kMaxRank ||
        graph_->SymbolRanges().IntervalOf(result->type.ElementCount()).high > kMaxElements) {
      graph_->nodes.pop_back();
      return;
    }
    floats_.push_back(result);
    bits_[result] = *bits;
    ++made_;
  }
  Value* Constant(std::vector<int64_t> dims) {
    TensorData data(options_.dtype, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random_.Eighths());
    return Builder(*graph_).Constant(std::move(data));
  }
  Value* Scalar() { return Builder(*graph_).Scalar(options_.dtype, random_.Eighths()); }

  // Any value so far; recent values are twice as likely, which makes chains.
  Value* Any() {
    const int64_t count = static_cast<int64_t>(floats_.size());
    return floats_[static_cast<size_t>(std::max(random_.Below(count), random_.Below(count)))];
  }
  Value* AnyOfRank(int least) {
    for (int tries = 0; tries < 8; ++tries) {
      Value* value = Any();
      if (value->type.rank() >= least) return value;
    }
    return floats_[0];  // [batch, width]
  }
  int64_t AxisOf(const Value* value) { return random_.Below(value->type.rank()); }

  // The steps. Each picks operands and adds one or more nodes.
  void Unary();
  void Binary();
  void Choice();
  void Transpose();
  void Reshape();
  void Slice();
  void First();
  void Group();
  void Concat();
  void Pad();
  void Expand();
  void Gather();
  void Reduce();
  void MatMul();
  void Softmax();
  void Embeddings();
  void CumSum();
  void TopK();
  void ArgMax();
  void Normalize();
  void Tile();
  void Trilu();
  void Unfold();
  void HashedGather();

  const RandomGraphOptions options_;
  Random random_;
  std::unique_ptr<Graph> graph_;
  ValueList floats_;
  DenseMap<const Value*, Bits> bits_;  // constants have the bits of inputs
  int made_ = 0;
};

}  // namespace fusec
