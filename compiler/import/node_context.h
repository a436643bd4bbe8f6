#pragma once

#include <onnx/onnx_pb.h>

#include <map>

#include "compiler/import/constant_values.h"
#include "compiler/import/external_data.h"
#include "compiler/import/import_context.h"
#include "compiler/import/problems.h"
#include "compiler/import/run_time_counts.h"

namespace fusec {

class WeightMatch;

// A sequence of tensors, which exists only while a graph is imported.
struct Sequence {
  ValueList tensors;
  // Set for the result of a loop that appends rows: all rows, concatenated. `tensors` is then
  // empty.
  Value* rows = nullptr;
};

// What a name stands for while a graph is imported. A null value is a tensor whose node failed.
using Named = std::variant<Value*, Sequence>;

// A symbol table of the tensors and sequences that are known by name during import. Lookups fall
// back to the enclosing graph's scope.
class Scope {
 public:
  explicit Scope(const Scope* outer = nullptr) : outer_(outer) {}
  void Define(const std::string& name, Named named) { names_[name] = std::move(named); }
  bool Knows(const std::string& name) const { return Lookup(name) != nullptr; }
  // nullopt if the name is unknown, or if its node failed.
  std::optional<Named> Find(const std::string& name) const {
    const Named* found = Lookup(name);
    const bool failed = found != nullptr && found->index() == 0 && TensorOf(found) == nullptr;
    return found == nullptr || failed ? std::nullopt : std::optional(*found);
  }
  // Null if the name is unknown or names a sequence.
  Value* Get(const std::string& tensor) const { return TensorOf(Lookup(tensor)); }
  Value* GetOwn(const std::string& tensor) const {
    const auto found = names_.find(tensor);
    return found == names_.end() ? nullptr : TensorOf(&found->second);
  }
  // Null if the name is unknown or names a tensor.
  const Sequence* GetSequence(const std::string& name) const {
    const Named* found = Lookup(name);
    return found == nullptr ? nullptr : std::get_if<Sequence>(found);
  }

 private:
  static Value* TensorOf(const Named* named) {
    Value* const* value = named == nullptr ? nullptr : std::get_if<Value*>(named);
    return value == nullptr ? nullptr : *value;
  }
  const Named* Lookup(const std::string& name) const {
    const auto found = names_.find(name);
    if (found != names_.end()) return &found->second;
    return outer_ == nullptr ? nullptr : outer_->Lookup(name);
  }

  const Scope* outer_;
  std::map<std::string, Named> names_;
};

// State shared by all nodes of one import.
struct ImportState {
  ImportState(const std::string& path, Graph& graph)
      : graph(graph), builder(graph), external(path), problems(path) {}

  Graph& graph;
  Builder builder;
  Ranges ranges;
  std::map<std::string, int64_t> opsets;  // by domain; ai.onnx is ""
  ExternalData external;
  Problems problems;
  std::vector<std::string> warnings;
  ConstantValues constants{ranges};
  RunTimeCounts counts;
  int64_t inlined_nodes = 0;  // nodes of inlined branches and loop bodies, counted once per copy
  WeightMatch* weight_match = nullptr;                  // replaces initializers, if not null
  std::unordered_map<const Value*, NarrowType> narrow;  // values whose ONNX type is narrow
  std::map<std::string, std::string> constant_names;    // graph's name -> model's name
};

// The elements of an integer tensor, or of a float tensor that holds whole numbers, as expressions
// of symbols; nullopt if they depend on run-time data.
std::optional<Exprs> KnownContents(const Value* value, ImportState& state);
// The tensor that a value holds, if it depends neither on run-time data nor on a symbol.
std::optional<TensorData> KnownTensor(const Value* value, ImportState& state);

// The ImportContext of one ONNX node.
class NodeContext : public ImportContext {
 public:
  NodeContext(ImportState& state, const Scope& scope, const onnx::NodeProto& node);
  // Converts the attributes that are tensors; must come before the op's Import.
  Result<void> ReadTensors();

  const std::string& onnx_op() const override { return node_.op_type(); }
  int opset() const override { return static_cast<int>(state_.opsets.at("")); }
  int input_count() const override { return node_.input_size(); }
  Value* input(int i) const override;
  int output_count() const override { return node_.output_size(); }
  bool output_used(int i) const override;

  bool Has(const std::string& attribute) const override { return Find(attribute) != nullptr; }
  int64_t Int(const std::string& attribute, int64_t otherwise) const override;
  double Float(const std::string& attribute, double otherwise) const override;
  std::string String(const std::string& attribute, const std::string& otherwise) const override;
  std::vector<int64_t> Ints(const std::string& attribute) const override;
  std::vector<double> Floats(const std::string& attribute) const override;
  std::vector<std::string> Strings(const std::string& attribute) const override;
  std::optional<TensorData> Tensor(const std::string& attribute) const override;
  Result<Dtype> Type(const std::string& attribute, Dtype otherwise) const override;
  std::optional<NarrowType> Narrow(const std::string& attribute) const override;
  std::optional<NarrowType> Narrow(int i) const override;

  Result<TensorData> ConstantInput(int i, const std::string& what) const override;
  Result<std::vector<int64_t>> ConstantInts(int i, const std::string& what) const override;
  Result<Exprs> SymbolicInts(int i, const std::string& what) const override;
  std::optional<TensorData> TryConstant(int i) const override;
  std::optional<TensorData> TryConstant(const Value* value) const override;

  Expr RunTimeCount(Value* lengths, int number, const Expr& bound) override {
    return state_.counts.Of(lengths, number, bound, state_.graph, state_.ranges);
  }

  Builder& builder() override { return state_.builder; }
  const Ranges& ranges() const override { return state_.ranges; }
  void SetOutput(int i, Value* value) override { outputs_[i] = value; }
  void SetOutput(int i, Value* value, const NarrowType& type) override {
    outputs_[i] = value;
    state_.narrow.insert_or_assign(value, type);
  }
  tl::unexpected<Error> Fail(const std::string& message) const override;
  void Warn(const std::string& message) override;

  // Null for an output that the op's Import did not set.
  Value* output(int i) const { return outputs_[i]; }

 private:
  const onnx::AttributeProto* Find(const std::string& name) const;
  tl::unexpected<Error> NotConstant(int i, const std::string& what) const;

  ImportState& state_;
  const Scope& scope_;
  const onnx::NodeProto& node_;
  std::map<std::string, TensorData> tensors_;  // by attribute
  ValueList outputs_;
};

}  // namespace fusec
