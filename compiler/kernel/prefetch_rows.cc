#include "compiler/kernel/prefetch_rows.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/ir/op_def.h"
#include "compiler/kernel/fold.h"
#include "compiler/kernel/model_names.h"
#include "compiler/kernel/size_names.h"
#include "compiler/kernel/statements.h"

namespace fusec {

namespace {

using Kind = Statement::Kind;
using ExprKind = CExpr::Kind;
using NamedExprs = std::map<std::string, CExpr, std::less<>>;

// So many look-ups should lie between a prefetch and the look-up of its row. A loop of unknown
// length counts as kUnknownCount look-ups.
constexpr int64_t kLookUpsAhead = 32, kUnknownCount = 8;
constexpr int64_t kMostRowsAhead = 32;
// The same for bags of variable length, whose ids lie one after the other.
constexpr int64_t kEntriesAhead = 16;
// Ids of more operations are not computed a second time.
constexpr int64_t kLongestId = 64;
// Longer rows that are only copied are read as fast without prefetches: their lines overlap.
constexpr int64_t kMostCopiedBytes = 256;
// Smaller tables stay in a core's own cache.
constexpr int64_t kLargeTables = 2 << 20;

// `expr` with the names of `values` replaced.
CExpr Substituted(const CExpr& expr, const NamedExprs& values) {
  if (expr.empty()) return {};
  if (expr.kind() == ExprKind::kName) {
    const auto found = values.find(expr.word());
    return found == values.end() ? expr : found->second;
  }
  std::vector<CExpr> operands;
  for (const CExpr& operand : expr.operands()) operands.push_back(Substituted(operand, values));
  if (expr.IsBinary("+") && operands[1].Is(0)) return operands[0];
  return CExpr::Make(expr.kind(), expr.word(), std::move(operands));
}

// Whether the expression is a call of `function`, perhaps with template arguments.
bool IsCallOf(const CExpr& expr, std::string_view function) {
  if (expr.kind() != ExprKind::kCall) return false;
  const CExpr& called = expr.operand(0);
  return (called.kind() == ExprKind::kTemplate ? called.operand(0) : called).word() == function;
}

// The number of nodes of an expression.
int64_t Size(const CExpr& expr) {
  int64_t size = 1;
  for (const CExpr& operand : expr.operands()) size += Size(operand);
  return size;
}

bool Loads(const CExpr& expr) {
  return expr.kind() == ExprKind::kSubscript ||
         std::any_of(expr.operands().begin(), expr.operands().end(), Loads);
}

// Whether the expression consists of loads and arithmetic. Anything else may cost more than a
// prefetch saves.
bool IsCheap(const CExpr& expr) {
  switch (expr.kind()) {
    case ExprKind::kName:
    case ExprKind::kLiteral:
      return true;
    case ExprKind::kPrefix:
    case ExprKind::kBinary:
    case ExprKind::kSubscript:
    case ExprKind::kMember:
      return std::all_of(expr.operands().begin(), expr.operands().end(), IsCheap);
    case ExprKind::kCast:
      return IsCheap(expr.operand(1));
    case ExprKind::kCall:
      return IsCallOf(expr, "FloorMod") &&
             std::all_of(expr.operands().begin() + 1, expr.operands().end(), IsCheap);
    default:
      return false;
  }
}

// A read of consecutive elements from `first` on.
struct Read {
  CExpr buffer, first, count;
};

// What takes the place of a variable in a later look-up, if `exists` holds.
struct Later {
  NamedExprs values;
  CExpr exists;
};

class Prefetcher {
 public:
  Prefetcher(KernelBuilder& builder, const std::string& row, const CExpr& rows)
      : builder_(builder), row_(row), ahead_(builder.Unique(row + "_ahead")), rows_(rows) {}

