#include "passes/slot_adapter.h"

#include <cstring>

#include "passes/constant_linear.h"
#include "passes/recipe.h"

namespace fusec {

namespace {

// Small products of slots belong to the loops that read them.
bool IsBankProduct(const Node* node) {
  return node != nullptr && node->kind == OpKind::kSlotMatMul && TakesSlotKernel(*node) &&
         node->Int("transpose_b") != 0 && StoredData(node->operand(kBankOfProduct)) != nullptr;
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
  BankJoiner(Builder& builder, const std::vector<JoinedLayer>& layers) : builder_(builder) {
    for (const JoinedLayer& layer : layers) {
      const SlotAdapter* adapter = layer.adapter ? &*layer.adapter : nullptr;
      parts_.push_back({adapter, layer.columns, rank_, columns_});
      columns_ += layer.columns;
      if (adapter == nullptr) continue;
      if (first_ == nullptr) first_ = adapter;
      rank_ += adapter->rank();
    }
  }

  const SlotAdapter* first() const { return first_; }

  // [slots, rank of all, inputs]
  Value* JoinDown() const {
    const TensorData& first = BankOf(*first_->down);
    TensorData data(first.dtype(), {first.dims()[0], rank_, first.dims()[2]});
    Recipe recipe;
    ValueList parts;
    for (const Part& part : parts_) {
      if (part.adapter == nullptr) continue;
      CopyPart(BankOf(*part.adapter->down), data, part.first_rank, 0);
      parts.push_back(recipe.Use(part.adapter->down->operand(kBankOfProduct)));
    }
    return Add(recipe.Finish(recipe.Concat(parts, 1), std::move(data)), *first_->down);
  }

  // [slots, columns of all, rank of all]
  Value* JoinUp() const {
    const TensorData& first = BankOf(*first_->delta);
    TensorData data(first.dtype(), {first.dims()[0], columns_, rank_});
    Recipe recipe;
    const auto zeros = [&](const Part& part, int64_t ranks) {
      Value* zero = recipe.Reshape(recipe.Number(0, data.dtype()), {1, 1, 1});
      return recipe.Expand(zero, {data.dims()[0], part.columns, ranks});
    };
    ValueList parts;
    for (const Part& part : parts_) {
      if (part.adapter == nullptr) {
        parts.push_back(zeros(part, rank_));
        continue;
      }
      CopyPart(BankOf(*part.adapter->delta), data, part.first_column, part.first_rank);
      Value* own = recipe.Use(part.adapter->delta->operand(kBankOfProduct));
      if (part.first_rank > 0) own = recipe.Concat({zeros(part, part.first_rank), own}, 2);
      const int64_t behind = rank_ - part.first_rank - part.adapter->rank();
      parts.push_back(recipe.Padded(own, 2, behind));
    }
    return Add(recipe.Finish(recipe.Concat(parts, 1), std::move(data)), *first_->delta);
  }

  // Makes the sites of the layers parts of the joined banks.
  void MoveSites(const Value* down, const Value* up, PassReport& report) const {
    for (const Part& part : parts_) {
      if (part.adapter == nullptr) continue;
      const std::string& own = part.adapter->down->operand(kBankOfProduct)->name;
      for (AdapterSite& site : report.adapter_sites) {
        if (site.down != own) continue;
        site.down = down->name;
        site.up = up->name;
        site.banks = {rank_, columns_, part.first_rank, part.first_column};
      }
    }
  }

 private:
  // A layer, and where it begins in the joined banks.
  struct Part {
    const SlotAdapter* adapter;  // null for none
    int64_t columns, first_rank, first_column;
  };

  static const TensorData& BankOf(const Node& product) {
    return *StoredData(product.operand(kBankOfProduct));
  }
  // Adds the joined bank that replaces the one of `product`.
  Value* Add(MadeConstant made, const Node& product) const {
    Value* bank =
        AddConstant(builder_, std::move(made), product.operand(kBankOfProduct)->name + "_joined");
    bank->producer->attributes[kUpdatable] = bank->name;
    return bank;
  }

  Builder& builder_;
  std::vector<Part> parts_;
  const SlotAdapter* first_ = nullptr;  // of the first layer that has one
  int64_t columns_ = 0, rank_ = 0;
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
