#include "compiler/region/block_stages.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/index/variables.h"
#include "compiler/ir/element_sources.h"
#include "compiler/ir/op_def.h"
#include "compiler/region/reducers.h"

namespace fusec {

namespace {

// A view that a stage can store through.
bool IsStorableView(const Node& node) {
  if (node.kind == OpKind::kReshape) return true;
  // The last axis stays in place, so that a warp writes contiguous memory.
  return node.kind == OpKind::kTranspose &&
         node.Ints("perm").back() == node.operand(0)->type.rank() - 1;
}

// Bounds for a product of two matrices in shared memory on tensor cores: large enough that one
// thread per element would read the same data again and again, small enough that operands and sums
// fit.
constexpr int64_t kMostLines = 64, kFewestSums = 128, kDepthStep = 8;
// Bounds for a product by weights, whose sums are computed in pieces of 16 lines and 8 columns.
constexpr int64_t kFewestLines = 16, kFewestColumns = 16, kMostColumns = 512, kMostDepth = 1024;
// A block reads the weights from the L2 cache, and in exchange two matrices per row, with `depth`
// and with `columns` columns, are not written to and read from global memory. This is the most
// weights per element saved with which that pays. On an H100, blocks of 16 lines with 12,288
// weights (3 per element saved) took more than twice as long as separate kernels; blocks of 26 and
// 50 lines (0.9 and 1) took half as long.
constexpr double kWeightsPerSpared = 1.5;

class StageFinder {
 public:
  StageFinder(ArrayRef<const Node*> nodes, function_ref<bool(const Value*)> read_outside,
              const ByTensorCores& by_tensor_cores)
      : nodes_(nodes), read_outside_(read_outside), by_tensor_cores_(by_tensor_cores) {
    for (const Node* node : nodes) {
      inside_.insert(node);
      for (const Value* operand : node->operands) {
        if (!operand) continue;
        auto& list = readers_[operand];
        if (list.empty() || list.back() != node) list.push_back(node);
      }
    }
  }

  std::vector<BlockStage> Find(ShapeRef rows) {
    for (const Node* node : nodes_) {
      const bool by_weights = IsByWeights(*node, rows);
      if (by_weights) stages_[node->result()].weights = node->operand(1);
      if (by_weights || IsForTensorCores(*node, rows))
        stages_[node->result()].by_tensor_cores = true;
      else if (IsReducer(*node))
        AddWithTail(*node, rows);
      if (node->kind == OpKind::kConcat) stages_[node->result()];
      if (node->kind == OpKind::kMatMul) {
        for (const Value* operand : node->operands) AddOperand(operand, rows);
      }
      const bool expensive = (GetOpDef(node->kind).algebra & kExpensive) != 0;
      if (expensive && readers_[node->result()].size() > 1) stages_[node->result()];
      for (const auto& result : node->results) {
        if (read_outside_(result.get())) AddResult(result.get());
      }
    }
    for (const Node* node : nodes_) {
      for (size_t i = 0; node->kind == OpKind::kConcat && i < node->operands.size(); ++i)
        AddPart(node->result(), i);
    }
    return InOrder(rows);
  }

 private:
  // Whether the node is left x right^T of two matrices per row that this program computes.
  bool IsForTensorCores(const Node& node, ShapeRef rows) const {
    if (!by_tensor_cores_.own_matrices || node.kind != OpKind::kMatMul ||
        node.Int("transpose_a") != 0 || node.Int("transpose_b") != 1 ||
        read_outside_(node.result()))
      return false;
    const auto extent = [&](const Value* value, size_t axis) {
      return value->type.shape[rows.size() + axis].AsConstant().value_or(0);
    };
    const auto is_matrix = [&](const Value* value) {
      return HasRows(value, rows) && value->type.shape.size() == rows.size() + 2 &&
             extent(value, 0) > 0 && extent(value, 0) <= kMostLines && extent(value, 1) > 0 &&
             extent(value, 1) <= kMostLines;
    };
    const auto is_made_here = [&](const Value* value) {
      return is_matrix(value) && IsMadeHere(value);
    };
    const Value* sums = node.result();
    return is_matrix(sums) && extent(sums, 0) * extent(sums, 1) >= kFewestSums &&
           DtypeBytes(sums->type.dtype) <= 4 && IsFloat(sums->type.dtype) &&
           is_made_here(node.operand(0)) && is_made_here(node.operand(1)) &&
           extent(node.operand(0), 1) % kDepthStep == 0;
  }

