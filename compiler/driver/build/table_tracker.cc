#include "compiler/driver/build/table_tracker.h"

#include <algorithm>
#include <functional>

#include "compiler/support/adt.h"
#include "passes/lineage.h"

namespace fusec {

namespace {

bool IsView(const Node& node) {
  return node.kind == OpKind::kCast || node.kind == OpKind::kIdentity;
}

// The values whose rows a gather reads, directly or through casts.
ValueSet LookedUp(const Graph& graph) {
  ValueSet looked_up;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {  // readers first
    const bool reads_rows = (*node)->kind == OpKind::kGather && (*node)->Int("axis") == 0;
    const bool passes_on = IsView(**node) && looked_up.count((*node)->result()) != 0;
    if (reads_rows || passes_on) looked_up.insert((*node)->operand(0));
  }
  return looked_up;
}

std::map<std::string, const Node*> ConstantsOf(const Graph& graph) {
  std::map<std::string, const Node*> constants;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kConstant) constants[node->result()->name] = node.get();
  }
  return constants;
}

constexpr const char* kUnread = "nothing that is computed reads it";

std::string Absorbed(const std::string& pass) {
  return "other constants are computed from it (" + pass + ")";
}

std::optional<RowTable> TableOf(const Node& constant, const std::string& name) {
  const TensorType& type = constant.result()->type;
  const auto dims = StaticShape(type.shape);
  if (!IsFloat(type.dtype) || !dims || dims->empty()) return std::nullopt;
  RowTable table{name, type.dtype};
  table.rows = dims->front();
  table.columns = 1;
  for (size_t i = 1; i < dims->size(); ++i) table.columns *= (*dims)[i];
  if (table.rows == 0 || table.columns == 0) return std::nullopt;
  table.storage = DtypeName(type.dtype);
  table.constant = constant.result()->name;
  return table;
}

}  // namespace

struct TableTracker::Change {
  const std::string& pass;
  const Constants& constants;
  ArrayRef<StoredTable> quantized;
  bool made_constants = false;
};

TableTracker::TableTracker(const Graph& imported, const std::map<std::string, std::string>& names) {
  const ValueSet looked_up = LookedUp(imported);
  for (const auto& [name, constant] : ConstantsOf(imported)) {
    hashes_[name] = constant->constant_hash;
    const auto in_model = names.find(name);
    if (in_model == names.end()) continue;
    const bool is_looked_up = looked_up.count(constant->result()) != 0;
    if (!IsUpdatable(constant->result()) && !is_looked_up) continue;
    auto table = TableOf(*constant, in_model->second);
    if (!table) continue;
    table->is_looked_up = is_looked_up;
    tables_.push_back(
        {*std::move(table), constant->constant_hash, "", IsUpdatable(constant->result()), 0, ""});
  }
  std::sort(tables_.begin(), tables_.end(),
            [](const Tracked& a, const Tracked& b) { return a.table.table < b.table.table; });
  CountReaders(imported);
}

void TableTracker::CountReaders(const Graph& graph) {
  const ConstantReaders readers = ReadersOfConstants(graph);
  const Constants constants = ConstantsOf(graph);
  for (Tracked& tracked : tables_) {
    tracked.readers = 0;
    tracked.only_view.clear();
    const auto constant = constants.find(tracked.table.constant);
    if (constant == constants.end()) continue;
    const auto found = readers.find(constant->second->result());
    if (found == readers.end()) continue;
    tracked.readers = found->second.size();
    const Node& first = *found->second.front();
    if (tracked.readers == 1 && IsView(first)) tracked.only_view = first.result()->name;
  }
}

bool TableTracker::FollowQuantized(Tracked& tracked, const Change& change) {
  const auto stored =
      std::find_if(change.quantized.begin(), change.quantized.end(),
                   [&](const StoredTable& t) { return t.table == tracked.table.table; });
  if (change.pass != "quantize-tables" || stored == change.quantized.end()) return false;
  tracked.table.storage = stored->storage;
  tracked.table.constant = stored->constant;
  tracked.table.factors = stored->factors;
  tracked.hash = change.constants.at(stored->constant)->constant_hash;
  if (!stored->factors.empty())
    tracked.factors_hash = change.constants.at(stored->factors)->constant_hash;
  return true;
}

// If the table's only reader was a cast or identity that has been folded, follows the table to the
// constant of that name.
bool TableTracker::FollowView(Tracked& tracked, const Change& change) {
  const auto folded = change.constants.find(tracked.only_view);
  if (tracked.only_view.empty() || folded == change.constants.end()) return false;
  const Value* value = folded->second->result();
  if (!IsFloat(value->type.dtype)) return false;
  tracked.table.constant = value->name;
  tracked.table.storage = DtypeName(value->type.dtype);
  tracked.hash = folded->second->constant_hash;
  return true;
}

// The reason why the graph no longer has constants that hold only this table; "" if it has them.
std::string TableTracker::WhyGone(const Tracked& tracked, const Change& change) const {
  std::string why = WhyGone(tracked.table.constant, tracked.hash, change);
  if (why.empty() && !tracked.table.factors.empty())
    why = WhyGone(tracked.table.factors, tracked.factors_hash, change);
  return why;
}

std::string TableTracker::WhyGone(const std::string& constant, const std::string& hash,
                                  const Change& change) const {
  const auto is_there = [&](const std::string& name) {
    const auto found = change.constants.find(name);
    return found != change.constants.end() && found->second->constant_hash == hash;
  };
  const bool has_it = is_there(constant);
  for (const auto& [name, other_hash] : hashes_) {
    if (other_hash != hash || name == constant || is_there(name) == has_it) continue;
    if (change.pass == "eliminate-common")  // either of two equal constants may be the one kept
      return "it equals \"" + name + "\", and both are stored as one (eliminate-common)";
  }
  if (has_it) return "";
  return change.made_constants ? Absorbed(change.pass) : kUnread;
}

