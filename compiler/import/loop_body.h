#pragma once

#include <map>
#include <string>

#include "compiler/import/graph_import.h"

namespace fusec {

// A bound of the bag (range of rows) of iteration i: element i + shift of `offsets`, or the number
// of rows.
struct BagBound {
  Value* offsets = nullptr;  // null: the bound is the number of rows
  int64_t shift = 0;
  bool operator==(const BagBound&) const = default;
};

// What a tensor in a loop's body is as a function of the iteration number i.
struct LoopTerm {
  enum class Kind {
    kInvariant,  // `value` in every iteration
    kCounter,    // i + shift, a scalar or one element
    kElement,    // element i + shift of the 1-D tensor `value`, a scalar or one element
    kRows,       // rows first..last - 1 of `value`
    kPooled,     // such rows reduced to one
    kRest,       // limit - first: the number of rows from `first` on
    kIsEmpty,    // first == last
    kHasRest,    // rest > 0
    kIsAt,       // i == limit
    kGoesOn,     // i + shift < limit
    kSequence,   // the sequence that the loop carries
    kInserted,   // that sequence with a pooled row appended
  };
  // How rows are pooled. kSumOverRest is a sum divided by kRest.
  enum class Mode { kSum, kMean, kMax, kSumOverRest };

  Kind kind = Kind::kInvariant;
  Value* value = nullptr;
  int64_t shift = 0;
  BagBound first, last;
  Expr limit;
  Mode mode = Mode::kSum;
  bool keepdims = false;
  bool zero_if_empty = false;
  bool last_to_end = false;     // kRows, kPooled: the last iteration takes all rows from `first` on
  bool last_over_rest = false;  // kPooled: the last iteration divides by kRest
};
using LoopTerms = std::map<std::string, LoopTerm>;

// Interprets the body of a loop that pools rows between offsets, as nn.EmbeddingBag is exported.
// Loop-invariant nodes, and nodes that process each row independently, become nodes of the graph
// around the loop and apply to all rows at once.
class LoopBody {
 public:
  LoopBody(ImportState& state, const Expr& trips) : state_(state), trips_(trips) {}

  // Adds every tensor of `graph` to `terms`, and those that have a value also to `scope`. An error
  // with an empty message has been reported already.
  Result<void> Run(onnx::GraphProto& graph, Scope& scope, LoopTerms& terms);

 private:
  using Kind = LoopTerm::Kind;
  using Mode = LoopTerm::Mode;
  struct Inputs {
    std::vector<LoopTerm> terms;
    std::vector<bool> given;
    bool Is(size_t i, Kind kind) const {
      return i < terms.size() && given[i] && terms[i].kind == kind;
    }
  };

  Result<LoopTerm> Evaluate(onnx::NodeProto& node, Scope& scope, LoopTerms& terms);
  Result<LoopTerm> EvaluateOne(onnx::NodeProto& node, const Inputs& in, Scope& scope);
  Result<LoopTerm> Import(onnx::NodeProto& node, Scope& scope);
  Result<LoopTerm> RowByRow(onnx::NodeProto& node, const Inputs& in, Scope& scope);
  Result<LoopTerm> Arithmetic(onnx::NodeProto& node, const Inputs& in, Scope& scope);
  Result<LoopTerm> Compare(onnx::NodeProto& node, const Inputs& in);
  Result<LoopTerm> Slice(onnx::NodeProto& node, const Inputs& in);
  Result<LoopTerm> Pool(onnx::NodeProto& node, const Inputs& in);
  Result<LoopTerm> EvaluateIf(onnx::NodeProto& node, Scope& scope, LoopTerms& terms);
  Result<LoopTerm> Join(const LoopTerm& condition, LoopTerm then, LoopTerm otherwise);
  Result<LoopTerm> Branch(onnx::NodeProto& node, const std::string& which, const Scope& scope,
                          const LoopTerms& terms);

  // The value of a loop-invariant term of one element; nullopt for other terms.
  std::optional<Expr> Number(const LoopTerm& term) const;
  std::optional<BagBound> BoundOf(const LoopTerm& term, const Value* rows) const;

  ImportState& state_;
  Expr trips_;
};

}  // namespace fusec