  // Whether the node is left x weights^T, where left is a matrix per row that this program
  // computes.
  bool IsByWeights(const Node& node, ShapeRef rows) const {
    return by_tensor_cores_.is_weights && FindSharedProduct(node, rows) &&
           by_tensor_cores_.is_weights(node.operand(1)) && !read_outside_(node.result()) &&
           IsMadeHere(node.operand(0));
  }

  bool IsMadeHere(const Value* value) const {
    const Node* producer = value->producer;
    return producer && inside_.count(producer) &&
           (producer->kind == OpKind::kConcat ||
            GetOpDef(producer->kind).op_class != OpClass::kView);
  }

  // Makes a stage of the last value of the chain that alone reads the reducer's result and computes
  // each element from one element.
  void AddWithTail(const Node& reducer, ShapeRef rows) {
    const Value* value = reducer.result();
    const Value* last = value;
    std::vector<const Node*> chain;
    while (!read_outside_(value) && readers_[value].size() == 1) {
      const Node& reader = *readers_[value][0];
      if (!ReadsOnce(reader, value, rows)) break;
      value = reader.result();
      chain.push_back(&reader);
      if (HasRows(value, rows) && StayInRows(chain, rows)) last = value;
      if (reader.kind == OpKind::kConcat) break;
    }
    stages_[last].inlined.push_back(&reducer);
  }

  // Whether an element of the last of a chain of nodes comes from the row of the first one's
  // operand that has its own number. Shapes alone do not tell, since axes of equal extents may
  // change places.
  static bool StayInRows(ArrayRef<const Node*> chain, ShapeRef rows) {
    // A concatenation, which is the last one, joins columns.
    if (!chain.empty() && chain.back()->kind == OpKind::kConcat) chain = chain.drop_back();
    const auto row_count = static_cast<int64_t>(rows.size());
    const auto may_move = [&](const Node* node) {
      switch (node->kind) {
        case OpKind::kTranspose: {
          const std::vector<int64_t>& perm = node->Ints("perm");
          for (int64_t axis = 0; axis < row_count && axis < static_cast<int64_t>(perm.size());
               ++axis)
            if (perm[axis] != axis) return true;
          return false;
        }
        case OpKind::kReshape:
          return false;
        default:
          return GetOpDef(node->kind).op_class != OpClass::kPointwise;
      }
    };
    if (std::none_of(chain.begin(), chain.end(), may_move)) return true;
    Ranges ranges;  // without elements there is nothing to compute
    std::vector<std::string> symbols;
    for (const Node* node : chain) node->result()->type.ElementCount().CollectSymbols(symbols);
    for (const std::string& symbol : symbols) ranges.Set(symbol, 1, DimSymbol().high);
    const Exprs index = AnyIndex(chain.back()->result()->type.shape, ranges);
    Exprs source = index;
    int looked_up = 0;
    const auto any_index = [&](int, ArrayRef<Expr>, const Expr& extent) -> std::optional<Expr> {
      const std::string name = "looked_up_" + std::to_string(looked_up++);
      return SetVariable(ranges, name, 0, extent - 1);
    };
    for (size_t i = chain.size(); i-- > 0;) {
      if (GetOpDef(chain[i]->kind).op_class == OpClass::kPointwise) continue;
      const auto found = ElementSources(*chain[i], 0, source, ranges, any_index);
      if (!found || found->size() != 1 || (*found)[0].operand != 0) return false;
      source = (*found)[0].index;
    }
    return source.size() >= rows.size() &&
           std::equal(index.begin(), index.begin() + row_count, source.begin());
  }