// Marks a table as fixed, and says if --updatable would help. It does not help against constant
// folding, which replaces ops on updatable constants, too.
void TableTracker::Fix(Tracked& tracked, const std::string& why) {
  std::string& fixed = tracked.table.fixed;
  fixed = why;
  const bool helps = !tracked.is_updatable && why != kUnread && why != Absorbed("fold-constants");
  if (helps)
    fixed += "; compiling with --updatable '" + tracked.table.table + "' keeps it as it is";
}

void TableTracker::Watch(const Graph& graph, const std::string& pass,
                         ArrayRef<StoredTable> quantized) {
  const Constants constants = ConstantsOf(graph);
  Change change{pass, constants, quantized};
  for (const auto& [name, constant] : constants) {
    const auto known = hashes_.find(name);
    if (known == hashes_.end() || known->second != constant->constant_hash)
      change.made_constants = true;
  }
  std::vector<size_t> least_readers;
  for (Tracked& tracked : tables_) {
    const bool has_moved = FollowQuantized(tracked, change) || FollowView(tracked, change);
    const std::string why = has_moved ? "" : WhyGone(tracked, change);
    if (tracked.table.fixed.empty() && !why.empty()) Fix(tracked, why);
    least_readers.push_back(change.made_constants && !has_moved ? tracked.readers : 0);
  }
  CountReaders(graph);
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i].table.fixed.empty() && tables_[i].readers < least_readers[i])
      Fix(tables_[i], Absorbed(pass));
  }
  hashes_.clear();
  for (const auto& [name, constant] : constants) hashes_[name] = constant->constant_hash;
}

void TableTracker::Cut(const Graph& part, const std::string& table) {
  const Constants constants = ConstantsOf(part);
  for (Tracked& tracked : tables_) {
    if (tracked.table.table != table) continue;
    const TensorData& rows = constants.at(tracked.table.constant)->constant;
    tracked.table.rows = rows.dims().front();
    // Quantized tables are cut by rows only; the elements of their stored rows are not columns.
    if (tracked.table.factors.empty())
      tracked.table.columns = rows.element_count() / tracked.table.rows;
    tracked.hash = hashes_[tracked.table.constant] =
        constants.at(tracked.table.constant)->constant_hash;
    if (tracked.table.factors.empty()) continue;
    tracked.factors_hash = hashes_[tracked.table.factors] =
        constants.at(tracked.table.factors)->constant_hash;
  }
}

std::vector<RowTable> TableTracker::Finish(const Graph& graph) const {
  const Constants constants = ConstantsOf(graph);
  const ConstantReaders readers = ReadersOfConstants(graph);
  std::vector<RowTable> tables;
  for (Tracked tracked : tables_) {
    const RowTable& table = tracked.table;
    const auto constant = constants.find(table.constant);
    if (table.fixed.empty() && !tracked.is_updatable && constant != constants.end()) {
      const auto found = readers.find(constant->second->result());
      const std::vector<const Node*> none;
      for (const Node* node : found == readers.end() ? none : found->second) {
        const bool looks_up = node->kind == OpKind::kGather;
        if (looks_up && table.rows * table.columns > 1) continue;
        Fix(tracked, "the kernel that computes \"" + node->result()->name +
                         "\" may hold its numbers in its text");
      }
    }
    tables.push_back(table);
  }
  return tables;
}

std::vector<RowTable> MergeTables(ArrayRef<std::vector<RowTable>> by_target) {
  std::vector<RowTable> merged = by_target.front();
  for (const std::vector<RowTable>& tables : by_target) {
    for (size_t i = 0; i < merged.size(); ++i) {
      if (merged[i] == tables[i] || !merged[i].fixed.empty()) continue;
      merged[i].fixed =
          tables[i].fixed.empty() ? "the targets store it in different ways" : tables[i].fixed;
    }
  }
  return merged;
}

void FixTablesOfPlan(const ProgramPlan& plan, const Graph& graph, std::vector<RowTable>& tables) {
  const std::map<std::string, const Node*> constants = ConstantsOf(graph);
  DenseMap<const Value*, bool> is_plain;  // whether all steps read the constant in plain layout
  DenseMap<const Value*, std::string> read_by;
  const auto add = [&](const Value* value, bool plain, const std::string& step) {
    if (!IsConstant(value)) return;
    const auto [place, is_new] = is_plain.try_emplace(value, plain);
    place->second = place->second && plain;
    if (is_new || !plain) read_by[value] = step;
  };
  for (const Step& step : plan.steps) {
    for (const KernelParameter& parameter : step.kernel.parameters) {
      add(parameter.value, parameter.layout == WeightLayout::kPlain, step.kernel.name);
      for (const Value* value : parameter.tables) add(value, true, step.kernel.name);
    }
    for (const Value* value :
         {step.matmul.a.value, step.matmul.b.value, step.matmul.bias, step.matmul.addend})
      add(value, false, step.matmul.name);
  }
  for (RowTable& table : tables) {
    for (const std::string* name : {&table.constant, &table.factors}) {
      if (!table.fixed.empty() || name->empty()) continue;
      const auto constant = constants.find(*name);
      const auto found =
          constant == constants.end() ? is_plain.end() : is_plain.find(constant->second->result());
      if (found == is_plain.end())
        table.fixed = "no kernel reads it";
      else if (!found->second)
        table.fixed = "the matrix product " + read_by[found->first] + " has its own copy of it";
    }
  }
}

}  // namespace fusec
