#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/artifact/manifest_json.h"
#include "compiler/driver/cli/cli.h"
#include "compiler/driver/explain/dot_graph.h"
#include "compiler/driver/explain/explanation.h"
#include "compiler/driver/explain/kernel_page.h"
#include "compiler/driver/explain/ptx_summary.h"
#include "compiler/driver/explain/weights_story.h"
#include "compiler/driver/shard/plan_text.h"
#include "compiler/driver/tune/tuning_table.h"
#include "compiler/support/adt.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

std::string Traffic(int64_t bytes) { return FormatBytes(static_cast<double>(bytes)); }

void PrintStep(const ExplainedStep& step) {
  constexpr size_t kShown = 6;
  std::printf("\n  %s   class %s\n", Bold(step.name).c_str(), step.op_class.c_str());
  std::printf("    ops     %s\n", CountedText(step.ops).c_str());
  if (!step.onnx_nodes.empty())
    std::printf("    from    %s\n", Shorten(step.onnx_nodes, kShown).c_str());
  if (!step.modules.empty()) std::printf("    modules %s\n", Shorten(step.modules, kShown).c_str());
  if (!step.launch.empty()) std::printf("    launch  %s\n", step.launch.c_str());
  std::printf("    reads   %s: %s\n", Traffic(step.bytes_read).c_str(),
              Shorten(step.inputs, kShown).c_str());
  std::printf("    writes  %s: %s\n", Traffic(step.bytes_written).c_str(),
              Shorten(step.outputs, kShown).c_str());
  if (step.flops > 0)
    std::printf("    flops   %s\n", FormatCount(static_cast<double>(step.flops)).c_str());
  if (!step.edited.empty())
    std::printf("    edited  check against its unfused ops: %s\n", step.edited.c_str());
  const std::string& function = step.code.function;
  if (!function.empty() && function != step.name)
    std::printf("    code    shared with the identical kernel %s\n", function.c_str());
}

// Prints the tensors that cross memory between kernels. Edges that differ only in the op that reads
// the tensor are printed as one.
void PrintEdges(const Explanation& e) {
  if (e.not_fused.empty()) return;
  std::map<std::string, int64_t> crossing;  // each tensor once, however many ops read it
  int64_t bytes = 0;
  for (const NotFusedEdge& edge : e.not_fused) {
    if (crossing.emplace(edge.tensor, edge.bytes).second) bytes += edge.bytes;
  }
  std::printf("\nwhat still crosses memory between kernels, and why: %s, %s\n",
              Plural(static_cast<int64_t>(crossing.size()), "tensor").c_str(),
              Traffic(bytes).c_str());
  for (size_t i = 0; i < e.not_fused.size(); ++i) {
    const NotFusedEdge& edge = e.not_fused[i];
    std::vector<std::string> consumers = {edge.consumer};
    const auto is_alike = [&](const NotFusedEdge& next) {
      return next.tensor == edge.tensor && next.consumer_step == edge.consumer_step &&
             next.reason == edge.reason;
    };
    for (; i + 1 < e.not_fused.size() && is_alike(e.not_fused[i + 1]); ++i)
      consumers.push_back(e.not_fused[i + 1].consumer);
    std::printf("\n  %s -> %s   %s %s, %s\n", Bold(edge.producer_step).c_str(),
                Bold(edge.consumer_step).c_str(), edge.tensor.c_str(), edge.type.c_str(),
                Traffic(edge.bytes).c_str());
    std::printf("    edge    %s -> %s\n", edge.producer.c_str(), Join(consumers, ", ").c_str());
    std::string reason = edge.reason;
    for (size_t at = 0; (at = reason.find("; ", at)) != std::string::npos; at += 2)
      reason.replace(at, 2, "\n            ");
    std::printf("    why     %s\n", reason.c_str());
    if (!edge.needed.empty()) std::printf("    needs   %s\n", edge.needed.c_str());
  }
}

void PrintStoredTables(ArrayRef<StoredTable> tables) {
  if (tables.empty()) return;
  std::vector<std::vector<std::string>> rows = {
      {"  table", "storage", "rows", "columns", "bytes before", "after"}};
  for (const StoredTable& table : tables) {
    rows.push_back({"  " + table.table, table.storage, std::to_string(table.rows),
                    std::to_string(table.columns), Traffic(table.bytes_before),
                    Traffic(table.bytes)});
  }
  std::printf("\ntables that are stored in fewer bits than in the model (--table-storage)\n\n%s",
              FormatTable(rows, "llrrrr").c_str());
}

