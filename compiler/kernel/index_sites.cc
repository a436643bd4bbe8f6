// The places where a kernel checks indices, and the reports of indices that are out of range.
#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/kernel/kernel_builder.h"

namespace fusec {

const char* WordFor(IndexValues values) {
  if (values == IndexValues::kLength) return "length";
  return values == IndexValues::kSlot ? "slot" : "index";
}

IndexSite KernelBuilder::SiteOf(const Node& node, const Value* tensor, const Expr& extent) const {
  IndexSite site;
  site.node = !node.provenance.empty() && !node.provenance[0].onnx_node.empty()
                  ? node.provenance[0].onnx_node
                  : std::string(GetOpDef(node.kind).text);
  // The manifest knows only the dims of the model; instead of a row count that depends on the part,
  // it has the smallest one.
  std::vector<std::string> symbols;
  extent.CollectSymbols(symbols);
  const bool known = std::all_of(symbols.begin(), symbols.end(), [&](const std::string& name) {
    return std::any_of(program_.symbols.begin(), program_.symbols.end(),
                       [&](const DimSymbol& dim) { return dim.name == name; });
  });
  site.extent = known ? extent : Expr(ranges_.IntervalOf(extent).low);
  site.tensor = tensor->name;
  site.shape = tensor->type.shape;
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    if (program_.inputs[i].get() == tensor) site.input = site.tensor = program_.InputName(i);
  }
  return site;
}

int KernelBuilder::AddSites(ArrayRef<IndexSite> sites) {
  auto found = std::search(sites_.begin(), sites_.end(), sites.begin(), sites.end());
  if (found == sites_.end()) found = sites_.insert(sites_.end(), sites.begin(), sites.end());
  needs_errors_ = true;
  Use("index_check.cuh");
  return static_cast<int>(found - sites_.begin()) + 1;
}

std::string KernelBuilder::SiteName(int number, const std::string& where) {
  auto found = site_names_.find(number);
  if (found == site_names_.end()) {
    const IndexSite& site = sites_[number - 1];
    const std::string name = Unique("k" + PascalCase(ModelName(site.tensor)) + "Site");
    const std::string what = WordFor(site.values);
    plan_.constants.push_back(
        {"int", name, number, "reported with a bad " + what + where + ": " + site.node});
    found = site_names_.emplace(number, name).first;
  }
  return found->second;
}

void KernelBuilder::BeginNotes() {
  if (target_ == TargetKind::kCpu) return;  // a branch that is never taken costs nothing there
  if (notes_.loops++ == 0) notes_.scope = scopes_.size() - 1;
}

void KernelBuilder::EndNotes() {
  if (target_ == TargetKind::kCpu || --notes_.loops > 0) return;
  for (Statement& report : notes_.reports) Append(std::move(report));
  notes_.reports.clear();
}

std::optional<CExpr> KernelBuilder::NotedIn(ArrayRef<CExpr> checked, const CExpr& extent,
                                            const CExpr& site) {
  if (notes_.loops == 0) return std::nullopt;
  const bool is_inside = std::any_of(checked.begin(), checked.end(), [&](const CExpr& expr) {
    return ScopeFor(DepthOf(expr)) > notes_.scope;
  });
  const auto loop = static_cast<int>(notes_.scope);
  if (!is_inside || DepthOf(extent) > loop || DepthOf(site) > loop) return std::nullopt;
  const std::string name = FirstFree("bad_index");
  scopes_[notes_.scope].names.insert(name);
  depth_of_[name] = loop;
  scopes_[notes_.scope].statements.push_back(Statement::Declare("BadIndex", name));
  notes_.reports.push_back(Statement::Call(Call("ReportNoted", {name, extent, "errors", site})));
  return name;
}

}  // namespace fusec
