#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/c_expr.h"
#include "compiler/ir/graph.h"

namespace fusec {

class ImportContext;     // compiler/import/import_context.h
class ReferenceContext;  // compiler/reference/reference_context.h
class LowerContext;

// How an op can take part in fusion. The class is a property of the op; whether to fuse is decided
// by passes.
enum class OpClass : uint8_t {
  kConstant,     // data known at compile time
  kPointwise,    // computes an element from one element of each (broadcast) operand
  kView,         // an element of the result is a copy of an element of an operand: needs no kernel
  kGather,       // as kView, but the indices are data
  kReduction,    // folds the elements along some axes
  kContraction,  // a sum of products: matmul
  kComposite,    // defined in terms of other ops; the decompose pass replaces it by them
  kSequential,   // elements are processed in order: scan, sort, scatter, recurrence
  kRegion,       // a fused group with a body
};
const char* OpClassName(OpClass op_class);

// Properties of ops, so that passes need not test for particular ops.
enum AlgebraBits : uint32_t {
  kNoAlgebra = 0,
  kCommutative = 1u << 0,  // f(a, b) == f(b, a)
  kAssociative = 1u << 1,  // exactly for integers, up to rounding for floats
  kIdempotent = 1u << 2,   // f(f(x)) == f(x)
  kInvolution = 1u << 3,   // f(f(x)) == x
  kExpensive = 1u << 4,    // a transcendental function: do not compute it twice to save a load
  kActivation = 1u << 5,   // a nonlinearity as it stands between the layers of a network
  kFolds = 1u << 6,        // a kGather op whose elements each combine many elements of operand 0
};

// An attribute of an op; its nodes have no attributes but those that are declared. `kind` is int,
// float, text, ints, floats, dims or dtype, as the alternatives of Attribute; or number (int or
// float); or the allowed words of a text: "none|tanh".
struct AttributeSpec {
  const char* name;
  const char* kind;
  bool optional = false;
};

// Input of type inference. Error messages name no place ("axis is 3, but the rank is 2"); callers
// add it.
struct InferContext {
  OpKind kind;
  ArrayRef<const TensorType*> operands;  // null where an optional operand is absent
  const Attributes& attributes;
  const Ranges& ranges;

  const TensorType& operand(int i) const { return *operands[i]; }
  bool has_operand(int i) const {
    return i < static_cast<int>(operands.size()) && operands[i] != nullptr;
  }
  int64_t Int(const std::string& name) const { return std::get<int64_t>(attributes.at(name)); }
  const std::vector<int64_t>& Ints(const std::string& name) const {
    return std::get<std::vector<int64_t>>(attributes.at(name));
  }
  const Exprs& Dims(const std::string& name) const { return std::get<Exprs>(attributes.at(name)); }
};
using InferResult = Result<std::vector<TensorType>>;

// NumPy broadcasting of symbolic shapes. Dims that are not equal expressions are an error unless
// one of them is 1.
Result<Shape> BroadcastShapes(ArrayRef<Shape> shapes);
// The index of the operand element that corresponds to element `index` of a broadcast result.
Exprs BroadcastIndex(ArrayRef<Expr> index, ShapeRef operand_shape);

// A scalar in a kernel: a local variable, an element of an array, or a literal.
struct Scalar {
  CExpr value;
  Dtype dtype = Dtype::kF32;
  // Its text, for use as an operand in a formula.
  std::string text() const { return value.ToOperandString(); }
};

// The interface through which an op's Lower describes how ONE element of its result is computed.
// Code generation (which writes statements) and fusion legality checks (which only watch what is
// loaded where) implement the same interface, so the two cannot disagree.
class LowerContext {
 public:
  virtual ~LowerContext() = default;
  const Node& node() const { return *node_; }
  const Exprs& index() const { return index_; }  // the element wanted, in the result's coordinates
  int result_number() const { return result_number_; }
  virtual const Ranges& ranges() const = 0;

