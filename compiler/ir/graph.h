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
  std::string name;  // unique within its graph; the tensor's ONNX name made an identifier
  TensorType type;
  Node* producer = nullptr;  // null for graph inputs
  int result_index = 0;
};

using ValueList = SmallVector<Value*, 4>;
// Looked up, never walked through in order: that is the order of addresses.
using NodeSet = SmallPtrSet<const Node*, 16>;
using ValueSet = SmallPtrSet<const Value*, 16>;

// Structural parameters of a node. Shapes are lists of symbolic dims.
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, Exprs, Dtype>;
using Attributes = std::map<std::string, Attribute>;

// Where a node came from, kept through every pass; a node made from several keeps them all.
struct Origin {
  std::string onnx_node;    // "/top/top.0/Gemm"
  std::string onnx_op;      // "Gemm"
  std::string module_path;  // "top.0", if the exporter wrote it
  std::string source_line;  // "workloads.py:51", if the exporter wrote it
  bool operator==(const Origin&) const = default;
};
using Provenance = std::vector<Origin>;

// One operation. An optional operand that is absent is null. Attributes of a node are complete:
// defaults are filled in by import.
class Node {
 public:
  OpKind kind;
  ValueList operands;
  SmallVector<std::unique_ptr<Value>, 1> results;
  Attributes attributes;
  Provenance provenance;
  TensorData constant;        // payload of kConstant
  std::string constant_hash;  // of kConstant; set even where the payload was not loaded
  // Of kConstant: how it came about (compiler/ir/derivation.h); null where nobody follows that.
  std::shared_ptr<Derivation> derivation;
  // Of kRegion: its unfused form, inputs matching the operands one to one.
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

// A copy of a node, its results and its body included, whose operands are what `operand_of` gives
// for each that is there. The bytes of constants are shared.
std::unique_ptr<Node> CopyNode(const Node& node, function_ref<Value*(Value*)> operand_of);

// Whether a value is a constant of the model, which nothing writes. False of null.
bool IsConstant(const Value* value);
// The data of a constant, for whatever it decides; null of other values, where only the constant's
// hash is known, and of constants that get other values later. The constant's derivation remembers
// that its data were looked at.
const TensorData* Payload(const Value* value);
// The same of these, too: for what computes with the data and decides nothing by them.
const TensorData* StoredData(const Value* value);

// Attribute of constants that get other values later (--updatable): a name that no other has, so
// that no two are one. What is computed from them is updatable as well.
inline constexpr const char* kUpdatable = "updatable";
bool IsUpdatable(const Value* value);

// A named size that is unknown until run time, and the range the user promised for it.
struct DimSymbol {
  std::string name;
  int64_t low = 1;
  int64_t high = 65536;
  bool operator==(const DimSymbol&) const = default;
};

// An axis of an output whose size only run-time data tell: the output's type has room for the most
// that it can be.
struct RunTimeSize {
  int output = 0;
  int axis = 0;
  bool operator==(const RunTimeSize&) const = default;
};

// A function of tensors: inputs, nodes in execution order (every operand is defined before it is
// used), outputs.
class Graph {
 public:
  std::string name;
  std::vector<DimSymbol> symbols;
  std::vector<std::unique_ptr<Value>> inputs;
  std::vector<std::unique_ptr<Node>> nodes;
  ValueList outputs;
  std::vector<std::string> output_names;  // as the user calls them, one per output or none at all
  std::vector<std::string> input_names;   // as the user calls them, one per input or none at all
  // Where there are any, the last output is an i64 vector that no user asked for: element k is the
  // true size of the axis that run_time_sizes[k] names. The elements of the result come first in
  // the output, row-major by its true dims; what is behind them may be anything.
  std::vector<RunTimeSize> run_time_sizes;
  std::map<std::string, std::string> metadata;  // "opset", "ir_version", "producer", "file"

  Value* AddInput(std::string value_name, TensorType type);
  // As the user calls them, or by the value where the graph was given no such names.
  const std::string& InputName(size_t i) const;
  const std::string& OutputName(size_t i) const;
  // How many outputs the model has: all but the run-time sizes.
  size_t model_output_count() const { return outputs.size() - (run_time_sizes.empty() ? 0 : 1); }
  Ranges SymbolRanges() const;
  // A name not yet used by any value of this graph: `wanted` itself, or with a number behind it.
  std::string UniqueName(const std::string& wanted) const;
  // Gives `value`, which is in the graph, a name like `wanted` that no other value has.
  void Rename(Value* value, const std::string& wanted);
  // For the time in which a graph only grows: UniqueName then looks into a table instead of at all
  // values, and gives no name a second time.
  void RememberNames();
  void ForgetNames() { names_.reset(); }

  // How often each value is used as an operand or output, by value. Not for printing: keyed by
  // pointer.
  DenseMap<const Value*, int> CountUses() const;
  void ReplaceAllUses(const Value* from, Value* to);
  std::unique_ptr<Graph> Clone() const;

 private:
  std::unique_ptr<NameTable> names_;
};

// Appends nodes to a graph (or inserts before a place in it), inferring result types through the op
// table.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph), insert_at_(graph.nodes.size()) {}
  Builder(Graph& graph, size_t insert_at) : graph_(graph), insert_at_(insert_at) {}

  size_t insert_at() const { return insert_at_; }
  void set_provenance(Provenance provenance) { provenance_ = std::move(provenance); }
  const Provenance& provenance() const { return provenance_; }
  Graph& graph() { return graph_; }

  // Fails where the op's Infer rejects the operands. Result names come from `name_hint`, or the
  // op's text.
  Result<Node*> Add(OpKind kind, ArrayRef<Value*> operands, Attributes attributes = {},
                    const std::string& name_hint = "");
  // The same for ops with one result that are correct by construction; a rejection is our bug.
  Value* Make(OpKind kind, ArrayRef<Value*> operands, Attributes attributes = {},
              const std::string& name_hint = "");
  Value* Constant(TensorData data, const std::string& name_hint = "constant");
  Value* Scalar(Dtype dtype, double value);
  // A fused group: its results have the names and types of the body's outputs.
  Node* Region(ArrayRef<Value*> operands, std::unique_ptr<Graph> body, Attributes attributes);

 private:
  Node* Insert(OpKind kind, ArrayRef<Value*> operands, Attributes attributes);
  void AddResult(Node& node, const std::string& name_hint, TensorType type);

  Graph& graph_;
  size_t insert_at_;
  Provenance provenance_;
};

// IR text. `parse(print(g)) == g`, payloads of big constants aside: those print shape and hash, and
// the parser asks `payloads` for the bytes (by hash) or leaves them out.
std::string Print(const Graph& graph);
// Whether the text has all elements of a constant.
bool PrintsElements(const Node& constant);
std::string PrintNode(const Node& node);
using PayloadLookup = std::function<std::optional<TensorData>(const std::string& hash)>;
Result<std::unique_ptr<Graph>> Parse(std::string_view text,
                                     const PayloadLookup& payloads = nullptr);
bool Equal(const Graph& a, const Graph& b);

// What is wrong with the graph, if anything: uses before definition, duplicate names, types that
// Infer does not give, bodies that do not match their region, constants without payload or hash.
Result<void> Verify(const Graph& graph);

}  // namespace fusec
