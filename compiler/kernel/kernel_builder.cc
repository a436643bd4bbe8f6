#include "compiler/kernel/kernel_builder.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/c_text.h"
#include "compiler/kernel/idioms.h"
#include "compiler/kernel/statements.h"
#include "compiler/support/check.h"
#include "compiler/support/kernel_words.h"

namespace fusec {

std::string MemoryTypeName(Dtype dtype) {
  if (dtype == Dtype::kF16) return "Half";
  if (dtype == Dtype::kBF16) return "BFloat16";
  return CTypeName(dtype);
}

namespace {

// Removes locals that no later statement of their scope reads; returns the names in the remaining
// statements. Index checks stay, because they report errors.
std::set<std::string> DropUnread(std::vector<Statement>& statements) {
  std::set<std::string> names;
  for (size_t i = statements.size(); i-- > 0;) {
    Statement& statement = statements[i];
    const bool is_unread =
        statement.kind == Statement::Kind::kLet && !names.count(statement.place.word()) &&
        !statement.value.Mentions("CheckedIndex") && !statement.value.Mentions("NotedIndex");
    if (is_unread) {
      statements.erase(statements.begin() + static_cast<int64_t>(i));
      continue;
    }
    // All names except that of a local that the statement defines.
    ForEachExpr(statement, [&](const CExpr& expr) {
      const bool is_local = statement.kind == Statement::Kind::kLet && &expr == &statement.place;
      if (!is_local) expr.ForEachName([&](std::string_view name) { names.emplace(name); });
    });
    names.merge(DropUnread(statement.body));
    names.merge(DropUnread(statement.otherwise));
  }
  return names;
}

}  // namespace

KernelBuilder::KernelBuilder(KernelBuilder& planned, std::vector<IndexSite>& sites)
    : KernelBuilder(planned.target(), planned.program(), sites, planned.shape()) {
  plan_.index_type = planned.index_type();
  if (plan_.index_type != "int") expressions_.CountInLongLong();
  reserved_names_ = planned.reserved_names_;
  for (const auto& [value, name] : reserved_names_) names_.insert(name);
}

KernelBuilder::KernelBuilder(TargetKind target, const Graph& program, std::vector<IndexSite>& sites,
                             const LaunchShape& shape)
    : target_(target),
      program_(program),
      sites_(sites),
      shape_(shape),
      ranges_(program.SymbolRanges()) {
  scopes_.emplace_back();
}

bool KernelBuilder::IsTaken(const std::string& name) const {
  const auto holds = [&](const Scope& scope) { return scope.names.count(name) != 0; };
  return names_.count(name) || KernelWords().count(name) ||
         std::any_of(scopes_.begin(), scopes_.end(), holds) ||
         std::any_of(suspended_.begin(), suspended_.end(), holds);
}

std::string KernelBuilder::FirstFree(const std::string& wanted) const {
  const bool is_of_model = IsOfModel(wanted);
  const auto word = [&](const std::string& text) { return is_of_model ? AsModelWord(text) : text; };
  // A local with the name of a parameter gets another stem.
  const bool is_buffer =
      std::any_of(reserved_names_.begin(), reserved_names_.end(),
                  [&](const auto& reserved) { return reserved.second == word(wanted); });
  const std::string stem = is_buffer ? wanted + "_value" : wanted;
  std::string name = word(stem);
  for (int i = 2; IsTaken(name); ++i) name = word(stem + "_" + std::to_string(i));
  return name;
}

std::string KernelBuilder::Unique(const std::string& wanted) {
  const std::string name = FirstFree(wanted);
  names_.insert(name);
  depth_of_.erase(name);  // that of a local in a closed scope
  return name;
}

void KernelBuilder::ReserveNames(const Node& region) {
  const auto reserve = [&](const Value* value) {
    if (reserved_names_.count(value)) return;
    const std::string name = Unique(ModelName(value->name));
    reserved_names_[value] = name;
  };
  for (const auto& result : region.results) reserve(result.get());
  for (const Value* operand : region.operands) {
    const bool is_number = IsConstant(operand) && operand->type.ElementCount().IsConstant(1);
    if (!is_number) reserve(operand);
  }
}

std::optional<std::string> KernelBuilder::ReservedName(const Value* value) const {
  const auto found = reserved_names_.find(value);
  return found == reserved_names_.end() ? std::nullopt : std::optional(found->second);
}

CExpr KernelBuilder::Buffer(const Value* value, bool written) {
  auto found = buffers_.find(value);
  if (found == buffers_.end()) {
    const auto reserved = reserved_names_.find(value);
    const std::string name =
        reserved != reserved_names_.end() ? reserved->second : Unique(ModelName(value->name));
    found = buffers_.try_emplace(value, name).first;
    if (value->type.dtype == Dtype::kF16 || value->type.dtype == Dtype::kBF16) Use("half.cuh");
    KernelParameter parameter;
    parameter.value = value;
    parameter.written = written;
    parameter.name = name;
    plan_.parameters.push_back(parameter);
  }
  return found->second;
}

std::string KernelBuilder::InLayout(const Value* weights, WeightLayout layout) {
  KernelParameter parameter;
  parameter.value = weights;
  parameter.layout = layout;
  const char* suffix = layout == WeightLayout::kTf32 ? "_rounded" : "_panels";
  parameter.name = Unique(ModelName(weights->name) + suffix);
  plan_.parameters.push_back(parameter);
  return parameter.name;
}

CExpr KernelBuilder::SizeParameter(const std::string& wanted_name, int64_t size,
                                   const std::string& comment) {
  KernelParameter parameter;
  parameter.kind = KernelParameter::Kind::kDim;
  parameter.name = Unique(wanted_name);
  parameter.dim = size;
  parameter.comment = comment;
  plan_.parameters.push_back(parameter);
  return parameter.name;
}

std::string KernelBuilder::Tables(ArrayRef<const Value*> tables, const std::string& wanted_name) {
  KernelParameter parameter;
  parameter.kind = KernelParameter::Kind::kTables;
  parameter.tables = tables;
  parameter.name = Unique(wanted_name);
  plan_.parameters.push_back(parameter);
  const Dtype dtype = tables[0]->type.dtype;
  if (dtype == Dtype::kF16 || dtype == Dtype::kBF16) Use("half.cuh");
  Use("tables.cuh");
  return parameter.name;
}

std::string KernelBuilder::ConstantArray(const std::string& wanted_name, ArrayRef<int64_t> values,
                                         const std::string& comment) {
  const std::string name = Unique(wanted_name);
  plan_.constants.push_back(
      {plan_.index_type, name, List(std::vector<CExpr>(values.begin(), values.end())), comment});
  return name;
}

void KernelBuilder::DeclareParts(const std::string& variable,
                                 const DenseMap<const Node*, std::vector<const Node*>>& nodes) {
  part_variable_ = variable;
  for (const auto& [node, of_parts] : nodes) nodes_of_parts_[node] = of_parts;
}

ArrayRef<const Node*> KernelBuilder::NodesOfParts(const Node* node) const {
  const auto found = nodes_of_parts_.find(node);
  if (found == nodes_of_parts_.end()) return {};
  return found->second;
}

const Value* KernelBuilder::ValueOfPart(const Value* value, size_t part) const {
  const auto found = values_of_parts_.find(value);
  return found == values_of_parts_.end() ? value : found->second[part];
}

void KernelBuilder::Use(const std::string& device_file) {
  auto& files = plan_.device_files;
  if (std::find(files.begin(), files.end(), device_file) == files.end())
    files.push_back(device_file);
}

void KernelBuilder::AddDims(const Expr& expr) {
  std::vector<std::string> symbols;
  expr.CollectSymbols(symbols);
  for (const std::string& symbol : symbols) {
    const std::string name = WordOfSymbol(symbol);
    const bool known = std::any_of(plan_.parameters.begin(), plan_.parameters.end(), [&](auto& p) {
      return p.kind == KernelParameter::Kind::kDim && p.name == name;
    });
    if (VariableOf(symbol) || known) continue;
    KernelParameter parameter;
    parameter.kind = KernelParameter::Kind::kDim;
    parameter.name = name;
    parameter.dim = Expr::Symbol(symbol);
    plan_.parameters.push_back(parameter);
  }
}

CExpr KernelBuilder::Write(const Expr& expr, const SizeNames& names) {
  AddDims(expr);
  return expressions_.Write(expr, names);
}

Expr KernelBuilder::DefineVariable(const std::string& name, const Expr& low, const Expr& high) {
  names_.insert(name);
  depth_of_[name] = static_cast<int>(scopes_.size()) - 1;
  expressions_.ForgetFactor(name);
  return SetVariable(ranges_, name, low, high);
}

void KernelBuilder::Open(bool is_branch) {
  scopes_.emplace_back();
  scopes_.back().is_branch = is_branch;
}

std::vector<Statement> KernelBuilder::Close() {
  FUSEC_CHECK(scopes_.size() > 1, "the kernel's outermost scope is closed by Finish");
  std::vector<Statement> statements = std::move(scopes_.back().statements);
  scopes_.pop_back();
  return statements;
}

void KernelBuilder::CloseFor(Statement header, const std::string& pragma) {
  header.body = Close();
  if (!pragma.empty()) Append(Statement::Pragma(pragma));
  Append(std::move(header));
}

void KernelBuilder::Append(Statement statement) {
  const bool declares =
      statement.kind == Statement::Kind::kLet || statement.kind == Statement::Kind::kDeclare;
  if (declares) names_.insert(LocalName(statement));
  scopes_.back().statements.push_back(std::move(statement));
}

void KernelBuilder::Declare(const CExpr& type, const std::string& name, const CExpr& value) {
  depth_of_[name] = static_cast<int>(scopes_.size()) - 1;
  Append(Statement::Declare(type, name, value));
}

void KernelBuilder::OpenLanes(Lanes lanes) {
  lanes_ = std::move(lanes);
  Open();
  lane_depth_ = lane_loop_ = scopes_.size() - 1;
  DefineVariable(lanes_.variable, 0, Expr(lanes_.count) - 1);
}

bool KernelBuilder::InLaneBranch() const {
  for (size_t s = lane_loop_ + 1; s < scopes_.size(); ++s) {
    if (scopes_[s].is_branch) return true;
  }
  return false;
}

void KernelBuilder::CloseLanes() {
  FUSEC_CHECK(AtLanes(), "the lanes' loop is not the innermost one");
  CloseFor(LoopHeader(*this, lanes_.variable, 0, lanes_.count_name), lanes_.pragma);
  for (Statement& statement : after_lanes_) Append(std::move(statement));
  after_lanes_.clear();
  lanes_ = {};
  lane_depth_ = lane_loop_ = 0;
}

bool KernelBuilder::MaySuspendLanes(ArrayRef<Expr> index) const {
  std::vector<std::string> symbols;
  for (const Expr& coordinate : index) coordinate.CollectSymbols(symbols);
  return AtLanes() && std::none_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
           const std::string word = WordOfSymbol(symbol);
           return word != lanes_.variable && IsInnermost(CExpr::Parse(word));
         });
}

