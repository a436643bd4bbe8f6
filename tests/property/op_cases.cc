#include "tests/property/op_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/op_def.h"
#include "compiler/ir/recurrence.h"

namespace fusec {
namespace {

constexpr int64_t kAnything = 0, kTame = -1, kSmall = -2;
constexpr int64_t UpTo(int64_t most) { return -3 - most; }
constexpr int64_t kFirstOfSlots = int64_t{1} << 20;
constexpr int64_t Slots(int64_t count) { return kFirstOfSlots + count; }

const std::vector<double>& AwkwardReals() {
  static const std::vector<double>& values = *new std::vector<double>{
      NAN, INFINITY, -INFINITY, -0.0, 0.0, 1, -1, 0.5, -0.5, 2, -2.5, 3.5, 0.125, -7, 100, -300, 1e-3, 40000};
  return values;
}

std::vector<int64_t> AwkwardInts(Dtype dtype) {
  const int bits = 8 * DtypeBytes(dtype);
  const int64_t top = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  return {0, 1, -1, 2, -2, 3, -3, 5, 7, -8, 31, 64, top, -top - 1, top - 1, -top};
}

int64_t AwkwardCount(Dtype dtype) {
  if (dtype == Dtype::kBool) return 2;
  return static_cast<int64_t>(IsFloat(dtype) ? AwkwardReals().size() : AwkwardInts(dtype).size());
}

ReferenceTensor Filled(Dtype dtype, std::vector<int64_t> dims, int64_t fill, uint64_t seed) {
  ReferenceTensor tensor(dtype, std::move(dims));
  uint64_t state = seed * 977 + 13;
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto random = static_cast<int64_t>(state >> 40);
    if (fill <= UpTo(0)) tensor.ints[i] = random % (UpTo(0) - fill + 1);
    else if (fill == kSmall) tensor.reals[i] = static_cast<double>(random % 33 - 16) / 32;
    else if (fill >= Slots(0)) tensor.ints[i] = random % (fill - Slots(0) + 1) - 1;
    else if (fill > 0) tensor.ints[i] = IsUnsigned(dtype) ? random % fill : random % (2 * fill) - fill;
    else if (dtype == Dtype::kBool) tensor.ints[i] = fill == kTame ? random % 2 : i % 2;
    else if (fill == kTame && IsFloat(dtype)) tensor.reals[i] = static_cast<double>(random % 33 - 16) / 8;
    else if (fill == kTame) tensor.ints[i] = random % 11 - (IsUnsigned(dtype) ? 0 : 5);
    else if (IsFloat(dtype)) tensor.reals[i] = AwkwardReals()[i % AwkwardReals().size()];
    else tensor.ints[i] = AwkwardInts(dtype)[i % AwkwardInts(dtype).size()];
  }
  // Some rows get a NaN or an infinity, and others do not.
  for (int64_t i = 11; fill == kTame && IsFloat(dtype) && i < tensor.element_count(); i += 29) {
    tensor.reals[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? -INFINITY : INFINITY;
  }
  tensor.WrapInts();
  return ReferenceTensor::FromData(tensor.ToData());
}

struct Operand {
  Dtype dtype;
  Shape shape;
  int64_t fill = kAnything;
  bool absent = false;
};

class Cases {
 public:
  void Try(OpKind kind, ArrayRef<Operand> operands, Attributes attributes = {}) {
    OpCase made;
    made.graph = std::make_unique<Graph>();
    Graph& graph = *made.graph;
    graph.name = "one_op";
    graph.symbols = {{"batch", 1, 16}};
    ValueList values;
    for (const Operand& operand : operands) {
      if (operand.absent) {
        values.push_back(nullptr);
        continue;
      }
      values.push_back(graph.AddInput("x", {operand.dtype, operand.shape}));
      made.fills.push_back(operand.fill);
    }
    // Ops without operands, and sizes that no operand has, still need a batch.
    graph.AddInput("sizes", {Dtype::kBool, {Expr::Symbol("batch")}});
    made.fills.push_back(kAnything);
    const std::vector<AttributeSpec>& specs = GetOpDef(kind).functions.attributes;
    std::erase_if(attributes, [&](const auto& attribute) {  // of other ops of the table below
      return std::none_of(specs.begin(), specs.end(),
                          [&](const AttributeSpec& spec) { return attribute.first == spec.name; });
    });
    const auto node = Builder(graph).Add(kind, values, std::move(attributes));
    if (!node) return;
    for (const auto& result : (*node)->results) graph.outputs.push_back(result.get());
    for (const auto& input : graph.inputs) graph.input_names.push_back(input->name);
    for (const Value* output : graph.outputs) graph.output_names.push_back(output->name);
    cases_.push_back(std::move(made));
  }
  std::vector<OpCase> Take() { return std::move(cases_); }