  // Returns the local that holds the row to prefetch for, if the body needs it.
  std::optional<std::string> Add(std::vector<Statement>& body) {
    Visit(body, {});
    return look_ups_ > 0 ? std::optional(ahead_) : std::nullopt;
  }
  bool has_prefetches() const { return has_prefetches_; }
  // How many rows lie between a prefetch and the look-up.
  int64_t RowsAhead() const {
    return std::clamp<int64_t>((kLookUpsAhead + look_ups_ - 1) / look_ups_, 1, kMostRowsAhead);
  }

 private:
  // Where a block is.
  struct Place {
    NamedExprs lets;     // the values of the locals that are visible
    int64_t times = 1;   // how often a row gets here
    bool folds = false;  // inside a loop that folds what it looks up
    std::string entry;   // the variable of such a loop of unknown length, or ""
  };

  void Visit(std::vector<Statement>& block, Place place) {
    for (size_t i = 0; i < block.size(); ++i) {
      Statement& statement = block[i];
      if (statement.kind == Kind::kFor) {
        Visit(statement.body, Inside(statement, place));
      } else if (statement.kind == Kind::kIf) {
        if (DependsOnRow(statement.condition, place)) continue;  // a later row may take the other
        Visit(statement.body, place);
        Visit(statement.otherwise, place);
      } else if (statement.kind == Kind::kLet) {
        place.lets[statement.place.word()] = statement.value;
        const std::vector<Statement> prefetches = PrefetchesOf(block, i, place);
        has_prefetches_ |= !prefetches.empty();
        block.insert(block.begin() + static_cast<int64_t>(i) + 1, prefetches.begin(),
                     prefetches.end());
        i += prefetches.size();
      }
    }
  }

  Place Inside(const Statement& loop, Place place) const {
    const std::optional<int64_t> count = NumberOf(LimitOf(loop));
    place.times *= std::max<int64_t>(1, count.value_or(kUnknownCount));
    place.folds |= IsFold(loop);
    if (IsFold(loop)) place.entry = count ? "" : loop.place.word();
    return place;
  }

  // The prefetches for the reads that use the index that block[at] declares.
  std::vector<Statement> PrefetchesOf(const std::vector<Statement>& block, size_t at,
                                      const Place& place) {
    const Statement& local = block[at];
    if (local.type.word() != "long long" && local.type.word() != "int") return {};
    const std::string index = local.place.word();
    std::vector<Read> reads;
    AddReads(ArrayRef<Statement>(block).drop_front(at + 1), index, {}, {}, {}, reads);
    if (!place.folds)
      std::erase_if(reads, [&](const Read& read) { return BytesOf(read) > kMostCopiedBytes; });
    if (reads.empty()) return {};
    const bool is_checked = IsCallOf(local.value, "CheckedIndex");
    const CExpr id = Expanded(is_checked ? local.value.operand(1) : local.value, place);
    if (id.empty() || !IsCheap(id) || !Loads(id) || Repeats(id)) return {};
    const std::optional<Later> later = LaterOf(id, place);
    if (!later) return {};
    const std::string index_ahead = builder_.Unique(index + "_ahead");
    CExpr value = Substituted(id, later->values);
    if (is_checked) value = Call("IndexOrZero", {value, local.value.operand(2)});
    std::vector<Statement> prefetches = {Statement::Let(local.type, index_ahead, value)};
    for (const Read& read : reads)
      prefetches.push_back(Statement::Call(Call(
          "PrefetchElements",
          {read.buffer + Substituted(read.first, {{index, CExpr(index_ahead)}}), read.count})));
    return {Statement::If(later->exists, std::move(prefetches))};
  }

  std::optional<Later> LaterOf(const CExpr& id, const Place& place) {
    if (id.Mentions(row_)) {
      look_ups_ += place.times;
      return Later{{{row_, ahead_}}, CExpr(ahead_) < rows_};
    }
    const CExpr total = place.entry.empty() ? CExpr() : EntriesOf(id, place.entry);
    if (total.empty()) return std::nullopt;
    const CExpr later =
        CExpr(place.entry) + builder_.expressions().Constant(
                                 "entries_ahead", kEntriesAhead,
                                 "entries from a prefetch to the look-up of what it asks for");
    return Later{{{place.entry, later}}, later < total};
  }