  static bool ReadsOnce(const Node& reader, const Value* value, ShapeRef rows) {
    const OpClass op_class = GetOpDef(reader.kind).op_class;
    if (reader.kind == OpKind::kConcat) return HasRows(reader.result(), rows);
    if (op_class == OpClass::kPointwise) return reader.result()->type.shape == value->type.shape;
    if (op_class != OpClass::kView && op_class != OpClass::kGather) return false;
    return reader.operand(0) == value && reader.kind != OpKind::kExpand &&
           reader.kind != OpKind::kTile && CountAtOne(reader.result()) <= CountAtOne(value);
  }

  // The number of elements if every symbolic dim is 1.
  static int64_t CountAtOne(const Value* value) {
    const Expr count = value->type.ElementCount();
    std::vector<std::string> symbols;
    count.CollectSymbols(symbols);
    Ranges ones;
    for (const std::string& symbol : symbols) ones.Set(symbol, 1, 1);
    return ones.IntervalOf(count).high;
  }

  // Values that a matmul reads many times are computed once, as stages; views and values from
  // outside are read in place.
  void AddOperand(const Value* operand, ShapeRef rows) {
    const Value* base = operand;
    while (!stages_.count(base) && base->producer && inside_.count(base->producer) &&
           base->producer->kind != OpKind::kConcat &&
           GetOpDef(base->producer->kind).op_class == OpClass::kView) {
      base = base->producer->operand(0);
    }
    const bool made_here = base->producer && inside_.count(base->producer);
    if (made_here && HasRows(base, rows)) stages_[base];
  }

  void AddResult(const Value* result) {
    BlockStage::Stored stored{result, {}};
    const Value* base = result;
    while (!stages_.count(base) && inside_.count(base->producer) &&
           IsStorableView(*base->producer) && !(base != result && read_outside_(base))) {
      stored.views.insert(stored.views.begin(), base->producer);
      base = base->producer->operand(0);
      if (!base->producer || !inside_.count(base->producer)) break;
    }
    stages_[base].stored.push_back(stored);
  }

  void AddPart(const Value* concat, size_t place) {
    BlockStage::Part part{concat, place, {}};
    const Value* base = concat->producer->operand(static_cast<int>(place));
    while (!stages_.count(base) && inside_.count(base->producer) &&
           IsStorableView(*base->producer)) {
      part.views.insert(part.views.begin(), base->producer);
      base = base->producer->operand(0);
    }
    auto found = stages_.find(base);
    if (found != stages_.end() && !found->second.by_tensor_cores)
      found->second.parts.push_back(part);
  }

  bool IsReadInside(const Value* value, const BlockStage& stage) const {
    auto found = readers_.find(value);
    if (found == readers_.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(), [&](const Node* reader) {
      // A chain that only leads to a result, or to a part that is written when the value is
      // computed, does not count as a read.
      const auto leads_out = [&](const BlockStage::Stored& stored) {
        return !stored.views.empty() && stored.views[0] == reader && AreReadBy(stored.views, 0);
      };
      const auto leads_on = [&](const BlockStage::Part& part) {
        if (part.views.empty()) return part.concat->producer == reader;
        return part.views[0] == reader && AreReadBy(part.views, 1);
      };
      return std::none_of(stage.stored.begin(), stage.stored.end(), leads_out) &&
             std::none_of(stage.parts.begin(), stage.parts.end(), leads_on);
    });
  }

  // Whether each view of the chain is read inside only by the next view, and the last one by at
  // most `last` nodes.
  bool AreReadBy(ArrayRef<const Node*> views, size_t last) const {
    for (const Node* view : views) {
      auto found = readers_.find(view->result());
      const size_t inside = found == readers_.end() ? 0 : found->second.size();
      if (inside > (view == views.back() ? last : 1)) return false;
    }
    return true;
  }

  std::vector<BlockStage> InOrder(ShapeRef rows) {
    std::vector<BlockStage> ordered;
    for (const Node* node : nodes_) {
      for (const auto& result : node->results) {
        auto found = stages_.find(result.get());
        if (found == stages_.end()) continue;
        BlockStage stage = std::move(found->second);
        stage.value = result.get();
        stage.kept = IsReadInside(stage.value, stage);
        if (!HasRows(stage.value, rows) || ElementsPerRow(stage.value, rows) == 0) return {};
        ordered.push_back(std::move(stage));
      }
    }
    return ordered.size() == stages_.size() ? ordered : std::vector<BlockStage>{};
  }

