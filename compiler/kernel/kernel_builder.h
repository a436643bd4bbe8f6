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

// Writes the body of one kernel: names, parameters, nested scopes. A local (Let) is placed in the
// outermost open scope in which everything that it mentions is known, so that loop-invariant values
// are computed before the loop.
class KernelBuilder {
 public:
  KernelBuilder(TargetKind target, const Graph& program, std::vector<IndexSite>& sites,
                const LaunchShape& shape = {});
  KernelBuilder(const KernelBuilder&) = delete;
  KernelBuilder& operator=(const KernelBuilder&) = delete;
  // A builder in the state in which `planned` was before anything was written, to try out a plan.
  KernelBuilder(KernelBuilder& planned, std::vector<IndexSite>& sites);

  TargetKind target() const { return target_; }
  const LaunchShape& shape() const { return shape_; }
  Ranges& ranges() { return ranges_; }
  IndexWriter& expressions() { return expressions_; }
  KernelPlan& plan() { return plan_; }
  const Graph& program() const { return program_; }
  const std::string& index_type() const { return plan_.index_type; }

  // Reserves the names of the tensors that a region reads and writes for their parameters.
  void ReserveNames(const Node& region);
  // The name that is reserved for `value`, if any.
  std::optional<std::string> ReservedName(const Value* value) const;
  // A name like `wanted` that is not used in this kernel yet. It is a word of the model if `wanted`
  // is one.
  std::string Unique(const std::string& wanted);
  // The name of the parameter that holds `value`; the first call adds it.
  CExpr Buffer(const Value* value, bool written = false);
  // Adds a parameter that holds the constant `weights` in another layout; returns its name.
  std::string InLayout(const Value* weights, WeightLayout layout);
  // Adds a parameter for the constant `size`, so that layers of other sizes can share the kernel;
  // returns its name.
  CExpr SizeParameter(const std::string& wanted_name, int64_t size, const std::string& comment);
  // Adds a parameter that is a struct of pointers to `tables`; returns its name.
  std::string Tables(ArrayRef<const Value*> tables, const std::string& wanted_name);
  // From now on, `value` is read from the buffer `place`, such as tables.first_row[part].
  void Alias(const Value* value, const CExpr& place) { buffers_[value] = place; }
  // The same, where a variable in `place` selects one of several values of one dtype, `of_parts`.
  void AliasOfParts(const Value* value, const CExpr& place, ArrayRef<const Value*> of_parts) {
    buffers_[value] = place;
    values_of_parts_[value] = of_parts;
  }
  // Declares that each op in `nodes` stands for ops of several parts; `variable` is the number of
  // the part.
  void DeclareParts(const std::string& variable,
                    const DenseMap<const Node*, std::vector<const Node*>>& nodes);
  // The ops that `node` stands for; empty if it belongs to no part.
  ArrayRef<const Node*> NodesOfParts(const Node* node) const;
  // The value that `value` stands for in a part.
  const Value* ValueOfPart(const Value* value, size_t part) const;
  // Adds a constant array; returns its name.
  std::string ConstantArray(const std::string& wanted_name, ArrayRef<int64_t> values,
                            const std::string& comment);
  // Describes that `node` reads indices below `extent`, or lengths, from `tensor`.
  IndexSite SiteOf(const Node& node, const Value* tensor, const Expr& extent) const;
  // AddSites adds consecutive index sites and returns the number (from 1) of the first one; the
  // kernel gets the error parameter. SiteName adds the constant with the number of a site and
  // returns its name.
  int AddSites(ArrayRef<IndexSite> sites);
  int AddSite(const IndexSite& site) { return AddSites(site); }
  std::string SiteName(int number, const std::string& where = "");
  // The number of the site of the current part.
  CExpr SiteOfPart(int first) {
    return CExpr(SiteName(first, " in the first part")) + part_variable_;
  }
  void Use(const std::string& device_file);
  // BeginNotes and EndNotes enclose a loop in which a thread folds elements. Inside it, a bad index
  // need not be reported at once: NotedIn returns the local that keeps the first bad index of a
  // check with these arguments (nullopt outside of such a loop), and EndNotes writes the reports
  // after the loop.
  void BeginNotes();
  void EndNotes();
  bool HasNotes() const { return !notes_.reports.empty(); }
  std::optional<CExpr> NotedIn(ArrayRef<CExpr> checked, const CExpr& extent, const CExpr& site);
  // Writes an index expression in C, with numbers named according to `names`; its symbols become
  // parameters.
  CExpr Write(const Expr& expr, const SizeNames& names);