void PrintFloat8Products(ArrayRef<Float8Product> products) {
  if (products.empty()) return;
  std::vector<std::vector<std::string>> rows = {{"  layer", "columns", "terms", "error", "", ""}};
  for (const Float8Product& product : products) {
    rows.push_back({"  " + product.layer, std::to_string(product.columns),
                    std::to_string(product.terms), FormatNumber(product.error),
                    product.kept.empty() ? "fp8" : "not fp8", product.kept});
  }
  std::printf(
      "\nlayers that fp8 was considered for (--matmul-precision fp8), with the relative L2 error "
      "that rounding to fp8 causes for normally distributed rows\n\n%s",
      FormatTable(rows, "lrrrll").c_str());
}

void PrintPlacedTables(ArrayRef<PlacedTable> tables) {
  if (tables.empty()) return;
  std::vector<std::vector<std::string>> rows = {
      {"  table", "placement", "bytes", "rows cached on the GPU"}};
  for (const PlacedTable& table : tables) {
    rows.push_back({"  " + table.table, "host", Traffic(table.bytes),
                    table.cached_rows > 0 ? std::to_string(table.cached_rows) : "none"});
  }
  std::printf(
      "\ntables in host memory, whose rows kernels read over the bus (--table-placement); all "
      "other weights are in GPU memory\n\n%s",
      FormatTable(rows, "llrr").c_str());
}

void PrintAdapters(const ArtifactAdapters& adapters) {
  std::vector<std::vector<std::string>> rows = {{"  layer", "inputs", "outputs"}};
  std::set<std::string> modules;
  for (const AdapterSite& site : adapters.sites) {
    if (!modules.insert(site.module).second) continue;  // another target's
    rows.push_back({"  " + site.module, std::to_string(site.inputs), std::to_string(site.outputs)});
  }
  std::printf("\nlayers with %s for LoRA adapters of rank up to %s (--adapters)\n\n%s",
              Plural(adapters.slots.slots, "slot").c_str(),
              std::to_string(adapters.slots.rank).c_str(), FormatTable(rows, "lrr").c_str());
}

void PrintRequests(const ArtifactRequests& requests) {
  constexpr size_t kShown = 12;
  const RequestSplit& split = requests.split;
  std::vector<std::string> ops, values;
  for (const RequestSplit::Op& op : split.per_request) {
    ops.push_back(op.op);
    values.push_back(op.value);
  }
  std::printf("\nwhat is computed per request, and what per item (--per-request %s%s)\n\n",
              Join(requests.per_request.inputs, ",").c_str(),
              requests.per_request.is_mapped ? " --request-map" : "");
  std::printf("  per request  %s\n", ops.empty() ? "nothing" : CountedText(ops).c_str());
  if (!values.empty()) std::printf("    values     %s\n", Shorten(values, kShown).c_str());
  for (const RequestSplit::Seam& seam : split.seams) {
    std::printf("  split        product %s: %s per request, %s per item\n", seam.value.c_str(),
                Plural(seam.columns_of_request, "column").c_str(),
                std::to_string(seam.columns_of_items).c_str());
  }
  for (const RequestSplit::Stop& stop : split.stops) {
    std::printf("  per item     %s %s reads %s: %s\n", stop.reader.op.c_str(),
                stop.reader.value.c_str(), stop.value.c_str(), stop.reason.c_str());
  }
}