void KernelBuilder::SuspendLanes() {
  suspended_.push_back(std::move(scopes_.back()));
  scopes_.pop_back();
  lane_depth_ = lane_loop_ = 0;
}

void KernelBuilder::ResumeLanes() {
  scopes_.push_back(std::move(suspended_.back()));
  suspended_.pop_back();
  lane_depth_ = lane_loop_ = scopes_.size() - 1;
  DefineVariable(lanes_.variable, 0, Expr(lanes_.count) - 1);
}

void KernelBuilder::BeforeLanes(Statement statement) {
  scopes_[lane_depth_ - 1].statements.push_back(std::move(statement));
}

void KernelBuilder::ForLanes(function_ref<void()> body, bool nests) {
  Open();
  lane_loop_ = scopes_.size() - 1;
  if (nests) lane_depth_ = lane_loop_;
  DefineVariable(lanes_.variable, 0, Expr(lanes_.count) - 1);
  body();
  lane_depth_ = lane_loop_ = 0;
  if (scopes_.back().statements.empty())
    Close();
  else
    CloseFor(LoopHeader(*this, lanes_.variable, 0, lanes_.count_name), lanes_.pragma);
}

void KernelBuilder::DeclareLaneArray(const CExpr& type, const std::string& name) {
  depth_of_[name] = static_cast<int>(scopes_.size()) - 1;
  Append(Statement::Declare(type, CExpr(name)[lanes_.count_name]));
}