  // The number of elements of the buffer with one axis that the id is read from, at position
  // `entry`; empty if the id is not such a read.
  CExpr EntriesOf(const CExpr& id, const std::string& entry) {
    const Value* buffer = nullptr;
    bool is_read = true;
    ForEachSubscript(id, [&](const CExpr& subscript) {
      if (!subscript.operand(1).Mentions(entry)) return;
      is_read = is_read && subscript.operand(1).Is(entry) && buffer == nullptr;
      for (const KernelParameter& parameter : builder_.plan().parameters) {
        if (subscript.operand(0).Is(parameter.name)) buffer = parameter.value;
      }
    });
    if (!is_read || buffer == nullptr || buffer->type.rank() != 1) return {};
    return builder_.Write(buffer->type.shape[0],
                          CountOf(ModelName(buffer->name) + "_count", "ids of all bags"));
  }

  bool DependsOnRow(const CExpr& condition, const Place& place) const {
    const CExpr expanded = Expanded(condition, place);
    return expanded.empty() || expanded.Mentions(row_) ||
           (!place.entry.empty() && expanded.Mentions(place.entry));
  }

  // Whether consecutive steps of a loop inside the row's read the same id: the id has a column of
  // the result divided by the columns of a table, and the loop copies single elements.
  bool Repeats(const CExpr& id) const {
    const bool divides = id.IsBinary("/") && !id.operand(0).Mentions(row_);
    return divides || std::any_of(id.operands().begin(), id.operands().end(),
                                  [&](const CExpr& operand) { return Repeats(operand); });
  }

  // `expr` in terms of the row and the entry, instead of locals that depend on them; empty if that
  // is long.
  CExpr Expanded(const CExpr& expr, const Place& place) const {
    NamedExprs values;
    bool is_long = false;
    expr.ForEachName([&](std::string_view name) {
      const auto found = place.lets.find(name);
      if (found == place.lets.end() || is_long) return;
      const CExpr value = Expanded(found->second, place);
      is_long = value.empty();
      if (value.Mentions(row_) || (!place.entry.empty() && value.Mentions(place.entry)))
        values[std::string(name)] = value;
    });
    if (is_long) return {};
    const CExpr expanded = Substituted(expr, values);
    return Size(expanded) <= kLongestId ? expanded : CExpr();
  }

  // Adds the reads in `statements` whose position mentions `index` to `reads`, one for each buffer.
  // `firsts` and `counts` are those of the variables of the loops around `statements`, `locals` the
  // names that are declared there.
  void AddReads(ArrayRef<Statement> statements, const std::string& index, NamedExprs firsts,
                NamedExprs counts, std::set<std::string, std::less<>> locals,
                std::vector<Read>& reads) const {
    const auto add = [&](const CExpr& subscript) {
      const CExpr &buffer = subscript.operand(0), &position = subscript.operand(1);
      if (!position.Mentions(index)) return;
      CExpr count = 1;
      bool is_known = true;
      position.ForEachName([&](std::string_view name) {
        if (locals.count(name) != 0) is_known = false;
        const auto found = counts.find(name);
        if (found == counts.end()) return;
        is_known = is_known && count.Is(1) && !found->second.empty();
        count = found->second;
      });
      buffer.ForEachName([&](std::string_view name) {
        if (locals.count(name) != 0 || counts.count(name) != 0) is_known = false;
      });
      const bool is_new = std::none_of(reads.begin(), reads.end(),
                                       [&](const Read& read) { return read.buffer.Is(buffer); });
      if (is_known && is_new) reads.push_back({buffer, Substituted(position, firsts), count});
    };
    for (const Statement& statement : statements) {
      if (statement.kind == Kind::kLet || statement.kind == Kind::kDeclare)
        locals.insert(LocalName(statement));
      ForEachExpr(statement, [&](const CExpr& expr) { ForEachSubscript(expr, add); });
      NamedExprs inner_firsts = firsts, inner_counts = counts;
      if (statement.kind == Kind::kFor) {
        inner_firsts[statement.place.word()] = statement.value;
        inner_counts[statement.place.word()] = LimitOf(statement);
      }
      AddReads(statement.body, index, inner_firsts, inner_counts, locals, reads);
      AddReads(statement.otherwise, index, inner_firsts, inner_counts, locals, reads);
    }
  }