void PrintPage(const Explanation& e) {
  std::printf("%s  opset %s, matmul precision %s, %s%s%starget %s, %s\n\n", Bold(e.model).c_str(),
              e.opset.c_str(), e.matmul_precision.c_str(),
              e.rounding == "stores" ? "" : ("rounding after " + e.rounding + ", ").c_str(),
              e.index_policy == "error" ? "" : ("index policy " + e.index_policy + ", ").c_str(),
              e.batch_invariant ? "batch-invariant, " : "", e.target.c_str(),
              DimsText(e.dims).c_str());
  const auto line = [](const char* label, int64_t launches, int64_t bytes) {
    std::printf("  %-14s %-13s %s moved\n", label, Plural(launches, "launch").c_str(),
                Traffic(bytes).c_str());
  };
  line("before fusion", e.before_launches, e.before_bytes);
  line("after", e.after_launches, e.after_bytes);
  const std::string on_host =
      e.placed_tables.empty() ? "" : " (" + Traffic(e.host_bytes()) + " of them in host memory)";
  std::printf("  %-14s %s of weights%s, %s of scratch\n", "memory", Traffic(e.weight_bytes).c_str(),
              on_host.c_str(), Traffic(e.arena_bytes).c_str());
  if (!e.run_time_outputs.empty()) {
    std::printf("  %-14s %s (their sizes depend on the data)\n", "outputs",
                Join(e.run_time_outputs, ", ").c_str());
  }
  const auto is_edited = [](const ExplainedStep& step) { return !step.edited.empty(); };
  const int64_t edited = std::count_if(e.steps.begin(), e.steps.end(), is_edited);
  if (edited > 0) {
    std::printf("  %-14s %s (fusec rebuild --restore puts the originals back)\n", "edited",
                Plural(edited, "kernel").c_str());
  }
  for (const ExplainedStep& step : e.steps) PrintStep(step);
  PrintStoredTables(e.stored_tables);
  PrintFloat8Products(e.float8_products);
  PrintPlacedTables(e.placed_tables);
  if (e.adapters) PrintAdapters(*e.adapters);
  if (e.requests) PrintRequests(*e.requests);
  PrintEdges(e);
  if (e.tuning) {
    std::printf("\nkernels chosen by measuring on %s\n\n%s", e.tuning->device.c_str(),
                ChoicesText(*e.tuning).c_str());
  }
}

// Prints the plan of a sharded artifact, whose kernels are in its parts.
Result<int> ExplainShards(const ExplainFlags& flags, const nlohmann::ordered_json& manifest) {
  if (!flags.kernel.empty() || flags.ptx || flags.weights || flags.dot)
    return tl::unexpected(CheckNotSharded(flags.artifact, "explain with these flags").error());
  const auto& plan = manifest.at("shards");
  std::fputs((flags.json ? plan.dump(1) + "\n" : ShardPlanText(plan)).c_str(), stdout);
  if (!flags.json)
    PrintNote("next: fusec explain " + flags.artifact + "/dense, or another part, for its kernels");
  return 0;
}

}  // namespace

Result<int> RunExplain(const ExplainFlags& flags) {
  FUSEC_TRY(CheckArtifact(flags.artifact));
  FUSEC_ASSIGN(const auto manifest, ReadManifest(flags.artifact));
  if (IsSharded(manifest)) return ExplainShards(flags, manifest);
  FUSEC_ASSIGN(const Explanation explanation,
               ExplainArtifact(flags.artifact, flags.target, flags.dims));
  if (!flags.kernel.empty()) {
    FUSEC_ASSIGN(const auto found, explanation.FindStep(flags.kernel));
    FUSEC_ASSIGN(const std::string page, KernelPage(flags.artifact, explanation.target, found));
    PrintStep(*found.step);
    if (!found.runs)
      std::printf("    runs    only at sizes other than %s\n", DimsText(explanation.dims).c_str());
    std::fputs(page.c_str(), stdout);
  } else if (flags.ptx) {
    FUSEC_ASSIGN(const auto kernels, ReadResources(flags.artifact, explanation.target));
    const std::string text = flags.json
                                 ? WithResources(ExplanationJson(explanation), kernels) + "\n"
                                 : ResourcesText(kernels, explanation.target);
    std::fputs(text.c_str(), stdout);
  } else if (flags.weights) {
    FUSEC_ASSIGN(const auto story, ReadWeightsStory(flags.artifact, explanation, flags.tensor));
    const std::string text =
        flags.json ? WithWeights(ExplanationJson(explanation), story) + "\n" : WeightsText(story);
    std::fputs(text.c_str(), stdout);
  } else if (flags.dot) {
    std::fputs(DotText(explanation).c_str(), stdout);
  } else if (flags.json) {
    std::printf("%s\n", ExplanationJson(explanation).c_str());
  } else {
    PrintPage(explanation);
  }
  return 0;
}

}  // namespace fusec
