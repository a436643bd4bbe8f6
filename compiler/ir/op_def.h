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

// How an op takes part in fusion. The class belongs to the op, the decision to the passes.
enum class OpClass : uint8_t {
  kConstant,     // data known at compile time
  kPointwise,    // one element of each (broadcast) operand makes one element of the result
  kView,         // an element of the result IS an element of an operand: costs no kernel
  kGather,       // as kView, but where to look is data
  kReduction,    // folds the elements along some axes
  kContraction,  // a sum of products: matmul
  kComposite,    // defined by other ops; the decompose pass replaces it
  kSequential,   // elements depend on each other in order: scan, sort, scatter, recurrence; a kernel of its own
  kRegion,       // a fused group with a body
};
const char* OpClassName(OpClass op_class);

// Facts that passes ask for instead of names.
enum AlgebraBits : uint32_t {
  kNoAlgebra = 0,
  kCommutative = 1u << 0,  // f(a, b) == f(b, a)
  kAssociative = 1u << 1,  // exactly for integers, up to rounding for floats
  kIdempotent = 1u << 2,   // f(f(x)) == f(x)
  kInvolution = 1u << 3,   // f(f(x)) == x
  kExpensive = 1u << 4,    // a transcendental function: do not compute it twice to save a load
  kActivation = 1u << 5,   // what stands between a network's layers so that two are more than one
  kFolds = 1u << 6,        // of kGather: an element of the result folds many of the first operand
};

// An attribute that a node of an op has; it has no others. `kind` is int, float, text, ints,
// floats, dims or dtype, as the alternatives of Attribute; or number (int or float), or the words
// that a text may be: "none|tanh".
struct AttributeSpec {
  const char* name;
  const char* kind;
  bool optional = false;
};

// Types of the results from types of the operands. Errors are plain ("axis is 3, but the rank is 2"); callers add the place.
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

// NumPy broadcasting of symbolic shapes. Two different symbols are contradictory unless one side is 1.
Result<Shape> BroadcastShapes(ArrayRef<Shape> shapes);
// The element of an operand of `operand_shape` that meets element `index` of a broadcast result.
Exprs BroadcastIndex(ArrayRef<Expr> index, ShapeRef operand_shape);

// What a kernel has a scalar as: a local, an element of an array, or a literal.
struct Scalar {
  CExpr value;
  Dtype dtype = Dtype::kF32;
  // As an operand in an op's text.
  std::string text() const { return value.ToOperandString(); }
};

// How an op says what makes ONE element of its result. The same description serves code generation (which writes statements) and
// fusion legality (which only watches what is loaded where), so the two cannot disagree.
class LowerContext {
 public:
  virtual ~LowerContext() = default;
  const Node& node() const { return *node_; }
  const Exprs& index() const { return index_; }  // the element wanted, in the result's coordinates
  int result_number() const { return result_number_; }
  virtual const Ranges& ranges() const = 0;

