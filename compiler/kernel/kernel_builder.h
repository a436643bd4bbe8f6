#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/index/variables.h"
#include "compiler/ir/op_def.h"
#include "compiler/kernel/index_writer.h"
#include "compiler/kernel/kernel_plan.h"
#include "compiler/kernel/launch_shape.h"
#include "compiler/kernel/model_names.h"
#include "compiler/support/adt.h"

namespace fusec {

// Writes the body of one kernel: names, parameters, nested scopes. A statement lands in the
// outermost open scope that knows everything it mentions, so what does not change inside a loop is
// computed before it.
class KernelBuilder {
 public:
  KernelBuilder(TargetKind target, const Graph& program, std::vector<IndexSite>& sites,
                const LaunchShape& shape = {});
  KernelBuilder(const KernelBuilder&) = delete;
  KernelBuilder& operator=(const KernelBuilder&) = delete;
  // As `planned` was before anything was written, to try what a plan would write.
  KernelBuilder(KernelBuilder& planned, std::vector<IndexSite>& sites);

  TargetKind target() const { return target_; }
  const LaunchShape& shape() const { return shape_; }
  Ranges& ranges() { return ranges_; }
  IndexWriter& expressions() { return expressions_; }
  KernelPlan& plan() { return plan_; }
  const Graph& program() const { return program_; }
  const std::string& index_type() const { return plan_.index_type; }

  // Keeps the names of the tensors that a region reads and writes for their parameters.
  void ReserveNames(const Node& region);
  // The name that is kept for `value`, if one is.
  std::optional<std::string> ReservedName(const Value* value) const;
  // A name that nothing in this kernel has yet; a word of the model if `wanted` is one.
  std::string Unique(const std::string& wanted);
  // The parameter that holds `value` (added on first use).
  CExpr Buffer(const Value* value, bool written = false);
  // The parameter that holds the constant `weights` in another layout, added by each call.
  std::string InLayout(const Value* weights, WeightLayout layout);
  // A parameter for `size`, which is constant, in kernels that serve layers of other sizes as well;
  // its name.
  CExpr SizeParameter(const std::string& wanted_name, int64_t size, const std::string& comment);
  // A struct of pointers to `tables`; returns its name.
  std::string Tables(ArrayRef<const Value*> tables, const std::string& wanted_name);
  // From now on `value` is read as `place`, such as tables.first_row[part].
  void Alias(const Value* value, const CExpr& place) { buffers_[value] = place; }
  // The same where `part`, a variable, chooses one of several values of one dtype.
  void AliasOfParts(const Value* value, const CExpr& place, ArrayRef<const Value*> of_parts) {
    buffers_[value] = place;
    values_of_parts_[value] = of_parts;
  }
  // Ops that stand for those of several parts, by the variable that counts the parts.
  void DeclareParts(const std::string& variable,
                    const DenseMap<const Node*, std::vector<const Node*>>& nodes);
  // The ops that `node` stands for; none if it is of no part.
  ArrayRef<const Node*> NodesOfParts(const Node* node) const;
  // What `value` is for a part.
  const Value* ValueOfPart(const Value* value, size_t part) const;
  // A constant array of this kernel; returns its name.
  std::string ConstantArray(const std::string& wanted_name, ArrayRef<int64_t> values,
                            const std::string& comment);
  // Where `node` takes indices below `extent`, or lengths, from `tensor`.
  IndexSite SiteOf(const Node& node, const Value* tensor, const Expr& extent) const;
  // The number (from 1) of the first of some index sites, which follow one another, and the
  // constant of this kernel that holds it; the kernel gets the error parameter.
  int AddSites(ArrayRef<IndexSite> sites);
  int AddSite(const IndexSite& site) { return AddSites(site); }
  std::string SiteName(int number, const std::string& where = "");
  // The number of the site of the part that the variable counts.
  CExpr SiteOfPart(int first) {
    return CExpr(SiteName(first, " in the first part")) + part_variable_;
  }
  void Use(const std::string& device_file);
  // A loop over what a thread folds is about to be written, and was. Between them a check of an
  // index in it, of these arguments, need not report at once: NotedIn names the local that keeps
  // the first bad one, if there is such a loop, and EndNotes reports it.
  void BeginNotes();
  void EndNotes();
  bool HasNotes() const { return !notes_.reports.empty(); }
  std::optional<CExpr> NotedIn(ArrayRef<CExpr> checked, const CExpr& extent, const CExpr& site);
  // An index expression in C, with numbers called as `names` say; its symbols become parameters.
  CExpr Write(const Expr& expr, const SizeNames& names);

