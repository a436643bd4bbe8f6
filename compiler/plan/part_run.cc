#include "compiler/plan/part_run.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "compiler/ir/op_def.h"

namespace fusec {

namespace {

constexpr size_t kShortestRun = 3;

// Compares a part with the first one, value by value, and records where they differ.
class PartMatcher {
 public:
  PartMatcher(const Node& region, const Value* first) : region_(region), first_(first) {}

  // The differences of one part: the starts of slices, by node of the first part, and tables, by
  // body input of the first part.
  struct Differences {
    DenseMap<const Node*, Exprs> starts;
    DenseMap<const Value*, const Value*> tables;    // body inputs: first part's -> this part's
    DenseMap<const Value*, const Value*> partners;  // all values: first part's -> this part's
  };

  bool Match(const Value* part, Differences& differences) {
    return Same(first_, part, differences);
  }

 private:
  const Value* Outside(const Value* value) const {
    for (size_t i = 0; i < region_.body->inputs.size(); ++i) {
      if (region_.body->inputs[i].get() == value) return region_.operands[i];
    }
    return nullptr;
  }

  // Each value of the first part has exactly one partner: a part that uses one value twice (x0 *
  // x0) is not similar to one with two values (x0 * x1).
  bool Same(const Value* a, const Value* b, Differences& differences) {
    if (!a || !b) return a == b;
    if (const auto [known, fresh] = differences.partners.try_emplace(a, b); !fresh)
      return known->second == b;
    const Value* outside_a = Outside(a);
    const Value* outside_b = Outside(b);
    if (outside_a || outside_b) return SameInput(a, outside_a, b, outside_b, differences);
    const Node& x = *a->producer;
    const Node& y = *b->producer;
    if (x.kind != y.kind || a->result_index != b->result_index ||
        x.operands.size() != y.operands.size())
      return false;
    if (a->type != b->type || x.kind == OpKind::kConstant) return &x == &y;
    Attributes left = x.attributes, right = y.attributes;
    if (x.kind == OpKind::kSlice) {
      differences.starts[&x] = y.Get<Exprs>("starts");
      left.erase("starts");
      right.erase("starts");
    }
    if (left != right) return false;
    for (size_t i = 0; i < x.operands.size(); ++i) {
      if (!Same(x.operands[i], y.operands[i], differences)) return false;
    }
    return true;
  }

  bool SameInput(const Value* a, const Value* outside_a, const Value* b, const Value* outside_b,
                 Differences& differences) {
    if (!outside_a || !outside_b) return false;
    if (outside_a == outside_b) return true;
    if (!IsConstant(outside_a) && !IsConstant(outside_b)) {
      differences.tables[a] = b;
      return outside_a->type == outside_b->type;
    }
    const bool is_list = IsSearched(a);
    auto is_table = [&](const Value* value) {
      return IsConstant(value) && (value->type.rank() >= 2 || (is_list && value->type.rank() == 1));
    };
    if (!is_table(outside_a) || !is_table(outside_b) ||
        outside_a->type.dtype != outside_b->type.dtype)
      return false;
    const Shape& x = outside_a->type.shape;
    const Shape& y = outside_b->type.shape;
    if (x.size() != y.size() || !std::equal(x.begin() + 1, x.end(), y.begin() + 1)) return false;
    differences.tables[a] = b;
    return true;
  }

  // Whether a body input is the list of keys or of values of a lookup.
  bool IsSearched(const Value* input) const {
    const auto& nodes = region_.body->nodes;
    return std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) {
      return node->kind == OpKind::kLookup && node->operand(1) != input &&
             (node->operand(0) == input || node->operand(2) == input);
    });
  }

  const Node& region_;
  const Value* first_;
};

// The function a + b * part that has all these values, or nullopt.
std::optional<Expr> Affine(ArrayRef<int64_t> values) {
  const int64_t step = values[1] - values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] - values[i - 1] != step) return std::nullopt;
  }
  return Expr(values[0]) + Variable(kPartVariable) * Expr(step);
}