int KernelBuilder::DepthOf(const CExpr& expr) const {
  int depth = 0;
  expr.ForEachName([&](std::string_view name) {
    if (const auto found = depth_of_.find(name); found != depth_of_.end())
      depth = std::max(depth, found->second);
  });
  return depth;
}

size_t KernelBuilder::ScopeFor(int depth) const {
  auto scope = static_cast<size_t>(depth);
  for (size_t s = scope + 1; s < scopes_.size(); ++s) {
    if (scopes_[s].is_branch) scope = s;
  }
  return scope;
}

bool KernelBuilder::DependsOnLane(const Expr& expr) const {
  std::vector<std::string> symbols;
  expr.CollectSymbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
    return DependsOnLane(CExpr::Parse(WordOfSymbol(symbol)));
  });
}

std::string KernelBuilder::Let(const CExpr& type, const std::string& wanted_name,
                               const CExpr& value, const std::string& comment) {
  const bool is_vector = type.kind() == CExpr::Kind::kTemplate;
  const bool is_integer = type.word() != "float" && type.word() != "double" && !is_vector;
  return LetAs(type, wanted_name, !is_integer, value, comment);
}

std::string KernelBuilder::LetCoordinate(const std::string& wanted_name, const CExpr& value) {
  return LetAs(plan_.index_type, wanted_name, true, value, "");
}