  ArrayRef<const Node*> nodes_;
  function_ref<bool(const Value*)> read_outside_;
  const ByTensorCores& by_tensor_cores_;
  NodeSet inside_;
  DenseMap<const Value*, std::vector<const Node*>> readers_;
  std::unordered_map<const Value*, BlockStage> stages_;
};

}  // namespace

bool HasRows(const Value* value, ShapeRef rows) {
  const Shape& shape = value->type.shape;
  return shape.size() >= rows.size() && std::equal(rows.begin(), rows.end(), shape.begin());
}

int64_t ElementsPerRow(const Value* value, ShapeRef rows) {
  const Shape& shape = value->type.shape;
  if (shape.size() < rows.size()) return 0;
  return Product(Shape(shape.begin() + static_cast<int64_t>(rows.size()), shape.end()))
      .AsConstant()
      .value_or(0);
}

int64_t KeptBytesPerRow(ArrayRef<BlockStage> stages, ShapeRef rows) {
  int64_t bytes = 0;
  for (const BlockStage& stage : stages) {
    const int64_t element = std::max(4, DtypeBytes(stage.value->type.dtype));
    if (stage.kept) bytes += element * ElementsPerRow(stage.value, rows);
  }
  return bytes;
}

std::vector<BlockStage> FindBlockStages(ArrayRef<const Node*> nodes, ShapeRef rows,
                                        function_ref<bool(const Value*)> read_outside,
                                        const ByTensorCores& by_tensor_cores) {
  return StageFinder(nodes, read_outside, by_tensor_cores).Find(rows);
}

std::optional<SharedProduct> FindSharedProduct(const Node& node, ShapeRef rows) {
  if (node.kind != OpKind::kMatMul || node.Int("transpose_a") != 0 ||
      node.operand(1)->type.rank() != 2)
    return std::nullopt;
  const Value *left = node.operand(0), *sums = node.result();
  const auto rank = static_cast<size_t>(sums->type.rank());
  if (rank != rows.size() + 2 || !HasRows(sums, rows) || !HasRows(left, rows) ||
      !IsFloat(sums->type.dtype) || DtypeBytes(sums->type.dtype) > 4)
    return std::nullopt;
  const auto extent = [](const Value* value, size_t axis) {
    return value->type.shape[axis].AsConstant().value_or(0);
  };
  const SharedProduct product = {extent(sums, rank - 2), extent(sums, rank - 1),
                                 extent(left, rank - 1)};
  const auto& [lines, columns, depth] = product;
  const bool fits = lines >= kFewestLines && lines <= kMostLines && columns >= kFewestColumns &&
                    columns <= kMostColumns && depth >= 2 * kDepthStep && depth <= kMostDepth &&
                    depth % kDepthStep == 0;
  const bool pays = static_cast<double>(columns * depth) <=
                    kWeightsPerSpared * static_cast<double>(lines * (columns + depth));
  return fits && pays ? std::optional(product) : std::nullopt;
}

bool HasSharedProducts(ArrayRef<BlockStage> stages) {
  return std::any_of(stages.begin(), stages.end(),
                     [](const BlockStage& stage) { return stage.weights != nullptr; });
}

int64_t SharedWeightBytes(ArrayRef<BlockStage> stages) {
  int64_t bytes = 0;
  for (const BlockStage& stage : stages) {
    if (stage.weights) bytes += *stage.weights->type.Bytes().AsConstant();
  }
  return bytes;
}

Exprs IndexBehind(ArrayRef<const Node*> views, ArrayRef<Expr> index, const Ranges& ranges) {
  Exprs behind(index);
  for (const Node* view : views) {
    if (view->kind == OpKind::kTranspose) {
      Exprs permuted;
      for (const int64_t axis : view->Ints("perm")) permuted.push_back(behind[axis]);
      behind = std::move(permuted);
    } else {
      const Expr flat = Linearize(behind, view->operand(0)->type.shape, ranges);
      behind = Delinearize(flat, view->result()->type.shape, ranges);
    }
  }
  return behind;
}

}  // namespace fusec