// The starts of one slice as functions of the part.
std::optional<Exprs> AffineStarts(ArrayRef<Exprs> starts_by_part) {
  Exprs result;
  for (size_t axis = 0; axis < starts_by_part[0].size(); ++axis) {
    std::vector<int64_t> values;
    bool all_equal = true;
    for (const auto& starts : starts_by_part) {
      all_equal &= starts[axis] == starts_by_part[0][axis];
      if (auto number = starts[axis].AsConstant()) values.push_back(*number);
    }
    if (all_equal) {
      result.push_back(starts_by_part[0][axis]);
      continue;
    }
    if (values.size() != starts_by_part.size()) return std::nullopt;
    const auto affine = Affine(values);
    if (!affine) return std::nullopt;
    result.push_back(*affine);
  }
  return result;
}

// The symbol for the row counts `rows`. Lists with equal row counts share it, such as the codes and
// the factors of quantized tables, so that an id is checked only once.
std::string RowsSymbol(ArrayRef<PartRun::TableList> lists, const std::vector<int64_t>& rows) {
  const auto same =
      std::find_if(lists.begin(), lists.end(), [&](const auto& list) { return list.rows == rows; });
  if (same != lists.end()) return same->rows_symbol;
  return lists.empty() ? "rows" : "rows_" + std::to_string(lists.size());
}

// The common beginning of the names of all tensors, without a number: "ids" for ids_0 to ids_25.
std::string CommonName(ArrayRef<const Value*> tensors) {
  std::string common = tensors.front()->name;
  for (const Value* tensor : tensors) {
    const auto [differs, unused] =
        std::mismatch(common.begin(), common.end(), tensor->name.begin(), tensor->name.end());
    common.erase(differs, common.end());
  }
  while (!common.empty() && (common.back() == '_' || std::isdigit(common.back()) != 0))
    common.pop_back();
  return common.empty() ? "tensor" : common;
}

// The name of a list's stand-in. For tables it is "table"; or "table_factors" if the table's name
// is the name of an earlier list's table plus "_factors". For other tensors it is their common
// name.
std::string StandInName(ArrayRef<PartRun::TableList> lists, const PartRun::TableList& list) {
  const Value& table = *list.tables[0];
  if (!IsConstant(&table)) return CommonName(list.tables);
  for (const PartRun::TableList& earlier : lists) {
    const std::string& stem = earlier.tables[0]->name;
    if (table.name.starts_with(stem + "_"))
      return earlier.stand_in->name + table.name.substr(stem.size());
  }
  return "table";
}

}  // namespace

