#include "passes/adapter_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/ir/op_def.h"
#include "compiler/support/terminal.h"
#include "passes/graph_edit.h"
#include "passes/low_rank_adapter.h"

namespace fusec {

namespace {

using Components = std::vector<std::string>;

// Splits "/layers.0/q_proj/MatMul" or "layers.0.q_proj" at slashes or dots.
Components Split(const std::string& path, char separator) {
  Components parts;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find(separator, begin), path.size());
    if (end > begin) parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// The module that a node belongs to, as far as the exporter recorded it.
Components ModuleOf(const Node& node) {
  for (const Origin& origin : node.provenance) {
    if (!origin.module_path.empty()) return Split(origin.module_path, '.');
    Components parts = Split(origin.onnx_node, '/');
    if (parts.size() > 1) {
      parts.pop_back();  // the op
      return Split(Join(parts, "."), '.');
    }
  }
  return {};
}

Components CommonPrefix(const Components& a, const Components& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return Components(a.begin(), end);
}

class SlotMaker {
 public:
  SlotMaker(Graph& graph, const PassOptions& options, PassReport& report)
      : graph_(graph), options_(options), report_(report) {}

  Result<bool> Run() {
    FUSEC_TRY(AddAdapterInput());
    ReaderMap readers = Readers(graph_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& sum = *graph_.nodes[i];
      if (sum.kind != OpKind::kAdd) continue;
      const auto adapter = FindLowRankAdapter(graph_, readers, sum);
      if (!adapter) continue;
      Builder builder(graph_, i);
      FUSEC_TRY(Replace(*adapter, sum, builder));
      i = builder.insert_at();
      readers = Readers(graph_);
    }
    if (report_.adapter_sites.empty()) {
      return Fail(ErrorKind::kUsage,
                  "--adapters: the model has no low-rank adapters (LoRA): expected layers x W + "
                  "s (x A) B, as PEFT exports them unmerged");
    }
    RemoveDeadNodes(graph_);
    return true;
  }

 private:
  // Adds the input adapter_id, with one element per row of the batch. The batch is the first dim of
  // the first input that is neither a scalar nor per request.
  Result<void> AddAdapterInput() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (graph_.InputName(i) == kAdapterInput) {
        return Fail(ErrorKind::kUsage, std::string("--adapters: the model has an input \"") +
                                           kAdapterInput + "\" already");
      }
    }
    size_t first = 0;
    while (first < graph_.inputs.size() &&
           (graph_.inputs[first]->type.rank() == 0 ||
            IsPerRequest(graph_.InputName(first), options_.per_request)))
      ++first;
    if (first == graph_.inputs.size())
      return Fail(ErrorKind::kUsage, "--adapters: the model has no input with a batch");
    batch_ = graph_.inputs[first]->type.shape[0];
    if (!graph_.input_names.empty()) graph_.input_names.push_back(kAdapterInput);
    slots_ = graph_.AddInput(graph_.UniqueName(kAdapterInput), {Dtype::kI32, {batch_}});
    return {};
  }

  // The common prefix of the modules of both products, or else of the names of their weights; if
  // both are empty, the name of the layer's product. A number is appended to a name that is taken.
  std::string ModuleOf(const LowRankAdapter& adapter) {
    Components module =
        CommonPrefix(fusec::ModuleOf(*adapter.down_product), fusec::ModuleOf(*adapter.up_product));
    if (module.empty()) {
      module = CommonPrefix(
          Split(ModelName(*adapter.down_product->operand(1), options_.constant_names), '.'),
          Split(ModelName(*adapter.up_product->operand(1), options_.constant_names), '.'));
    }
    const std::string name =
        module.empty() ? adapter.base->result()->name : Join(ArrayRef<std::string>(module), ".");
    std::string unique = name;
    for (int i = 2; !modules_.insert(unique).second; ++i) unique = fmt::format("{}.{}", name, i);
    return unique;
  }

  Result<void> Replace(const LowRankAdapter& adapter, Node& sum, Builder& builder) {
    AdapterSite site;
    site.module = ModuleOf(adapter);
    site.inputs = adapter.down.terms();
    site.outputs = adapter.up.results();
    site.scale = adapter.scale;
    const int64_t rank = adapter.down.results();
    if (rank > options_.adapters->rank) {
      return Fail(ErrorKind::kUsage,
                  fmt::format("--adapters: the adapter of \"{}\" has rank {}, more than rank={}",
                              site.module, rank, options_.adapters->rank));
    }
    builder.set_provenance(sum.provenance);
    FUSEC_ASSIGN(Value * slots, SlotsOfRows(adapter.x, site.module, builder));
    const std::string name = sum.result()->name;
    Recipe of_down, of_up;
    // Both matrices are stored with the terms of each sum side by side.
    Value* a = of_down.Turned(of_down.Exact(adapter.down.constant), !adapter.down.transposed);
    Value* b = of_up.Turned(of_up.Exact(adapter.up.constant), !adapter.up.transposed);
    FUSEC_ASSIGN(Value * down,
                 MakeBank(builder, name + "_lora_A", site, of_down, a, 0,
                          [&](int64_t r, int64_t k) { return adapter.down.At(k, r); }));
    FUSEC_ASSIGN(Value * up, MakeBank(builder, name + "_lora_B", site, of_up,
                                      Scaled(of_up, adapter, b), 1, [&](int64_t n, int64_t r) {
                                        return adapter.scale * adapter.up.At(r, n);
                                      }));
    site.down = down->name;
    site.up = up->name;
    site.banks = {StoredRank(options_.adapters->rank), site.outputs};
    Value* reduced = builder.Make(OpKind::kSlotMatMul, {adapter.x, down, slots},
                                  {{"transpose_b", int64_t{1}}}, name + "_down");
    Value* delta = builder.Make(OpKind::kSlotMatMul, {reduced, up, slots},
                                {{"transpose_b", int64_t{1}}}, name + "_delta");
    const Dtype dtype = sum.operand(adapter.delta)->type.dtype;
    if (delta->type.dtype != dtype)
      delta = builder.Make(OpKind::kCast, {delta}, {{"to", dtype}}, name + "_cast_delta");
    sum.operands[adapter.delta] = delta;
    AddBeforeBias(adapter, sum, delta, builder);
    report_.adapter_sites.push_back(std::move(site));
    return {};
  }

