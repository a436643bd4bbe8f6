#include "tests/property/random_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/support/check.h"

namespace fusec {
namespace {

constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 8, 0};
constexpr int64_t kMaxBatch = 16;
constexpr int64_t kMaxElements = 4096;
constexpr int kMaxRank = 4;

// Distributions of the standard library differ between its versions, remainders do not.
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
  // k/8 in -2..2
  double Eighths() { return OneIn(24) ? -0.0 : static_cast<double>(Below(33) - 16) / 8; }

 private:
  std::mt19937_64 engine_;
};

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options)
      : options_(options), random_(seed), graph_(std::make_unique<Graph>()) {
    graph_->name = fmt::format("random_{}", seed);
    graph_->symbols = {{"batch", 1, kMaxBatch}};
  }

  std::unique_ptr<Graph> Run() {
    const Expr batch = Expr::Symbol("batch");
    const int64_t width = 1 + random_.Below(9);
    AddFloat({batch, Expr(width)});
    AddFloat({batch, Expr(width)});
    if (random_.OneIn(2)) AddFloat({batch, Expr(1)});
    if (random_.OneIn(2)) AddFloat({Expr(width)});
    if (random_.OneIn(4)) AddFloat({});
    if (random_.OneIn(2)) AddFloat({batch, Expr(random_.Size()), Expr(random_.Size())});
    if (random_.OneIn(2)) floats_.push_back(Constant({1 + random_.Below(3), width}));

    using Step = void (Generator::*)();
    std::vector<Step> steps;
    auto offer = [&](bool wanted, Step step, int weight) {
      if (wanted) steps.insert(steps.end(), static_cast<size_t>(weight), step);
    };
    offer(options_.pointwise, &Generator::Unary, 3);
    offer(options_.pointwise, &Generator::Binary, 4);
    offer(options_.pointwise, &Generator::Choice, 1);
    offer(options_.views, &Generator::Transpose, 1);
    offer(options_.views, &Generator::Reshape, 2);
    offer(options_.views, &Generator::Slice, 2);
    offer(options_.views, &Generator::Concat, 2);
    offer(options_.views, &Generator::Pad, 1);
    offer(options_.views, &Generator::Expand, 1);
    offer(options_.gathers, &Generator::Gather, 2);
    offer(options_.reductions, &Generator::Reduce, 2);
    offer(options_.matmuls, &Generator::MatMul, 2);
    offer(options_.composites, &Generator::Softmax, 1);
    // Operands that do not fit cost a try; unary ops always fit.
    for (int tries = 0; made_ < options_.nodes && tries < 40 * options_.nodes; ++tries) {
      (this->*random_.From(steps))();
    }
    const std::map<const Value*, int> uses = graph_->CountUses();
    for (Value* value : floats_) {
      const bool is_given = value->producer == nullptr || value->producer->kind == OpKind::kConstant;
      if (!is_given && (uses.count(value) == 0 || random_.OneIn(8))) {
        graph_->outputs.push_back(value);
      }
    }
    if (graph_->outputs.empty()) graph_->outputs.push_back(floats_.back());
    const Result<void> verdict = Verify(*graph_);
    FUSEC_CHECK(verdict.has_value(), verdict.error().message + "\n" + Print(*graph_));
    for (const auto& input : graph_->inputs) graph_->input_names.push_back(input->name);
    for (size_t i = 0; i < graph_->outputs.size(); ++i) {
      graph_->output_names.push_back(fmt::format("y{}", i));
    }
    return std::move(graph_);
  }

 private:
  // How many bits hold a value exactly: eighths in -2..2 have 3 behind the point and 2 before it.
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
  // Whether the dtype holds it without rounding, in whatever order sums are taken.
  bool IsExact(const Value* value) {
    const Bits bits = bits_[value];
    const int digits = options_.dtype == Dtype::kF16    ? 11
                       : options_.dtype == Dtype::kBF16 ? 8
                                                        : 24;
    return bits.fraction + bits.magnitude <= digits;
  }

  // What Infer rejects is not added.
  Value* TryAdd(OpKind kind, std::vector<Value*> operands, Attributes attributes = {}) {
    const Result<Node*> node =
        Builder(*graph_).Add(kind, std::move(operands), std::move(attributes));
    return node ? (*node)->result() : nullptr;
  }
  // `bits` of the result; without it those of the widest operand, as views have it.
  void Add(OpKind kind, std::vector<Value*> operands, Attributes attributes = {},
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

  // Young values are twice as likely, which makes chains.
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

  void Unary() {
    static const std::vector<OpKind> kinds = {OpKind::kRelu, OpKind::kAbs,  OpKind::kNeg,
                                              OpKind::kTanh, OpKind::kSigmoid};
    const OpKind kind = random_.From(kinds);
    const bool rounds = kind == OpKind::kTanh || kind == OpKind::kSigmoid;
    Add(kind, {Any()}, {}, rounds ? std::optional(kRounded) : std::nullopt);
  }

  void Binary() {
    static const std::vector<OpKind> kinds = {OpKind::kAdd, OpKind::kSub, OpKind::kMul,
                                              OpKind::kMax, OpKind::kMin};
    Value* a = Any();
    Value* b = random_.OneIn(4) ? Scalar() : Any();
    if (random_.OneIn(2)) std::swap(a, b);
    const OpKind kind = random_.From(kinds);
    Bits bits = Widest(bits_[a], bits_[b]);
    if (kind == OpKind::kMul) bits = ProductBits(bits_[a], bits_[b]);
    else if (kind == OpKind::kAdd || kind == OpKind::kSub) ++bits.magnitude;
    Add(kind, {a, b}, {}, bits);
  }

  // Rounding may turn a comparison around, so only exact values are compared.
  void Choice() {
    Value* a = Any();
    Value* b = Any();
    if (!IsExact(a) || !IsExact(b)) return;
    Value* condition = TryAdd(OpKind::kLess, {a, b});
    if (condition != nullptr) Add(OpKind::kWhere, {condition, a, Any()});
  }

  void Transpose() {
    Value* x = AnyOfRank(2);
    std::vector<int64_t> perm;
    for (int64_t i = 0; i < x->type.rank(); ++i) {
      perm.insert(perm.begin() + random_.Below(i + 1), i);
    }
    Add(OpKind::kTranspose, {x}, {{"perm", perm}});
  }

  // Merges two neighbouring axes, splits an even one or adds one of size 1.
  void Reshape() {
    Value* x = AnyOfRank(1);
    Shape shape = x->type.shape;
    const int64_t axis = AxisOf(x);
    const std::optional<int64_t> size = shape[axis].AsConstant();
    if (axis + 1 < x->type.rank() && random_.OneIn(2)) {
      shape[axis] = shape[axis] * shape[axis + 1];
      shape.erase(shape.begin() + axis + 1);
    } else if (size && *size % 2 == 0 && random_.OneIn(2)) {
      shape[axis] = Expr(*size / 2);
      shape.insert(shape.begin() + axis + random_.Below(2), Expr(2));
    } else {
      shape.insert(shape.begin() + axis, Expr(1));
    }
    Add(OpKind::kReshape, {x}, {{"shape", shape}});
  }

  void Slice() {
    Value* x = AnyOfRank(1);
    Shape shape = x->type.shape;
    const int64_t axis = AxisOf(x);
    const std::optional<int64_t> size = shape[axis].AsConstant();
    if (!size || *size == 0) return;
    std::vector<Expr> starts(shape.size(), Expr(0));
    std::vector<int64_t> steps(shape.size(), 1);
    const int64_t start = random_.Below(*size);
    steps[axis] = random_.OneIn(3) ? -1 : 1 + random_.Below(2);
    const int64_t longest =
        steps[axis] < 0 ? start + 1 : (*size - start + steps[axis] - 1) / steps[axis];
    starts[axis] = Expr(start);
    shape[axis] = Expr(1 + random_.Below(longest));
    Add(OpKind::kSlice, {x}, {{"starts", starts}, {"steps", steps}, {"shape", shape}});
  }

  void Concat() {
    Value* x = AnyOfRank(1);
    const int64_t axis = AxisOf(x);
    std::vector<Value*> operands = {x};
    for (int64_t i = random_.Below(3); i >= 0; --i) {
      operands.push_back(random_.OneIn(2) ? x : Any());
    }
    Add(OpKind::kConcat, operands, {{"axis", axis}});
  }

  void Pad() {
    Value* x = AnyOfRank(1);
    std::vector<Expr> pads(2 * x->type.shape.size(), Expr(0));
    for (Expr& pad : pads) pad = Expr(random_.Below(3));
    Add(OpKind::kPad, {x, Scalar()}, {{"pads", pads}, {"mode", std::string("constant")}});
  }

  void Expand() {
    Value* x = Any();
    Shape shape = x->type.shape;
    shape.insert(shape.begin(), random_.OneIn(2) ? Expr::Symbol("batch") : Expr(random_.Size()));
    Add(OpKind::kExpand, {x}, {{"shape", shape}});
  }

  // Rows of a constant table, or of a value, by indices that are an input.
  void Gather() {
    const bool from_table = random_.OneIn(2);
    Value* data =
        from_table ? Constant({1 + random_.Below(9), 1 + random_.Below(5)}) : AnyOfRank(1);
    const int64_t axis = from_table ? 0 : AxisOf(data);
    if (data->type.shape[axis].AsConstant().value_or(0) == 0) return;
    Shape shape = {Expr::Symbol("batch")};
    if (random_.OneIn(2)) shape.push_back(Expr(1 + random_.Below(3)));
    Value* indices = graph_->AddInput("ids", {Dtype::kI64, shape});
    Add(OpKind::kGather, {data, indices}, {{"axis", axis}});
  }

  void Reduce() {
    static const std::vector<OpKind> kinds = {OpKind::kReduceSum, OpKind::kReduceMean,
                                              OpKind::kReduceMax, OpKind::kReduceMin};
    Value* x = AnyOfRank(1);
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < x->type.rank(); ++i) {
      if (random_.OneIn(2)) axes.push_back(i);
    }
    if (axes.empty()) axes.push_back(AxisOf(x));
    const OpKind kind = random_.From(kinds);
    Bits bits = kind == OpKind::kReduceMean ? kRounded : bits_[x];
    if (kind == OpKind::kReduceSum) bits = ProductBits(bits, {0, 0}, kMaxElements);
    Add(kind, {x}, {{"axes", axes}, {"keepdims", random_.Below(2)}}, bits);
  }

  // With a constant weight, or of two values.
  void MatMul() {
    Value* x = AnyOfRank(2);
    Value* weight = AnyOfRank(2);
    const int64_t transposed = random_.Below(2);
    const std::optional<int64_t> inner = x->type.shape.back().AsConstant();
    if (inner && !random_.OneIn(3)) {
      const int64_t columns = 1 + random_.Below(6);
      weight = transposed ? Constant({columns, *inner}) : Constant({*inner, columns});
    }
    Add(OpKind::kMatMul, {x, weight},
        {{"transpose_a", int64_t{0}}, {"transpose_b", transposed}},
        ProductBits(bits_[x], bits_[weight], 16));
  }

  void Softmax() {
    Value* x = AnyOfRank(1);
    Add(OpKind::kSoftmax, {x}, {{"axis", AxisOf(x)}}, kRounded);
  }

  const RandomGraphOptions options_;
  Random random_;
  std::unique_ptr<Graph> graph_;
  std::vector<Value*> floats_;
  std::map<const Value*, Bits> bits_;  // looked up only; constants are as inputs
  int made_ = 0;
};

