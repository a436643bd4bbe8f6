#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/index/expr.h"
#include "compiler/ir/name_table.h"
#include "compiler/ir/op_kind.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/adt.h"

namespace fusec {

class Graph;
class Node;
struct Derivation;

// One SSA value: an input of a graph or a result of a node.
struct Value {
  std::string name;  // unique within its graph; an identifier made from the ONNX name
  TensorType type;
  Node* producer = nullptr;  // null for graph inputs
  int result_index = 0;
};

using ValueList = SmallVector<Value*, 4>;
// For lookups only: iteration order would be the order of addresses, which differs between runs.
using NodeSet = SmallPtrSet<const Node*, 16>;
using ValueSet = SmallPtrSet<const Value*, 16>;

// Structural parameters of a node. Shapes are lists of symbolic dims.
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, Exprs, Dtype>;
using Attributes = std::map<std::string, Attribute>;

// Where a node came from. Origins are kept through every pass; a node that is made from several
// nodes keeps the origins of all of them.
struct Origin {
  std::string onnx_node;    // "/top/top.0/Gemm"
  std::string onnx_op;      // "Gemm"
  std::string module_path;  // "top.0", if the exporter wrote it
  std::string source_line;  // "workloads.py:51", if the exporter wrote it
  bool operator==(const Origin&) const = default;
};
using Provenance = std::vector<Origin>;

// One operation. An absent optional operand is null. Attributes are complete: import fills in the
// defaults.
class Node {
 public:
  OpKind kind;
  ValueList operands;
  SmallVector<std::unique_ptr<Value>, 1> results;
  Attributes attributes;
  Provenance provenance;
  TensorData constant;        // payload of kConstant
  std::string constant_hash;  // of kConstant; set even where the payload was not loaded
  // Of kConstant: how it was made (compiler/ir/derivation.h); null if derivations are not tracked.
  std::shared_ptr<Derivation> derivation;
  // Of kRegion: the fused nodes as a graph, with one input per operand.
  std::unique_ptr<Graph> body;

  Value* result(int i = 0) const { return results[i].get(); }
  Value* operand(int i) const {
    return i < static_cast<int>(operands.size()) ? operands[i] : nullptr;
  }
  template <class T>
  const T& Get(const std::string& attribute) const;  // FUSEC_CHECKs that it is there with that type
  bool Has(const std::string& attribute) const { return attributes.count(attribute) != 0; }
  int64_t Int(const std::string& attribute) const { return Get<int64_t>(attribute); }
  double Float(const std::string& attribute) const { return Get<double>(attribute); }
  const std::vector<int64_t>& Ints(const std::string& attribute) const {
    return Get<std::vector<int64_t>>(attribute);
  }
};

// A copy of a node, its results and its body. operand_of(operand) gives the operands of the copy.
// The bytes of constants are shared.
std::unique_ptr<Node> CopyNode(const Node& node, function_ref<Value*(Value*)> operand_of);

// Whether a value is a constant. False for null.
bool IsConstant(const Value* value);
// The data of a constant, for code whose decisions depend on it. Null for other values, for
// constants of which only the hash is known, and for those that passes must not look into
// (updatable constants, host tables). The constant's derivation records that its data was looked
// at.
const TensorData* Payload(const Value* value);
// The data of any constant whose payload is loaded: for code that computes with it but makes no
// decisions by it.
const TensorData* StoredData(const Value* value);

// Attribute of constants whose values may be replaced after compilation (--updatable). Its value is
// a unique name, so that no two such constants are merged. Constants computed from them are
// updatable as well.
inline constexpr const char* kUpdatable = "updatable";
bool IsUpdatable(const Value* value);

// A named size that is unknown until run time, and the range that the user promised for it.
struct DimSymbol {
  std::string name;
  int64_t low = 1;
  int64_t high = 65536;
  bool operator==(const DimSymbol&) const = default;
};

// An axis of an output whose size is known only at run time. The output's type has the largest
// possible size there.
struct RunTimeSize {
  int output = 0;
  int axis = 0;
  bool operator==(const RunTimeSize&) const = default;
};

// A function of tensors: inputs, nodes in execution order (every operand is defined before it is
// used) and outputs.
class Graph {
 public:
  std::string name;
  std::vector<DimSymbol> symbols;
  std::vector<std::unique_ptr<Value>> inputs;
  std::vector<std::unique_ptr<Node>> nodes;
  ValueList outputs;
  std::vector<std::string> output_names;  // as the user calls them, one per output or none at all
  std::vector<std::string> input_names;   // as the user calls them, one per input or none at all
  // If this is not empty, the last output is an i64 vector that is not an output of the model:
  // element k is the true size of the axis that run_time_sizes[k] names. The valid elements of such
  // an output come first, row-major by its true dims; the contents behind them are undefined.
  std::vector<RunTimeSize> run_time_sizes;
  std::map<std::string, std::string> metadata;  // "opset", "ir_version", "producer", "file"