  // Loads the element of an operand at `index`, in the operand's coordinates.
  virtual Scalar Load(int operand, ArrayRef<Expr> index) = 0;
  // A C expression that points to the elements of an operand, which must be a constant.
  virtual std::string Array(int operand) = 0;
  // Assigns `c_expression` of `dtype` to a local variable that is named after the result, or
  // `name`. Ops write formulas as text; kernels hold them as trees.
  virtual Scalar Let(const std::string& c_expression, Dtype dtype,
                     const std::string& name = "") = 0;
  // Copies a file of codegen_templates/device ("gelu.cuh") into the kernel, once, so that
  // expressions may call its functions.
  virtual void Use(const std::string& device_file) = 0;
  // The value of `then` if `position` < `limit`, else of `otherwise`; only the chosen one is
  // evaluated.
  virtual Scalar SelectBelow(const Expr& position, const Expr& limit, Dtype dtype,
                             function_ref<Scalar()> then, function_ref<Scalar()> otherwise) = 0;
  // Converts data that was loaded from element `position` of operand `operand` into an index:
  // negative values count from the end (`extent`); an out-of-range value raises the call's index
  // error, and element 0 is used instead.
  virtual Expr IndexFromData(const Scalar& data, const Expr& extent, int operand,
                             ArrayRef<Expr> position) = 0;
  // The same for a slot: an index into the first axis of operand `bank`, or -1 for none. Any other
  // out-of-range value raises the index error and counts as none. The result is -1 for none, and
  // nothing may then be read through it.
  virtual Expr SlotFromData(const Scalar& data, int operand, ArrayRef<Expr> position, int bank) = 0;
  // Where to read row `row` of a table that operand `cache` caches (row_cache.h), in rows from the
  // address that the kernel is given for the table. With a cache that may lie outside the table's
  // own rows.
  virtual Expr PlaceOfCachedRow(const Expr& row, int cache) = 0;
  // Converts an index expression to data of an integer dtype (for Range, ArgMax, EyeLike, ...).
  virtual Scalar DataFromIndex(const Expr& index, Dtype dtype) = 0;
  // Folds `element(k)` over first <= k < last in a loop, as a reduction of kind `how` does. The
  // bounds are i64 data within 0..extent. If `side_by_side`, the elements of consecutive k lie side
  // by side in memory, so that a CPU folds them in SIMD lanes.
  virtual Scalar FoldRange(OpKind how, Dtype dtype, const Scalar& first, const Scalar& last,
                           const Expr& extent, function_ref<Scalar(const Expr& k)> element,
                           bool side_by_side = false) = 0;

 protected:
  const Node* node_ = nullptr;
  Exprs index_;
  int result_number_ = 0;
};

// The functions of an op. A member that does not apply to the op's class is null; op_def.cc checks
// the combinations.
struct OpFunctions {
  std::vector<AttributeSpec> attributes;  // those of its nodes; import fills in defaults
  // Null if no ONNX op is imported as this op.
  Result<void> (*import)(ImportContext&) = nullptr;
  InferResult (*infer)(const InferContext&) = nullptr;  // every op
  // Every op but constants, regions and kComposite, which is checked through its parts.
  Result<void> (*reference)(ReferenceContext&) = nullptr;
  Scalar (*lower)(LowerContext&) = nullptr;  // kPointwise, kView, kGather
  // kComposite, and ops that some targets have no code for: gives one value per result.
  Result<ValueList> (*decompose)(const Node&, Builder&) = nullptr;
};

struct OpDef {
  OpKind kind;
  const char* text;      // spelling in the IR
  const char* onnx;      // ONNX op types that are imported as it, comma separated; "" for none
  const char* operands;  // "2", "1..3", "1.." : how many
  OpClass op_class;
  uint32_t algebra;
  OpFunctions functions;
};

const OpDef& GetOpDef(OpKind kind);
inline bool Folds(const Node& node) { return (GetOpDef(node.kind).algebra & kFolds) != 0; }
const OpDef* FindOpByText(std::string_view text);
// The op as which an ONNX op type of the default domain is imported, or null.
const OpDef* FindOpByOnnx(std::string_view onnx_op_type);
const std::vector<OpDef>& AllOps();

// Translates one ONNX node into IR ops.
using ImportFunction = Result<void> (*)(ImportContext&);
// How an op type of the default domain is imported: as an op of the IR, or as an expansion into
// several (expansion_list.def); null if fusec has neither.
ImportFunction FindImport(std::string_view onnx_op_type);
// The ONNX op types that are expansions, sorted.
const std::vector<std::string>& AllExpansions();
#define FUSEC_EXPANSION(Name) Result<void> Import##Name(ImportContext&);
#include "compiler/ir/expansion_list.def"
#undef FUSEC_EXPANSION

// Each row of op_list.def needs a definition in compiler/ops, `struct AddOp {...};
// FUSEC_DEFINE_OP(Add)` (define_op.h); a missing one is a link error.
#define FUSEC_OP(Kind, text, onnx, operands, Class, algebra) OpFunctions Kind##Functions();
#include "compiler/ir/op_list.def"
#include "compiler/support/adt.h"
#undef FUSEC_OP

}  // namespace fusec