  // Declares a loop variable or local that lives in the innermost scope.
  Expr DefineVariable(const std::string& name, const Expr& low, const Expr& high);
  void Open(bool is_branch = false);  // a scope; branches keep everything they contain
  std::vector<Statement> Close();
  // The open scope becomes the body of a loop (LoopHeader), unrolled or not, or of an if.
  void CloseFor(Statement header, const std::string& pragma = "");
  void CloseIf(const CExpr& condition) { Append(Statement::If(condition, Close())); }
  void Append(Statement statement);  // to the innermost scope, where it stands
  // `const index_type name = value;` and `if (condition) statement;`, where they stand
  void AppendLet(const std::string& name, const CExpr& value) {
    Append(Statement::Let(plan_.index_type, name, value));
  }
  void AppendCall(const CExpr& call) { Append(Statement::Call(call)); }
  void AppendIf(const CExpr& condition, const CExpr& statement) {
    Append(Statement::If(condition, {Statement::Call(statement)}));
  }
  void Comment(const std::string& text) { Append(Statement::Comment(text)); }
  void Blank() { Append({.kind = Statement::Kind::kBlank}); }
  void Assign(const CExpr& place, const CExpr& value) { Append(Statement::Assign(place, value)); }
  void Declare(const CExpr& type, const std::string& name, const CExpr& value = {});
  // An uninitialised local of the outermost scope, in front of what is open.
  void DeclareAtTop(const CExpr& type, const CExpr& place) {
    scopes_[0].statements.push_back(Statement::Declare(type, place));
  }
  // `const type name = value;` in the outermost scope possible; returns the name. Integers have
  // names of their own in the whole kernel, because facts about them are known by these; others may
  // share a name with what no open scope holds.
  std::string Let(const CExpr& type, const std::string& wanted_name, const CExpr& value,
                  const std::string& comment = "");
  // As Let, for a coordinate of the index type: it shares names, too.
  std::string LetCoordinate(const std::string& wanted_name, const CExpr& value);

  // The innermost loop over neighbouring elements that one thread makes. A fold inside it becomes
  // one loop around such a loop, so that what lanes share is computed once per step.
  struct Lanes {
    std::string variable;
    int64_t count = 0;
    bool vectors = false;   // the lanes' elements are loaded and stored at once
    std::string pragma;     // in front of the loop
    CExpr count_name = {};  // the constant that holds `count`
  };
  void OpenLanes(Lanes lanes);
  void CloseLanes();
  const Lanes* lanes() const { return lanes_.count > 0 ? &lanes_ : nullptr; }
  // Whether the innermost scope is that loop.
  bool AtLanes() const { return lanes() != nullptr && scopes_.size() == lane_depth_ + 1; }
  // Whether `expr` mentions what is only known in the innermost scope.
  bool IsInnermost(const CExpr& expr) const {
    return DepthOf(expr) + 1 == static_cast<int>(scopes_.size());
  }
  // Whether `expr` differs between lanes.
  bool DependsOnLane(const CExpr& expr) const {
    return lane_loop_ > 0 && DepthOf(expr) >= static_cast<int>(lane_loop_);
  }
  bool DependsOnLane(const Expr& expr) const;
  // Whether what is written now runs for some of the lanes only.
  bool InLaneBranch() const;
  // Whether AtLanes holds, and what is read at `index` can be read in front of the lanes' loop: of
  // what is known in that loop only, it takes the lane alone.
  bool MaySuspendLanes(ArrayRef<Expr> index) const;
  // Statements from here on stand in front of the lanes' loop.
  void SuspendLanes();
  void ResumeLanes();
  // A statement in front of the lanes' loop, and one behind it.
  void BeforeLanes(Statement statement);
  void AfterLanes(Statement statement) { after_lanes_.push_back(std::move(statement)); }
  // A loop over the lanes where the open scope is; inside it AtLanes holds if it `nests`.
  void ForLanes(function_ref<void()> body, bool nests = false);
  // An array of one element per lane that lives in the innermost scope.
  void DeclareLaneArray(const CExpr& type, const std::string& name);

  // Scalars already computed, visible in the open scopes.
  const Scalar* Recall(const std::string& key) const;
  void Remember(const std::string& key, const Scalar& scalar);

  KernelPlan Finish();

 private:
  struct Scope {
    std::vector<Statement> statements;
    std::map<std::string, Scalar> memo;
    std::set<std::string> names;  // that another scope may have as well
    bool is_branch = false;
  };
  int DepthOf(const CExpr& expr) const;
  // The outermost scope that knows what stands at `depth` and keeps what branches contain.
  size_t ScopeFor(int depth) const;
  void AddDims(const Expr& expr);  // as parameters
  bool IsTaken(const std::string& name) const;
  std::string FirstFree(const std::string& wanted) const;
  std::string LetAs(const CExpr& type, const std::string& wanted_name, bool shares_names,
                    const CExpr& value, const std::string& comment);

  TargetKind target_;
  const Graph& program_;
  std::vector<IndexSite>& sites_;
  std::string part_variable_;
  DenseMap<const Node*, std::vector<const Node*>> nodes_of_parts_;
  DenseMap<const Value*, std::vector<const Value*>> values_of_parts_;
  const LaunchShape shape_;
  Ranges ranges_;
  IndexWriter expressions_{ranges_};
  KernelPlan plan_;
  std::set<std::string> names_;
  std::map<std::string, int, std::less<>> depth_of_;  // by local name
  std::vector<Scope> scopes_;
  DenseMap<const Value*, CExpr> buffers_;
  DenseMap<const Value*, std::string> reserved_names_;
  bool needs_errors_ = false;
  Lanes lanes_;
  size_t lane_depth_ = 0;  // 0: suspended
  size_t lane_loop_ = 0;   // the scope of the innermost loop over lanes, such as one inside a fold
  std::vector<Scope> suspended_;
  std::vector<Statement> after_lanes_;
  std::map<int, std::string> site_names_;
  // Of a loop, and those inside it, whose bad indices are noted.
  struct Notes {
    size_t scope = 0;  // that the loop stands in
    int loops = 0;
    std::vector<Statement> reports;
  };
  Notes notes_;
};

// C type of an element in memory: "float", "Half", "long long", "bool".
std::string MemoryTypeName(Dtype dtype);

}  // namespace fusec