  // Declares a loop variable or local of the innermost scope, with its range.
  Expr DefineVariable(const std::string& name, const Expr& low, const Expr& high);
  void Open(bool is_branch = false);  // a scope; nothing moves out of branches
  std::vector<Statement> Close();
  // Closes the innermost scope, which becomes the body of a loop (LoopHeader) or of an if.
  void CloseFor(Statement header, const std::string& pragma = "");
  void CloseIf(const CExpr& condition) { Append(Statement::If(condition, Close())); }
  void Append(Statement statement);  // to the innermost scope
  // Append `const index_type name = value;`, a call, and `if (condition) statement;` to the
  // innermost scope.
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
  // Declares an uninitialized local in the outermost scope, before the open scopes.
  void DeclareAtTop(const CExpr& type, const CExpr& place) {
    scopes_[0].statements.push_back(Statement::Declare(type, place));
  }
  // Writes `const type name = value;` in the outermost possible scope; returns the name. Names of
  // integers are unique in the whole kernel, because their known ranges are stored by name; other
  // locals may reuse the names of closed scopes.
  std::string Let(const CExpr& type, const std::string& wanted_name, const CExpr& value,
                  const std::string& comment = "");
  // Like Let, for a coordinate of the index type; it may reuse names of closed scopes, too.
  std::string LetCoordinate(const std::string& wanted_name, const CExpr& value);

  // The innermost loop, over consecutive elements that one thread computes (lanes). A fold inside
  // it is written as one loop around a loop over the lanes, so that values that the lanes share are
  // computed once per step.
  struct Lanes {
    std::string variable;
    int64_t count = 0;
    bool vectors = false;   // lanes are loaded and stored as one vector
    std::string pragma;     // before the loop
    CExpr count_name = {};  // the constant that holds `count`
  };
  void OpenLanes(Lanes lanes);
  void CloseLanes();
  const Lanes* lanes() const { return lanes_.count > 0 ? &lanes_ : nullptr; }
  // Whether the innermost scope is the loop over the lanes.
  bool AtLanes() const { return lanes() != nullptr && scopes_.size() == lane_depth_ + 1; }
  // Whether `expr` mentions a name that is only known in the innermost scope.
  bool IsInnermost(const CExpr& expr) const {
    return DepthOf(expr) + 1 == static_cast<int>(scopes_.size());
  }
  // Whether `expr` differs between lanes.
  bool DependsOnLane(const CExpr& expr) const {
    return lane_loop_ > 0 && DepthOf(expr) >= static_cast<int>(lane_loop_);
  }
  bool DependsOnLane(const Expr& expr) const;
  // Whether statements that are written now run only for some of the lanes.
  bool InLaneBranch() const;
  // Whether AtLanes holds, and a read at `index` can be moved before the loop over the lanes: of
  // the names of that loop, the index mentions only the lane.
  bool MaySuspendLanes(ArrayRef<Expr> index) const;
  // Between SuspendLanes and ResumeLanes, statements are written before the loop over the lanes.
  void SuspendLanes();
  void ResumeLanes();
  // Add a statement before or after the loop over the lanes.
  void BeforeLanes(Statement statement);
  void AfterLanes(Statement statement) { after_lanes_.push_back(std::move(statement)); }
  // Writes a loop over the lanes in the open scope. If it `nests`, AtLanes holds inside it.
  void ForLanes(function_ref<void()> body, bool nests = false);
  // Declares an array of one element per lane in the innermost scope.
  void DeclareLaneArray(const CExpr& type, const std::string& name);

  // Scalars that were already computed and are visible in the open scopes, by key.
  const Scalar* Recall(const std::string& key) const;
  void Remember(const std::string& key, const Scalar& scalar);

  KernelPlan Finish();

 private:
  struct Scope {
    std::vector<Statement> statements;
    std::map<std::string, Scalar> memo;
    std::set<std::string> names;  // that other scopes may reuse
    bool is_branch = false;
  };
  int DepthOf(const CExpr& expr) const;
  // The outermost scope in which names of `depth` are known and that is not outside of a branch.
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
  size_t lane_loop_ = 0;   // the scope of the innermost loop over lanes, e.g. in a fold
  std::vector<Scope> suspended_;
  std::vector<Statement> after_lanes_;
  std::map<int, std::string> site_names_;
  // A loop whose bad indices are noted, as are those of the loops inside it.
  struct Notes {
    size_t scope = 0;  // the scope of the loop
    int loops = 0;
    std::vector<Statement> reports;
  };
  Notes notes_;
};

// The C type of an element in memory: "float", "Half", "long long", "bool".
std::string MemoryTypeName(Dtype dtype);

}  // namespace fusec