  // (base + bias) + delta => (base + delta) + bias, as kernels of products add a delta to their
  // sums
  void AddBeforeBias(const LowRankAdapter& adapter, Node& sum, Value* delta, Builder& builder) {
    const Node* biased = sum.operand(1 - adapter.delta)->producer;
    Value* base = adapter.base->result();
    if (biased->kind != OpKind::kAdd || base->type != delta->type) return;
    for (const int side : {0, 1}) {
      if (biased->operand(side) != base) continue;
      Value* adapted =
          builder.Make(OpKind::kAdd, {base, delta}, {}, sum.result()->name + "_adapted");
      sum.operands = {adapted, biased->operand(1 - side)};
      return;
    }
  }

  // Makes a constant with one matrix per slot. Slot 0 holds `matrix` of the recipe, whose elements
  // are `element`(row, column), padded along `rank_axis` to the stored rank; the other slots hold
  // zeros. The constant is updatable because adapters that are loaded later replace its parts. All
  // elements must be finite: a product of rows of several slots multiplies zeros by the matrices of
  // other slots.
  Result<Value*> MakeBank(Builder& builder, const std::string& name, const AdapterSite& site,
                          Recipe& recipe, Value* matrix, int rank_axis,
                          function_ref<double(int64_t row, int64_t column)> element) {
    const std::vector<int64_t> own = *StaticShape(matrix->type.shape);
    const int64_t slots = options_.adapters->slots, rank = StoredRank(options_.adapters->rank);
    std::vector<int64_t> dims = {slots, own[0], own[1]};
    dims[1 + rank_axis] = rank;
    TensorData bank(dtype_, dims);
    for (int64_t row = 0; row < own[0]; ++row) {
      for (int64_t column = 0; column < own[1]; ++column) {
        const int64_t place = row * dims[2] + column;
        bank.SetDouble(place, element(row, column));
        if (!std::isfinite(bank.GetDouble(place)))
          return Fail(ErrorKind::kUsage,
                      fmt::format("--adapters: the adapter of \"{}\" is not finite in {}",
                                  site.module, DtypeName(dtype_)));
      }
    }
    matrix = recipe.Reshape(recipe.Padded(matrix, rank_axis, rank - own[rank_axis]),
                            {1, dims[1], dims[2]});
    matrix = recipe.Padded(matrix, 0, slots - 1);
    Value* constant = AddConstant(builder, recipe.Finish(matrix, std::move(bank)), name);
    constant->producer->attributes[kUpdatable] = constant->name;
    return constant;
  }

  // The slot of each row of `x`: the slot of its row of the batch, repeated if `x` has several rows
  // per row of the batch.
  Result<Value*> SlotsOfRows(const Value* x, const std::string& module, Builder& builder) {
    dtype_ = x->type.dtype;
    const Expr& rows = x->type.shape[0];
    if (rows == batch_) return slots_;
    const Ranges ranges = graph_.SymbolRanges();
    const Expr times = FloorDiv(rows, batch_, ranges);
    if (times * batch_ != rows || x->type.rank() != 2) {
      return Fail(ErrorKind::kUsage,
                  fmt::format("--adapters: the layer \"{}\" has rows of {}, expected a multiple of "
                              "the {} rows of the batch",
                              module, x->type.ToString(), batch_.ToString()));
    }
    Value* column =
        builder.Make(OpKind::kReshape, {slots_}, {{"shape", Exprs{batch_, 1}}}, "adapter_column");
    Value* repeated = builder.Make(OpKind::kExpand, {column}, {{"shape", Exprs{batch_, times}}},
                                   "adapter_of_rows");
    return builder.Make(OpKind::kReshape, {repeated}, {{"shape", Exprs{rows}}}, "adapter_rows");
  }

  Graph& graph_;
  const PassOptions& options_;
  PassReport& report_;
  Expr batch_;
  Value* slots_ = nullptr;
  Dtype dtype_ = Dtype::kF32;
  std::set<std::string> modules_;
};

}  // namespace

Result<bool> KeepAdapterSlots(Graph& graph, const PassOptions& options, PassReport& report) {
  if (!options.adapters) return false;
  return SlotMaker(graph, options, report).Run();
}

}  // namespace fusec