std::optional<PartRun> FindPartRun(const Node& region, ArrayRef<const Value*> parts) {
  const Graph& body = *region.body;
  if (parts.size() < kShortestRun || !parts[0]->producer) return std::nullopt;
  PartMatcher matcher(region, parts[0]);
  std::vector<PartMatcher::Differences> all;
  for (const Value* part : parts) {
    PartMatcher::Differences differences;
    if (part->type != parts[0]->type || !part->producer || !matcher.Match(part, differences)) break;
    all.push_back(std::move(differences));
  }
  // Starts must be evenly spaced over the run; it is shortened until they are.
  PartRun run;
  DenseMap<const Node*, Exprs> starts;
  for (; all.size() >= kShortestRun; all.pop_back()) {
    starts.clear();
    bool even = true;
    for (const auto& [slice, unused] : all[0].starts) {
      std::vector<Exprs> by_part;
      for (const auto& differences : all) by_part.push_back(differences.starts.at(slice));
      const auto affine = AffineStarts(by_part);
      even &= affine.has_value();
      if (affine) starts[slice] = *affine;
    }
    if (even) break;
  }
  if (all.size() < kShortestRun) return std::nullopt;
  run.count = static_cast<int>(all.size());

  // Copies the ops of the first part and replaces the differences by functions of the part.
  auto scratch = std::make_unique<Graph>();
  scratch->name = body.name;
  scratch->symbols = body.symbols;
  run.region = std::make_unique<Node>();
  run.region->kind = OpKind::kRegion;
  DenseMap<const Value*, Value*> copies;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    const Value* input = body.inputs[i].get();
    TensorType type = input->type;
    Value* operand = region.operands[i];
    const bool is_table =
        std::any_of(all.begin(), all.end(), [&](const auto& d) { return d.tables.count(input); });
    if (is_table) {
      PartRun::TableList list;
      for (const auto& differences : all) {
        auto other = differences.tables.find(input);
        const Value* table = other == differences.tables.end() ? input : other->second;
        for (size_t k = 0; k < body.inputs.size(); ++k) {
          if (body.inputs[k].get() == table) list.tables.push_back(region.operands[k]);
        }
        if (IsConstant(list.tables.back()))
          list.rows.push_back(*list.tables.back()->type.shape[0].AsConstant());
      }
      const bool same_rows = std::all_of(list.rows.begin(), list.rows.end(),
                                         [&](int64_t r) { return r == list.rows[0]; });
      if (!same_rows) {
        list.rows_symbol = RowsSymbol(run.table_lists, list.rows);
        type.shape[0] = Variable(list.rows_symbol);
      }
      list.stand_in = std::make_unique<Value>();
      list.stand_in->name = StandInName(run.table_lists, list);
      list.stand_in->type = type;
      operand = list.stand_in.get();
      run.table_lists.push_back(std::move(list));
    }
    copies[input] = scratch->AddInput(input->name, type);
    run.region->operands.push_back(operand);
  }
  for (const auto& node : body.nodes) {
    auto copy = std::make_unique<Node>();
    copy->kind = node->kind;
    copy->attributes = node->attributes;
    if (auto found = starts.find(node.get()); found != starts.end())
      copy->attributes["starts"] = found->second;
    copy->provenance = node->provenance;
    for (Origin& origin : copy->provenance)
      origin.module_path.clear();  // it names one part; the code is for all
    copy->constant = node->constant;
    for (const Value* operand : node->operands)
      copy->operands.push_back(operand ? copies.at(operand) : nullptr);
    for (const auto& differences : all) {
      const auto partner = differences.partners.find(node->result());
      if (partner != differences.partners.end())
        run.nodes[copy.get()].push_back(partner->second->producer);
    }
    for (const auto& result : node->results) {
      auto value = std::make_unique<Value>(*result);
      value->producer = copy.get();
      copies[result.get()] = value.get();
      copy->results.push_back(std::move(value));
    }
    scratch->nodes.push_back(std::move(copy));
  }
  run.output = copies.at(parts[0]);
  run.region->body = std::move(scratch);
  return run;
}

void PartTables::Declare(KernelBuilder& builder, const PartRun& run) {
  std::set<std::string> declared;
  builder.DeclareParts(kPartVariable, run.nodes);
  for (const auto& list : run.table_lists) {
    const bool are_tables = IsConstant(list.tables[0]);
    const std::string name =
        builder.Tables(list.tables, are_tables ? "tables" : ModelName(list.stand_in->name));
    builder.AliasOfParts(list.stand_in.get(), CExpr(name).Dot("first_row")[kPartVariable],
                         list.tables);
    if (!list.rows_symbol.empty() && declared.insert(list.rows_symbol).second) {
      rows_arrays_[list.stand_in.get()] =
          builder.ConstantArray("k" + PascalCase(name) + "Rows", list.rows, "rows of each table");
    }
  }
}

void PartTables::DefinePart(KernelBuilder& builder, const PartRun& run) {
  for (const auto& list : run.table_lists) {
    if (!rows_arrays_.count(list.stand_in.get())) continue;
    const auto [low, high] = std::minmax_element(list.rows.begin(), list.rows.end());
    builder.AppendLet(list.rows_symbol, CExpr(rows_arrays_.at(list.stand_in.get()))[kPartVariable]);
    builder.DefineVariable(list.rows_symbol, Expr(*low), Expr(*high));
  }
}

}  // namespace fusec