  // The element of an operand at `index`, in the operand's coordinates.
  virtual Scalar Load(int operand, ArrayRef<Expr> index) = 0;
  // The C expression of a pointer to the elements of an operand that is a constant.
  virtual std::string Array(int operand) = 0;
  // `c_expression` of `dtype` as a scalar with a name of its own: the result's, or `name`. Ops
  // write their formulas as text; a kernel has them as trees from here on.
  virtual Scalar Let(const std::string& c_expression, Dtype dtype,
                     const std::string& name = "") = 0;
  // Copies a file of codegen_templates/device ("gelu.cuh") into the kernel, once, so that expressions may call what it defines.
  virtual void Use(const std::string& device_file) = 0;
  // The scalar of `then` where `position` < `limit`, of `otherwise` elsewhere; only the chosen one is evaluated.
  virtual Scalar SelectBelow(const Expr& position, const Expr& limit, Dtype dtype,
                             function_ref<Scalar()> then, function_ref<Scalar()> otherwise) = 0;
  // Makes an index out of data that was loaded from element `position` of operand `operand`: negative values count from the end
  // (`extent`), values outside raise the call's index error and read element 0 instead.
  virtual Expr IndexFromData(const Scalar& data, const Expr& extent, int operand,
                             ArrayRef<Expr> position) = 0;
  // The same of a slot, which is a place of the first axis of operand `bank`, or -1 for none: other values outside raise the error,
  // and count as none. The expression is -1 there, and what reads through it must not be evaluated then.
  virtual Expr SlotFromData(const Scalar& data, int operand, ArrayRef<Expr> position, int bank) = 0;
  // Where `row` of a table lies that operand `cache` caches (row_cache.h); not a row of the table, but as far from its beginning.
  virtual Expr PlaceOfCachedRow(const Expr& row, int cache) = 0;
  // An index expression as data of an integer dtype (for Range, ArgMax, EyeLike, ...).
  virtual Scalar DataFromIndex(const Expr& index, Dtype dtype) = 0;
  // Folds `element(k)` over first <= k < last in a loop, as a reduction of kind `how` would; the bounds are i64 data that lie in
  // 0..extent.
  virtual Scalar FoldRange(OpKind how, Dtype dtype, const Scalar& first, const Scalar& last,
                           const Expr& extent, function_ref<Scalar(const Expr& k)> element) = 0;

 protected:
  const Node* node_ = nullptr;
  Exprs index_;
  int result_number_ = 0;
};

// What an op does. A member that does not apply to an op's class is null; op_registry.cc checks the combinations.
struct OpFunctions {
  std::vector<AttributeSpec> attributes;  // of every node, with defaults filled in
  Result<void> (*import)(ImportContext&) = nullptr;              // null: the op never comes from ONNX by itself
  InferResult (*infer)(const InferContext&) = nullptr;           // every op
  Result<void> (*reference)(ReferenceContext&) = nullptr;        // every op but kComposite (judged through its parts)
  Scalar (*lower)(LowerContext&) = nullptr;                      // kPointwise, kView, kGather
  Result<ValueList> (*decompose)(const Node&, Builder&) = nullptr;  // kComposite: one value per result
};

struct OpDef {
  OpKind kind;
  const char* text;      // spelling in the IR
  const char* onnx;      // ONNX op types that import through it, comma separated; "" for none
  const char* operands;  // "2", "1..3", "1.." : how many
  OpClass op_class;
  uint32_t algebra;
  OpFunctions functions;
};

const OpDef& GetOpDef(OpKind kind);
inline bool Folds(const Node& node) { return (GetOpDef(node.kind).algebra & kFolds) != 0; }
const OpDef* FindOpByText(std::string_view text);
// The row through which an op type of the default domain is imported, or null.
const OpDef* FindOpByOnnx(std::string_view onnx_op_type);
const std::vector<OpDef>& AllOps();

// Writes one ONNX node down in ops of the IR.
using ImportFunction = Result<void> (*)(ImportContext&);
// How an op type of the default domain is imported: as an op of the IR, or as an expansion into
// several (expansion_list.def); null if fusec has neither.
ImportFunction FindImport(std::string_view onnx_op_type);
// The ONNX op types that are expansions, sorted.
const std::vector<std::string>& AllExpansions();
#define FUSEC_EXPANSION(Name) Result<void> Import##Name(ImportContext&);
#include "compiler/ir/expansion_list.def"
#undef FUSEC_EXPANSION

// In a family file: `struct AddOp {...}; FUSEC_DEFINE_OP(Add)` (define_op.h); a row without a definition does not link.
#define FUSEC_OP(Kind, text, onnx, operands, Class, algebra) OpFunctions Kind##Functions();
#include "compiler/ir/op_list.def"
#include "compiler/support/adt.h"
#undef FUSEC_OP

}  // namespace fusec
