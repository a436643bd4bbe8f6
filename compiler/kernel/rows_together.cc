#include "compiler/kernel/rows_together.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernel/idioms.h"
#include "compiler/kernel/statements.h"

namespace fusec {

namespace {

// The number of rows whose loads overlap. Up to kMostTogether rows of 16 bytes fit in the registers
// of a thread, and fewer than kFewTogether do not keep memory busy. Bags of unknown length may be
// short; with more than kOfAnyLength, too many look-ups would be wasted
// (tests/gpu/results/2026-11-26-h200-rows-together.txt).
constexpr int64_t kMostTogether = 12, kFewTogether = 7, kTogether = 8, kOfAnyLength = 4;
constexpr int64_t kOfTile = 4;

using Names = std::set<std::string, std::less<>>;
using Kind = Statement::Kind;

Names NamesIn(const std::vector<Statement>& statements) {
  Names names;
  ForEachStatement(statements, [&](const Statement& statement) {
    ForEachExpr(statement, [&](const CExpr& expr) {
      expr.ForEachName([&](std::string_view name) { names.emplace(name); });
    });
  });
  return names;
}

// The index of the first statement that folds: a loop over lanes with its pragma, or a single
// assignment. nullopt if the statements before it are not all locals.
std::optional<size_t> FoldBegin(const std::vector<Statement>& body) {
  if (body.empty()) return std::nullopt;
  size_t fold = body.size() - 1;
  if (body[fold].kind == Kind::kFor) {
    if (fold > 0 && body[fold - 1].kind == Kind::kPragma) --fold;
  } else if (body[fold].kind != Kind::kAssign) {
    return std::nullopt;
  }
  const bool are_locals = std::all_of(
      body.begin(), body.begin() + static_cast<int64_t>(fold), [](const Statement& statement) {
        return statement.kind == Kind::kLet || statement.kind == Kind::kComment;
      });
  return are_locals && fold > 0 ? std::optional(fold) : std::nullopt;
}

// How many rows are loaded together: all if there are few, else a divisor of their number if
// possible.
int64_t RowsTogether(std::optional<int64_t> count) {
  if (!count) return kOfAnyLength;
  for (int64_t rows = std::min(*count, kMostTogether); rows >= kFewTogether; --rows) {
    if (*count % rows == 0) return rows;
  }
  return *count <= kMostTogether ? *count : kTogether;
}

// The array of locals `name`: table_values_2 of table_value_2.
std::string ArrayOf(const std::string& local) {
  std::string name = WithoutMarks(local);
  size_t end = name.find_last_not_of("0123456789");
  if (end == std::string::npos || name[end] != '_' || end + 1 == name.size()) end = name.size();
  name.insert(end, "s");
  return IsOfModel(local) ? AsModelWord(name) : name;
}

// Whether the value is computed from names and literals alone, so that recomputing it is as cheap
// as keeping it.
bool IsOfNumbers(const CExpr& value) {
  using ExprKind = CExpr::Kind;
  switch (value.kind()) {
    case ExprKind::kName:
    case ExprKind::kLiteral:
      return true;
    case ExprKind::kPrefix:
    case ExprKind::kBinary:
      return std::all_of(value.operands().begin(), value.operands().end(), IsOfNumbers);
    default:
      return false;
  }
}

class Writer {
 public:
  Writer(KernelBuilder& builder, Statement header, const CExpr& last, std::optional<int64_t> count)
      : builder_(builder), header_(std::move(header)), last_(last), count_(count) {}

  // `what` is the comment on the number of rows, `why` the comment on the loops.
  std::vector<Statement> Write(size_t fold, int64_t rows, const char* what, const char* why) {
    why_ = why;
    std::vector<Statement>& body = header_.body;
    is_one_group_ = count_ == rows;
    rows_ = is_one_group_ ? last_ : builder_.expressions().Constant("rows_together", rows, what);
    member_ = is_one_group_ ? header_.place.word() : builder_.Unique("member");
    if (!is_one_group_) group_ = builder_.Unique("group");
    std::vector<Statement> look_up(body.begin(), body.begin() + static_cast<int64_t>(fold));
    std::vector<Statement> folds(body.begin() + static_cast<int64_t>(fold), body.end());
    std::vector<Statement> group = KeepInArrays(look_up, folds);
    if (!is_one_group_) {
      const CExpr row = CExpr(group_) + ByStep(member_);
      const bool may_end = !count_ || *count_ % rows != 0;
      // Beyond the end, the last row is looked up again: a branch would make each look-up wait for
      // its id.
      const CExpr looked_up = may_end ? Conditional(row < last_, row, last_ - 1) : row;
      look_up.insert(look_up.begin(), Entry(looked_up));
      const bool reads_entry = NamesIn(folds).count(header_.place.word()) > 0;
      if (may_end)
        folds = {Statement::If((reads_entry ? header_.place : row) < last_, std::move(folds))};
      if (reads_entry) folds.insert(folds.begin(), Entry(row));
    }
    AppendForRows(group, std::move(look_up));
    AppendForRows(group, std::move(folds));
    if (is_one_group_) return group;
    header_.place = group_;
    header_.condition = CExpr(group_) < last_;
    header_.step = ByStep(rows_);
    header_.body = std::move(group);
    return {std::move(header_)};
  }