// The shortest axis that this input's values select from.
int64_t SmallestTable(const Graph& graph, const Value* indices,
                      const std::map<std::string, int64_t>& symbols) {
  int64_t smallest = 1 << 20;
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kGather || node->operand(1) != indices) continue;
    const Expr& extent = node->operand(0)->type.shape[static_cast<size_t>(node->Int("axis"))];
    smallest = std::min(smallest, extent.Evaluate(symbols).value());
  }
  return smallest;
}

bool Same(double expected, double found, double tolerance) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) == std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) return expected == found;
  return std::abs(expected - found) <= tolerance * std::max(1.0, std::abs(expected));
}

}  // namespace

std::unique_ptr<Graph> RandomGraph(uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).Run();
}

std::vector<ReferenceTensor> RandomInputs(const Graph& graph, uint64_t seed,
                                          const std::map<std::string, int64_t>& symbols) {
  Random random(seed);
  std::vector<ReferenceTensor> inputs;
  for (const auto& input : graph.inputs) {
    std::vector<int64_t> dims;
    for (const Expr& dim : input->type.shape) dims.push_back(dim.Evaluate(symbols).value());
    ReferenceTensor tensor(input->type.dtype, dims);
    for (double& value : tensor.reals) value = random.Eighths();
    const int64_t extent = SmallestTable(graph, input.get(), symbols);
    for (int64_t& value : tensor.ints) value = random.Below(2 * extent) - extent;
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

std::string FirstDifference(const std::vector<ReferenceTensor>& expected,
                            const std::vector<ReferenceTensor>& found, double tolerance) {
  if (expected.size() != found.size()) {
    return fmt::format("{} results, expected {}", found.size(), expected.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const ReferenceTensor& want = expected[i];
    const ReferenceTensor& have = found[i];
    if (want.dtype != have.dtype || want.dims != have.dims) {
      return fmt::format("result {} is {}{}, expected {}{}", i, DtypeName(have.dtype), have.dims,
                         DtypeName(want.dtype), want.dims);
    }
    for (int64_t j = 0; j < want.element_count(); ++j) {
      const bool same = IsFloat(want.dtype) ? Same(want.reals[j], have.reals[j], tolerance)
                                            : want.ints[j] == have.ints[j];
      if (!same) {
        return fmt::format("result {} at {} is {}, expected {}", i, j, have.Real(j), want.Real(j));
      }
    }
  }
  return "";
}

}  // namespace fusec