std::string KernelBuilder::LetAs(const CExpr& type, const std::string& wanted_name,
                                 bool shares_names, const CExpr& value,
                                 const std::string& comment) {
  Scope& scope = scopes_[ScopeFor(DepthOf(value))];
  const std::string name = FirstFree(wanted_name);
  (shares_names ? scope.names : names_).insert(name);
  depth_of_[name] = static_cast<int>(&scope - scopes_.data());
  expressions_.ForgetFactor(name);
  if (!comment.empty()) scope.statements.push_back(Statement::Comment(comment));
  scope.statements.push_back(Statement::Let(type, name, value));
  return name;
}

const Scalar* KernelBuilder::Recall(const std::string& key) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (auto found = scope->memo.find(key); found != scope->memo.end()) return &found->second;
  }
  return nullptr;
}

void KernelBuilder::Remember(const std::string& key, const Scalar& scalar) {
  scopes_[ScopeFor(DepthOf(scalar.value))].memo[key] = scalar;
}

KernelPlan KernelBuilder::Finish() {
  FUSEC_CHECK(scopes_.size() == 1, "a scope of the kernel is still open");
  plan_.body = std::move(scopes_.back().statements);
  const std::set<std::string> names = DropUnread(plan_.body);
  std::vector<NamedConstant> sizes = expressions_.constants();
  const auto is_unread = [&](const NamedConstant& constant) { return !names.count(constant.name); };
  std::erase_if(sizes, is_unread);
  std::erase_if(plan_.constants, is_unread);
  plan_.constants.insert(plan_.constants.begin(), sizes.begin(), sizes.end());
  // The order of parameters: buffers that are read, buffers that are written, dims, sizes, errors.
  std::stable_sort(plan_.parameters.begin(), plan_.parameters.end(), [](auto& a, auto& b) {
    auto rank = [](const KernelParameter& p) {
      if (p.kind == KernelParameter::Kind::kDim) return p.dim.AsConstant() ? 3 : 2;
      return p.written ? 1 : 0;
    };
    return rank(a) < rank(b);
  });
  if (needs_errors_) {
    KernelParameter parameter;
    parameter.kind = KernelParameter::Kind::kErrors;
    parameter.name = "errors";
    plan_.parameters.push_back(parameter);
  }
  NameModelWords(plan_);
  return std::move(plan_);
}

}  // namespace fusec