  template <class Visit>
  static void ForEachSubscript(const CExpr& expr, const Visit& visit) {
    if (expr.kind() == ExprKind::kSubscript) visit(expr);
    for (const CExpr& operand : expr.operands()) ForEachSubscript(operand, visit);
  }

  // The limit of a loop that counts from 0 in steps of 1; empty for other loops.
  static CExpr LimitOf(const Statement& loop) {
    const bool counts = loop.value.Is(0) && loop.step.empty() && loop.condition.IsBinary("<") &&
                        loop.condition.operand(0).Is(loop.place);
    return counts ? loop.condition.operand(1) : CExpr();
  }

  static bool IsFold(const Statement& loop) { return loop.place.word().starts_with(kFoldVariable); }

  // The value of a literal or a constant of the kernel.
  std::optional<int64_t> NumberOf(const CExpr& expr) const {
    if (expr.kind() == ExprKind::kLiteral) return std::atoll(expr.word().c_str());
    for (const NamedConstant& constant : builder_.expressions().constants()) {
      if (expr.Is(constant.name) && !constant.is_array()) return NumberOf(constant.value);
    }
    return std::nullopt;
  }

  int64_t BytesOf(const Read& read) const {
    CExpr root = read.buffer;
    while (!root.operands().empty()) root = CExpr(root.operand(0));
    int64_t element_bytes = sizeof(float);
    for (const KernelParameter& parameter : builder_.plan().parameters) {
      if (!root.Is(parameter.name)) continue;
      const Value* value = parameter.tables.empty() ? parameter.value : parameter.tables[0];
      element_bytes = DtypeBytes(value->type.dtype);
    }
    return NumberOf(read.count).value_or(INT32_MAX) * element_bytes;
  }

  KernelBuilder& builder_;
  const std::string row_, ahead_;
  const CExpr& rows_;
  int64_t look_ups_ = 0;  // of a row, by ids at a position that depends on it
  bool has_prefetches_ = false;
};

// The bytes of the tables whose rows the region looks up by ids that are not known before a run.
int64_t BytesOfTables(const Node& region) {
  int64_t bytes = 0;
  for (const auto& node : region.body->nodes) {
    if (node->kind != OpKind::kGather || node->Int("axis") != 0) continue;
    for (size_t i = 0; i < region.operands.size(); ++i) {
      if (region.body->inputs[i].get() == node->operand(0) && IsConstant(region.operands[i]))
        bytes += region.operands[i]->type.Bytes().AsConstant().value_or(0);
    }
  }
  return bytes;
}

}  // namespace

void CloseRowsOnCpu(KernelBuilder& builder, const Node& region, Statement header,
                    const CExpr& rows) {
  header.body = builder.Close();
  const std::string row = header.place.word();
  if (BytesOfTables(region) >= kLargeTables) {
    Prefetcher prefetcher(builder, row, rows);
    const std::optional<std::string> ahead = prefetcher.Add(header.body);
    if (prefetcher.has_prefetches()) builder.Use("prefetch.cuh");
    if (ahead) {
      const CExpr distance =
          builder.expressions().Constant("rows_ahead", prefetcher.RowsAhead(),
                                         "rows from a prefetch to the look-up of what it asks for");
      header.body.insert(header.body.begin(),
                         Statement::Let(builder.plan().index_type, *ahead, CExpr(row) + distance));
    }
  }
  builder.Append(std::move(header));
}

}  // namespace fusec