  Value* AddInput(std::string value_name, TensorType type);
  // The user's name of an input or output, or the name of its value if the graph has no such names.
  const std::string& InputName(size_t i) const;
  const std::string& OutputName(size_t i) const;
  // The number of the model's outputs: all outputs but the vector of run-time sizes.
  size_t model_output_count() const { return outputs.size() - (run_time_sizes.empty() ? 0 : 1); }
  Ranges SymbolRanges() const;
  // A name that no value of this graph has: `wanted`, made an identifier, with a number appended if
  // needed.
  std::string UniqueName(const std::string& wanted) const;
  // Renames `value`, which must be in the graph, to UniqueName(wanted).
  void Rename(Value* value, const std::string& wanted);
  // Between these two calls, UniqueName looks names up in a table instead of scanning all values.
  // In that time the graph may only grow, and a name that was given out is not given out again.
  void RememberNames();
  void ForgetNames() { names_.reset(); }

  // How often each value is used as an operand or output. Do not iterate over it for output: the
  // order is that of addresses.
  DenseMap<const Value*, int> CountUses() const;
  void ReplaceAllUses(const Value* from, Value* to);
  std::unique_ptr<Graph> Clone() const;

 private:
  std::unique_ptr<NameTable> names_;
};

// Adds nodes at the end of a graph or at a position in it, inferring result types through the op
// table.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph), insert_at_(graph.nodes.size()) {}
  Builder(Graph& graph, size_t insert_at) : graph_(graph), insert_at_(insert_at) {}

  size_t insert_at() const { return insert_at_; }
  void set_provenance(Provenance provenance) { provenance_ = std::move(provenance); }
  const Provenance& provenance() const { return provenance_; }
  Graph& graph() { return graph_; }

  // An error if the op's Infer rejects the operands. Results are named after `name_hint`, or else
  // after the op.
  Result<Node*> Add(OpKind kind, ArrayRef<Value*> operands, Attributes attributes = {},
                    const std::string& name_hint = "");
  // The same for an op with one result whose operands are known to be valid; a rejection is a bug
  // in fusec.
  Value* Make(OpKind kind, ArrayRef<Value*> operands, Attributes attributes = {},
              const std::string& name_hint = "");
  Value* Constant(TensorData data, const std::string& name_hint = "constant");
  Value* Scalar(Dtype dtype, double value);
  // Adds a region, that is, a fused group of nodes. Its results have the names and types of the
  // body's outputs.
  Node* Region(ArrayRef<Value*> operands, std::unique_ptr<Graph> body, Attributes attributes);

 private:
  Node* Insert(OpKind kind, ArrayRef<Value*> operands, Attributes attributes);
  void AddResult(Node& node, const std::string& name_hint, TensorType type);

  Graph& graph_;
  size_t insert_at_;
  Provenance provenance_;
};

// IR text. Parse(Print(g)) equals g, except for payloads of big constants: Print writes only their
// shape and hash, and Parse asks `payloads` for the bytes (by hash) or leaves them out.
std::string Print(const Graph& graph);
// Whether the text of a constant lists its elements.
bool PrintsElements(const Node& constant);
std::string PrintNode(const Node& node);
using PayloadLookup = std::function<std::optional<TensorData>(const std::string& hash)>;
Result<std::unique_ptr<Graph>> Parse(std::string_view text,
                                     const PayloadLookup& payloads = nullptr);
bool Equal(const Graph& a, const Graph& b);

// An error if the graph is malformed: uses before definition, duplicate names, types that differ
// from what Infer gives, bodies that do not match their region, constants without payload and hash.
Result<void> Verify(const Graph& graph);

}  // namespace fusec