 private:
  std::vector<OpCase> cases_;
};

const Expr kBatch = Expr::Symbol("batch");

std::vector<Dtype> AllDtypes() {
  std::vector<Dtype> dtypes;
  for (int i = 0; i < kDtypeCount; ++i) dtypes.push_back(static_cast<Dtype>(i));
  return dtypes;
}

void AddReductions(Cases& cases, Dtype dtype) {
  for (const OpDef& op : AllOps()) {
    const bool reduces = op.op_class == OpClass::kReduction ||
                         (op.op_class == OpClass::kComposite && std::string(op.text).rfind("reduce_", 0) == 0);
    if (!reduces) continue;
    const std::vector<std::pair<Shape, std::vector<int64_t>>> spaces = {
        {{kBatch, 5}, {1}},       {{kBatch, 5}, {0}},    {{kBatch, 40}, {1}},   {{2, kBatch, 3}, {0, 2}},
        {{2, kBatch, 3}, {1}},    {{kBatch, 3}, {0, 1}}, {{kBatch, 0}, {1}},    {{kBatch, 0}, {0}},
        {{kBatch, 1}, {1}},       {{3, 2, 2, 3}, {0, 2}}, {{kBatch, 600}, {1}}, {{0, kBatch, 2}, {0, 2}}};
    for (const auto& [shape, axes] : spaces) {
      for (const int64_t flag : {0, 1}) {
        cases.Try(op.kind, {{dtype, shape, kTame}},
                  {{"axes", axes}, {"keepdims", flag}, {"select_last_index", flag}});
      }
    }
  }
}

// Rows that a GPU's threads process by vectors, and rows that begin or end within a vector.
void AddWholeVectors(Cases& cases, Dtype dtype) {
  using Ints = std::vector<int64_t>;
  using Dims = Exprs;
  const Operand wide{dtype, {kBatch, 16}}, half{dtype, {kBatch, 8}}, cube{dtype, {kBatch, 3, 8}}, scalar{dtype, {}};
  cases.Try(OpKind::kConcat, {half, wide, half}, {{"axis", int64_t{1}}});
  cases.Try(OpKind::kConcat, {wide, {dtype, {kBatch, 2}}, {dtype, {kBatch, 14}}}, {{"axis", int64_t{1}}});
  cases.Try(OpKind::kConcat, {wide, wide, wide}, {{"axis", int64_t{0}}});
  cases.Try(OpKind::kConcat, {cube, {dtype, {kBatch, 1, 8}}, {dtype, {kBatch, 2, 8}}}, {{"axis", int64_t{1}}});
  for (const Dims& pads : {Dims{0, 8, 0, 8}, Dims{0, 5, 0, 3}, Dims{1, -8, 2, 0}, Dims{0, -2, 0, 2}, Dims{0, 4, 0, 4}}) {
    cases.Try(OpKind::kPad, {wide, scalar}, {{"pads", pads}, {"mode", std::string("constant")}});
  }
  cases.Try(OpKind::kTranspose, {cube}, {{"perm", Ints{1, 0, 2}}});
  cases.Try(OpKind::kTranspose, {{dtype, {8, kBatch, 2}}}, {{"perm", Ints{1, 2, 0}}});
  cases.Try(OpKind::kExpand, {half}, {{"shape", Dims{3, kBatch, 8}}});
  cases.Try(OpKind::kExpand, {{dtype, {kBatch, 1}}}, {{"shape", Dims{kBatch, 16}}});
  for (const int64_t start : {1, 4, 8}) {
    cases.Try(OpKind::kSlice, {wide}, {{"starts", Dims{0, start}}, {"steps", Ints{1, 1}}, {"shape", Dims{kBatch, 8}}});
  }
  cases.Try(OpKind::kTrilu, {wide}, {{"k", int64_t{4}}, {"upper", int64_t{0}}});
  cases.Try(OpKind::kGather, {cube, {Dtype::kI64, {kBatch}, 3}}, {{"axis", int64_t{1}}});
}

void AddViews(Cases& cases, Dtype dtype) {
  using Ints = std::vector<int64_t>;
  using Dims = Exprs;
  const Operand x{dtype, {kBatch, 5}}, cube{dtype, {kBatch, 2, 3}}, row{dtype, {5}}, scalar{dtype, {}};
  for (const int64_t axis : {0, 1, 2}) {
    cases.Try(OpKind::kConcat, {cube, cube, cube, cube}, {{"axis", axis}});
    cases.Try(OpKind::kConcat, {x, {dtype, {kBatch, 0}}, {dtype, {kBatch, 3}}}, {{"axis", axis}});
    cases.Try(OpKind::kConcat, {row, {dtype, {kBatch}}, row}, {{"axis", axis}});
    cases.Try(OpKind::kCumSum, {{dtype, {kBatch, 2, 3}, kTame}}, {{"axis", axis}, {"exclusive", axis % 2}, {"reverse", int64_t{0}}});
    cases.Try(OpKind::kCumSum, {{dtype, {kBatch, 2, 3}, kTame}}, {{"axis", axis}, {"exclusive", 1 - axis % 2}, {"reverse", int64_t{1}}});
    cases.Try(OpKind::kCumSum, {{dtype, {kBatch, 0, 3}, kTame}}, {{"axis", axis}, {"exclusive", int64_t{0}}, {"reverse", int64_t{1}}});
  }
  for (const Ints& perm : {Ints{0, 2, 1}, Ints{2, 0, 1}, Ints{1, 0, 2}, Ints{0, 1, 2}}) {
    cases.Try(OpKind::kTranspose, {cube}, {{"perm", perm}});
  }
  for (const Dims& shape : {Dims{3, kBatch, 5}, Dims{kBatch, 5}, Dims{1, 1, 1}, Dims{0, 1, 1}}) {
    cases.Try(OpKind::kExpand, {x}, {{"shape", shape}});
    cases.Try(OpKind::kExpand, {{dtype, {kBatch, 1}}}, {{"shape", shape}});
    cases.Try(OpKind::kExpand, {scalar}, {{"shape", shape}});
  }
  cases.Try(OpKind::kTile, {x}, {{"repeats", Ints{2, 3}}});
  cases.Try(OpKind::kTile, {x}, {{"repeats", Ints{1, 0}}});
  cases.Try(OpKind::kReshape, {cube}, {{"shape", Dims{kBatch * 2, 3}}});
  cases.Try(OpKind::kReshape, {cube}, {{"shape", Dims{kBatch, 6, 1}}});
  cases.Try(OpKind::kSlice, {x}, {{"starts", Dims{kBatch - 1, 4}}, {"steps", Ints{-1, -2}}, {"shape", Dims{kBatch, 2}}});
  cases.Try(OpKind::kSlice, {x}, {{"starts", Dims{0, 5}}, {"steps", Ints{1, 1}}, {"shape", Dims{kBatch, 0}}});
  cases.Try(OpKind::kSlice, {x}, {{"starts", Dims{0, 1}}, {"steps", Ints{1, 3}}, {"shape", Dims{kBatch, 2}}});
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    for (const Dims& pads : {Dims{0, 2, 0, 1}, Dims{0, -1, 0, 2}, Dims{1, 0, 2, 0}, Dims{0, -3, 0, -2}, Dims{kBatch, 4, 0, 4}}) {
      cases.Try(OpKind::kPad, {x, scalar}, {{"pads", pads}, {"mode", std::string(mode)}});
      cases.Try(OpKind::kPad, {{dtype, {3, 5}}, scalar}, {{"pads", pads}, {"mode", std::string(mode)}});
    }
  }
  for (const Ints& numbers : {Ints{1, 2, 1, 2}, Ints{1, 1, 3, 1}, Ints{1, 5, 2, 1}, Ints{0, 1, 1, 1}}) {
    cases.Try(OpKind::kUnfold, {x},
              {{"axis", numbers[0]}, {"size", numbers[1]}, {"stride", numbers[2]}, {"dilation", numbers[3]}});
  }
  for (const int64_t k : {-2, 0, 1, 9}) {
    for (const int64_t upper : {0, 1}) cases.Try(OpKind::kTrilu, {x}, {{"k", k}, {"upper", upper}});
    cases.Try(OpKind::kEyeLike, {}, {{"shape", Dims{kBatch, 5}}, {"k", k}, {"dtype", dtype}});
  }
  cases.Try(OpKind::kIdentity, {x});
  cases.Try(OpKind::kIdentity, {{dtype, {kBatch, 0}}});
  cases.Try(OpKind::kIdentity, {scalar});
  const Attribute three = IsFloat(dtype) ? Attribute(3.5) : Attribute(int64_t{3});
  const Attribute step = IsFloat(dtype) ? Attribute(-0.25) : Attribute(int64_t{-2});
  cases.Try(OpKind::kRange, {}, {{"length", Dims{kBatch}}, {"start", three}, {"delta", step}, {"dtype", dtype}});
}

void AddIndexed(Cases& cases, Dtype dtype) {
  using Dims = Exprs;
  const Operand table{dtype, {6, 3}}, x{dtype, {kBatch, 5}}, cube{dtype, {kBatch, 2, 3}};
  for (const Dtype ids : {Dtype::kI64, Dtype::kI32}) {
    for (const int64_t axis : {0, 1}) {
      const int64_t extent = axis == 0 ? 6 : 3;
      cases.Try(OpKind::kGather, {table, {ids, {kBatch}, extent}}, {{"axis", axis}});
      cases.Try(OpKind::kGather, {table, {ids, {kBatch, 2}, extent}}, {{"axis", axis}});
      cases.Try(OpKind::kGather, {table, {ids, {}, extent}}, {{"axis", axis}});
      cases.Try(OpKind::kGather, {table, {ids, {0}, extent}}, {{"axis", axis}});
      cases.Try(OpKind::kGatherElements, {table, {ids, {4, 2}, extent}}, {{"axis", axis}});
      cases.Try(OpKind::kOneHot, {{ids, {kBatch, 2}, 7}, {dtype, {2}}}, {{"axis", axis}, {"depth", Dims{5}}});
    }
    cases.Try(OpKind::kGatherND, {table, {ids, {kBatch, 2}, 3}}, {{"batch_dims", int64_t{0}}});
    cases.Try(OpKind::kGatherND, {table, {ids, {kBatch, 1}, 6}}, {{"batch_dims", int64_t{0}}});
    cases.Try(OpKind::kGatherND, {cube, {ids, {kBatch, 4, 1}, 2}}, {{"batch_dims", int64_t{1}}});
  }
  for (const char* mode : {"sum", "mean", "max"}) {
    if (!IsFloat(dtype)) break;
    for (const int64_t zero : {0, 1}) {
      const Attributes attributes = {{"mode", std::string(mode)}, {"zero_if_empty", zero}};
      cases.Try(OpKind::kSegmentReduce, {{dtype, {9, 3}, kTame}, {Dtype::kI64, {kBatch}, 12}}, attributes);
      cases.Try(OpKind::kSegmentReduce,
                {{dtype, {kBatch, 2, 3}, kTame}, {Dtype::kI32, {6}, 8}, {Dtype::kI32, {6}, 8}}, attributes);
    }
  }
  if (IsFloat(dtype)) {
    const auto products = [&](const Shape& x, const Shape& bank, const Operand& slots) {
      for (const int64_t transposed : {0, 1}) {
        Shape stored = bank;
        if (transposed == 1) std::swap(stored[1], stored[2]);
        cases.Try(OpKind::kSlotMatMul, {{dtype, x, kTame}, {dtype, stored, kTame}, slots},
                  {{"transpose_b", transposed}});
      }
    };
    products({kBatch, 5}, {3, 5, 4}, {Dtype::kI32, {kBatch}, Slots(3)});
    products({kBatch, 2, 3, 8}, {2, 8, 6}, {Dtype::kI64, {kBatch}, Slots(2)});
    products({kBatch, 3, 1}, {4, 1, 8}, {Dtype::kI64, {kBatch, 3}, Slots(4)});
    products({kBatch, 3}, {1, 3, 1}, {Dtype::kI32, {kBatch}, Slots(1)});
    products({kBatch, 0}, {2, 0, 3}, {Dtype::kI32, {kBatch}, Slots(2)});
  }
  for (const char* how : {"none", "add", "mul", "max", "min"}) {
    const Attribute reduction = std::string(how);
    for (const int64_t axis : {0, 1}) {
      cases.Try(OpKind::kScatterElements,
                {{dtype, {6, 3}, kTame}, {Dtype::kI64, {5, 2}, axis == 0 ? 6 : 3}, {dtype, {5, 2}, kTame}},
                {{"axis", axis}, {"reduction", reduction}});
    }
    cases.Try(OpKind::kScatterND,
              {{dtype, {6, 3}, kTame}, {Dtype::kI64, {kBatch, 1}, 6}, {dtype, {kBatch, 3}, kTame}},
              {{"reduction", reduction}});
    cases.Try(OpKind::kScatterND,
              {{dtype, {6, 3}, kTame}, {Dtype::kI64, {4, 2}, 3}, {dtype, {4}, kTame}},
              {{"reduction", reduction}});
  }
  for (const int64_t largest : {0, 1}) {
    for (const int64_t fill : {kTame, kAnything}) {
      cases.Try(OpKind::kTopK, {{dtype, {kBatch, 20}, fill}},
                {{"axis", int64_t{1}}, {"k", Dims{7}}, {"largest", largest}, {"sorted", int64_t{1}}});
    }
    cases.Try(OpKind::kTopK, {{dtype, {3, kBatch}, kTame}},
              {{"axis", int64_t{0}}, {"k", Dims{3}}, {"largest", largest}, {"sorted", int64_t{1}}});
    cases.Try(OpKind::kTopK, {{dtype, {3, kBatch}, kTame}},
              {{"axis", int64_t{1}}, {"k", Dims{0}}, {"largest", largest}, {"sorted", int64_t{1}}});
  }
}

void AddProducts(Cases& cases, Dtype dtype) {
  for (const int64_t swapped : {0, 1}) {
    const Attributes attributes = {{"transpose_a", int64_t{0}}, {"transpose_b", swapped}};
    const auto right = [&](Expr k, Expr n) { return swapped ? Shape{n, k} : Shape{k, n}; };
    cases.Try(OpKind::kMatMul, {{dtype, {kBatch, 5}, kTame}, {dtype, right(5, 3), kTame}}, attributes);
    cases.Try(OpKind::kMatMul, {{dtype, {kBatch, 0}, kTame}, {dtype, right(0, 3), kTame}}, attributes);
    cases.Try(OpKind::kMatMul, {{dtype, {kBatch, 5}, kTame}, {dtype, right(5, 0), kTame}}, attributes);
    cases.Try(OpKind::kMatMul, {{dtype, {2, kBatch, 5}, kTame}, {dtype, right(5, 3), kTame}}, attributes);
    cases.Try(OpKind::kMatMul, {{dtype, {2, kBatch, 5}, kTame}, {dtype, {2, swapped ? 3 : 5, swapped ? 5 : 3}, kTame}}, attributes);
    cases.Try(OpKind::kMatMul, {{dtype, {2, 1, kBatch, 5}, kTame}, {dtype, {3, swapped ? 3 : 5, swapped ? 5 : 3}, kTame}}, attributes);
    cases.Try(OpKind::kMatMul, {{dtype, {1, 7}, kTame}, {dtype, {kBatch, swapped ? 3 : 7, swapped ? 7 : 3}, kTame}}, attributes);
  }
  const Operand x{dtype, {kBatch, 2, 6}, kTame}, scale{dtype, {6}, kTame};
  for (const int64_t axis : {0, 1, 2}) {
    for (const OpKind kind : {OpKind::kSoftmax, OpKind::kLogSoftmax}) {
      cases.Try(kind, {x}, {{"axis", axis}});
      cases.Try(kind, {{dtype, {kBatch, 70, 0}, kTame}}, {{"axis", axis}});
      cases.Try(kind, {{dtype, {kBatch, 70}, kAnything}}, {{"axis", axis}});
    }
    cases.Try(OpKind::kLayerNormalization, {x, scale, scale}, {{"axis", axis}, {"epsilon", 1e-5}, {"stash", Dtype::kF32}});
    cases.Try(OpKind::kRMSNormalization, {x, scale}, {{"axis", axis}, {"epsilon", 1e-5}, {"stash", Dtype::kF32}});
  }
  cases.Try(OpKind::kMean, {x, {dtype, {6}, kTame}, x});
  cases.Try(OpKind::kSum, {x, {dtype, {6}, kTame}, x});
  cases.Try(OpKind::kEinsum, {{dtype, {kBatch, 4}, kTame}, {dtype, {kBatch, 4}, kTame}}, {{"equation", std::string("bi,bj->bij")}});
  cases.Try(OpKind::kEinsum, {{dtype, {kBatch, 4}, kTame}, {dtype, {kBatch, 4}, kTame}}, {{"equation", std::string("bi,bi->b")}});
  cases.Try(OpKind::kEinsum, {{dtype, {4, 4}, kTame}}, {{"equation", std::string("ii->i")}});
}

// Layers of each kind of cell, with each option turned on and off.
void AddRecurrences(Cases& cases, Dtype dtype) {
  const std::string activations[] = {"Sigmoid Tanh Tanh", "HardSigmoid Softsign Relu", "Tanh Softplus ScaledTanh",
                                     "Elu Affine LeakyRelu", "ThresholdedRelu Sigmoid Softsign"};
  uint64_t state = 5;
  const auto below = [&](int64_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>(state >> 40) % limit;
  };
  const Shape sizes = {1, 5, 16, 20, 33};
  for (const CellKind& kind : CellKinds()) {
    for (int round = 0; round < 24; ++round) {
      const int64_t way = below(3), directions = way == 2 ? 2 : 1, steps = below(6), units = *sizes[below(5)].AsConstant();
      const bool batch_first = below(2) == 1, linear_before_reset = below(2) == 1, is_lstm = kind.cell == Cell::kLstm;
      const auto some = [&](bool may_be, Shape shape, int64_t fill) {
        return Operand{dtype, std::move(shape), fill, !may_be || below(2) == 0};
      };
      const Expr columns = directions * kind.gates * units;
      std::vector<Operand> operands = {
          {dtype, batch_first ? Shape{kBatch, steps, columns} : Shape{steps, kBatch, columns}, below(3) == 0 ? kTame : kSmall},
          {dtype, {directions, units, kind.gates * units}, kSmall},
          some(linear_before_reset && kind.cell == Cell::kGru, {directions, units}, kSmall),
          some(true, {kBatch}, UpTo(steps)),
          some(true, {directions, kBatch, units}, kSmall),
          some(is_lstm, {directions, kBatch, units}, kSmall),
          some(is_lstm, {directions, 3 * units}, kSmall),
          some(true, batch_first ? Shape{kBatch, steps} : Shape{steps, kBatch}, below(2) == 0 ? kTame : kSmall)};
      operands[kLengths].dtype = Dtype::kI32;
      if (operands[kUpdates].fill == kTame) operands[kUpdates].dtype = Dtype::kBool;
      if (!operands[kUpdates].absent) operands[kLengths].absent = true;
      std::string chosen = activations[below(5)];
      for (size_t i = 3; i > kind.activations.size(); --i) chosen.resize(chosen.rfind(' '));
      const std::vector<double> alphas(kind.activations.size(), 0.75), betas(kind.activations.size(), 0.25);
      cases.Try(OpKind::kRecurrence, operands,
                {{"cell", std::string(kind.name)},
                 {"direction", std::string(way == 0 ? "forward" : way == 1 ? "reverse" : "bidirectional")},
                 {"batch_first", int64_t{batch_first}}, {"activations", chosen}, {"alphas", alphas}, {"betas", betas},
                 {"clip", below(3) == 0 ? 0.5 : 0.0}, {"linear_before_reset", int64_t{linear_before_reset}},
                 {"input_forget", below(2)}});
    }
  }
}

}  // namespace

