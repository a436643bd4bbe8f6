#include "passes/slot_adapter.h"

#include <algorithm>
#include <cstring>

#include "passes/constant_linear.h"
#include "passes/recipe.h"

namespace fusec {

namespace {

// Small products of slots belong to the loops that read them.
bool IsBankProduct(const Node* node) {
  return node != nullptr && node->kind == OpKind::kSlotMatMul && TakesSlotKernel(*node) &&
         node->Int("transpose_b") != 0 &&
         StoredData(node->operand(kBankOfProduct)) != nullptr;
}

// Copies `part`, [slots, rows, columns], to `whole`, from a row and a column of each slot on.
void CopyPart(const TensorData& part, TensorData& whole, int64_t first_row, int64_t first_column) {
  const int64_t bytes = DtypeBytes(part.dtype());
  const int64_t slots = part.dims()[0], rows = part.dims()[1], columns = part.dims()[2];
  for (int64_t slot = 0; slot < slots; ++slot) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t to = (slot * whole.dims()[1] + first_row + row) * whole.dims()[2];
      std::memcpy(whole.mutable_bytes() + (to + first_column) * bytes,
                  part.bytes() + (slot * rows + row) * columns * bytes,
                  static_cast<size_t>(columns * bytes));
    }
  }
}

// Makes the joined banks of some layers.
class BankJoiner {
 public:
  BankJoiner(Builder& builder, const std::vector<JoinedLayer>& layers)
      : builder_(builder), layers_(layers) {
    for (const JoinedLayer& layer : layers) {
      columns_ += layer.columns;
      if (!layer.adapter) continue;
      if (!first_) first_ = &*layer.adapter;
      rank_ += layer.adapter->rank();
    }
    if (first_ == nullptr) return;
    const std::vector<int64_t>& dims = Down(*first_).dims();
    slots_ = dims[0], inputs_ = dims[2];
  }

  const SlotAdapter* first() const { return first_; }

  // [slots, rank of all, inputs]
  Value* JoinDown() const {
    TensorData data(Down(*first_).dtype(), {slots_, rank_, inputs_});
    Recipe recipe;
    ValueList parts;
    int64_t rank = 0;
    for (const JoinedLayer& layer : layers_) {
      if (!layer.adapter) continue;
      CopyPart(Down(*layer.adapter), data, rank, 0);
      parts.push_back(recipe.Use(layer.adapter->down->operand(kBankOfProduct)));
      rank += layer.adapter->rank();
    }
    return Add(recipe.Finish(recipe.Concat(parts, 1), std::move(data)), *first_->down);
  }

  // [slots, columns of all, rank of all]
  Value* JoinUp() const {
    TensorData data(Down(*first_).dtype(), {slots_, columns_, rank_});
    Recipe recipe;
    ValueList parts;
    int64_t column = 0, rank = 0;
    for (const JoinedLayer& layer : layers_) {
      if (layer.adapter) {
        const Value* up = layer.adapter->delta->operand(kBankOfProduct);
        const int64_t own = layer.adapter->rank();
        CopyPart(*StoredData(up), data, column, rank);
        ValueList terms = {recipe.Use(up)};
        if (rank > 0) terms.insert(terms.begin(), Zeros(recipe, {slots_, layer.columns, rank}));
        parts.push_back(recipe.Padded(recipe.Concat(terms, 2), 2, rank_ - rank - own));
        rank += own;
      } else {
        parts.push_back(Zeros(recipe, {slots_, layer.columns, rank_}));
      }
      column += layer.columns;
    }
    return Add(recipe.Finish(recipe.Concat(parts, 1), std::move(data)), *first_->delta);
  }

  // Makes the sites of the layers parts of the joined banks.
  void MoveSites(const Value* down, const Value* up, PassReport& report) const {
    int64_t column = 0, rank = 0;
    for (const JoinedLayer& layer : layers_) {
      if (layer.adapter) {
        const std::string& own = layer.adapter->down->operand(kBankOfProduct)->name;
        for (AdapterSite& site : report.adapter_sites) {
          if (site.down != own) continue;
          site.down = down->name;
          site.up = up->name;
          site.banks = {rank_, columns_, rank, column};
        }
        rank += layer.adapter->rank();
      }
      column += layer.columns;
    }
  }

 private:
  static const TensorData& Down(const SlotAdapter& adapter) {
    return *StoredData(adapter.down->operand(kBankOfProduct));
  }
  Value* Zeros(Recipe& recipe, ArrayRef<int64_t> dims) const {
    return recipe.Expand(recipe.Reshape(recipe.Number(0, Down(*first_).dtype()), {1, 1, 1}), dims);
  }
  // Adds the joined bank that replaces the one of `product`.
  Value* Add(MadeConstant made, const Node& product) const {
    Value* bank =
        AddConstant(builder_, std::move(made), product.operand(kBankOfProduct)->name + "_joined");
    bank->producer->attributes[kUpdatable] = bank->name;
    return bank;
  }

  Builder& builder_;
  const std::vector<JoinedLayer>& layers_;
  const SlotAdapter* first_ = nullptr;
  int64_t columns_ = 0, rank_ = 0, slots_ = 0, inputs_ = 0;
};

}  // namespace

std::optional<SlotAdapter> SlotAdapterOf(const Graph& graph, const ReaderMap& readers,
                                         const Node& product) {
  if (!HasOneReader(graph, readers, product.result())) return std::nullopt;
  Node* sum = readers.at(product.result())[0];
  if (sum->kind != OpKind::kAdd || sum->result()->type != product.result()->type)
    return std::nullopt;
  const Node* delta = sum->operand(sum->operand(0) == product.result() ? 1 : 0)->producer;
  if (!IsBankProduct(delta) || !HasOneReader(graph, readers, delta->result())) return std::nullopt;
  const Node* down = delta->operand(0)->producer;
  if (!IsBankProduct(down) || !HasOneReader(graph, readers, down->result()) ||
      down->operand(0) != product.operand(0) ||
      down->operand(kSlotsOfProduct) != delta->operand(kSlotsOfProduct) ||
      delta->result()->type != product.result()->type)
    return std::nullopt;
  return SlotAdapter{sum, down, delta};
}

Value* JoinedDelta(Builder& builder, const std::vector<JoinedLayer>& layers, PassReport& report) {
  const BankJoiner joiner(builder, layers);
  if (joiner.first() == nullptr) return nullptr;
  const SlotAdapter& first = *joiner.first();
  Value* down = joiner.JoinDown();
  Value* up = joiner.JoinUp();
  joiner.MoveSites(down, up, report);
  const auto multiply = [&](Value* x, Value* bank, const Node& old) {
    return builder.Make(OpKind::kSlotMatMul, {x, bank, old.operands[kSlotsOfProduct]},
                        old.attributes, old.result()->name + "_joined");
  };
  Value* reduced = multiply(first.down->operands[0], down, *first.down);
  Value* delta = multiply(reduced, up, *first.delta);
  for (const JoinedLayer& layer : layers) {
    if (!layer.adapter) continue;
    AddProvenance(*reduced->producer, *layer.adapter->down);
    AddProvenance(*delta->producer, *layer.adapter->delta);
  }
  return delta;
}

}  // namespace fusec