 private:
  // Replaces the locals of `look_up` that `folds` reads by elements of arrays; locals that are
  // computed from names and literals alone are computed again instead. Returns the declarations of
  // the arrays.
  std::vector<Statement> KeepInArrays(std::vector<Statement>& look_up,
                                      std::vector<Statement>& folds) {
    for (size_t i = look_up.size(); i-- > 0;) {
      const Statement& local = look_up[i];
      if (local.kind == Kind::kLet && IsOfNumbers(local.value) &&
          NamesIn(folds).count(local.place.word()))
        folds.insert(folds.begin(), local);
    }
    const Names read = NamesIn(folds);
    std::map<std::string, std::string, std::less<>> elements;  // by local
    std::vector<Statement> declarations = {Statement::Comment(why_)};
    for (Statement& statement : look_up) {
      if (statement.kind != Kind::kLet || IsOfNumbers(statement.value) ||
          !read.count(statement.place.word()))
        continue;
      const std::string array = builder_.Unique(ArrayOf(statement.place.word()));
      declarations.push_back(Statement::Declare(statement.type, CExpr(array)[rows_]));
      elements[statement.place.word()] = array + "[" + member_ + "]";
      statement = Statement::Assign(CExpr(array)[member_], statement.value);
    }
    const auto rename = [&](std::string_view name) {
      const auto found = elements.find(name);
      return found == elements.end() ? std::string(name) : found->second;
    };
    for (std::vector<Statement>* statements : {&look_up, &folds}) {
      ForEachStatement(*statements, [&](Statement& statement) {
        ForEachExpr(statement, [&](CExpr& expr) { expr = expr.Renamed(rename); });
      });
    }
    return declarations;
  }

  CExpr ByStep(const CExpr& rows) const {
    return header_.step.empty() ? rows : rows * header_.step;
  }

  Statement Entry(const CExpr& row) const {
    return Statement::Let(header_.type, header_.place, row);
  }

  // A loop over the rows of a group.
  void AppendForRows(std::vector<Statement>& statements, std::vector<Statement> body) const {
    Statement loop = LoopHeader(builder_, member_, 0, rows_);
    loop.body = std::move(body);
    statements.push_back(Statement::Pragma("#pragma unroll"));
    statements.push_back(std::move(loop));
  }

  KernelBuilder& builder_;
  Statement header_;
  const CExpr& last_;
  const std::optional<int64_t> count_;
  const char* why_ = nullptr;
  bool is_one_group_ = false;
  CExpr rows_;
  std::string member_, group_;
};

}  // namespace

std::vector<Statement> WithRowsTogether(KernelBuilder& builder, Statement header, const CExpr& last,
                                        std::optional<int64_t> count) {
  const auto fold = FoldBegin(header.body);
  if (!fold || count == 1) return {std::move(header)};
  return Writer(builder, std::move(header), last, count)
      .Write(*fold, RowsTogether(count), "look-ups of a thread that overlap",
             "all rows of a group are loaded before the first one is folded");
}

std::vector<Statement> WithLoadsTogether(KernelBuilder& builder, Statement header,
                                         const CExpr& last, size_t locals, int64_t rows) {
  const auto begin = header.body.begin();
  const bool has_loads =
      std::any_of(begin, begin + static_cast<int64_t>(locals),
                  [](const Statement& local) { return !IsOfNumbers(local.value); });
  if (!has_loads || rows == 1) return {std::move(header)};
  return Writer(builder, std::move(header), last, std::nullopt)
      .Write(locals, std::min(rows, kOfTile), "rows of a thread whose loads overlap",
             "all rows of a group are loaded before the first one is stored");
}

}  // namespace fusec