std::vector<ReferenceTensor> OpCase::Inputs(int64_t batch) const {
  std::vector<ReferenceTensor> inputs;
  for (size_t i = 0; i < fills.size(); ++i) {
    std::vector<int64_t> dims;
    for (const Expr& dim : graph->inputs[i]->type.shape) dims.push_back(dim.Evaluate({{"batch", batch}}).value());
    inputs.push_back(Filled(graph->inputs[i]->type.dtype, dims, fills[i], i + 7 * static_cast<uint64_t>(batch)));
  }
  return inputs;
}

std::vector<OpCase> PointwiseCases(Dtype dtype) {
  Cases cases;
  const int64_t count = AwkwardCount(dtype);
  const Operand column{dtype, {count, 1}}, row{dtype, {1, count}}, condition{Dtype::kBool, {2, 1, 1}};
  const Operand wide{dtype, {kBatch, 16}};
  for (const OpDef& op : AllOps()) {
    if (op.op_class != OpClass::kPointwise) continue;
    for (const int64_t flag : {0, 1}) {
      const Attributes attributes = {{"alpha", 0.3}, {"beta", 0.4}, {"gamma", 1.2}, {"lambd", 0.5},
          {"bias", flag * 0.25}, {"fmod", flag}, {"detect_positive", flag}, {"detect_negative", int64_t{1}},
          {"direction", std::string(flag ? "LEFT" : "RIGHT")}, {"approximate", std::string(flag ? "tanh" : "none")}};
      if (op.kind == OpKind::kCast) {
        if (flag == 1) continue;
        for (const Dtype to : AllDtypes()) {
          cases.Try(op.kind, {column}, {{"to", to}});
          cases.Try(op.kind, {wide}, {{"to", to}});
        }
        continue;
      }
      if (flag == 0) cases.Try(op.kind, {wide}, attributes);
      if (flag == 0) cases.Try(op.kind, {wide, {dtype, {16}}}, attributes);
      cases.Try(op.kind, {column}, attributes);
      cases.Try(op.kind, {column, row}, attributes);
      cases.Try(op.kind, {condition, column, row}, attributes);
      cases.Try(op.kind, {column, {dtype, {}}, {dtype, {1}}}, attributes);
    }
  }
  return cases.Take();
}

std::vector<OpCase> StructuralCases(Dtype dtype) {
  Cases cases;
  AddReductions(cases, dtype);
  AddViews(cases, dtype);
  AddWholeVectors(cases, dtype);
  AddIndexed(cases, dtype);
  AddProducts(cases, dtype);
  return cases.Take();
}

std::vector<OpCase> RecurrenceCases(Dtype dtype) {
  Cases cases;
  AddRecurrences(cases, dtype);
  return cases.Take();
}

}  // namespace fusec
