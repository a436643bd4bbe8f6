#include "compiler/emit/emit_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen_templates/templates.h"
#include "compiler/emit/device_functions.h"
#include "compiler/emit/statements.h"
#include "compiler/emit/text_writer.h"
#include "compiler/kernel/kernel_builder.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

std::string Describe(const KernelParameter& parameter) {
  const char* layout = parameter.layout == WeightLayout::kPlain  ? ""
                       : parameter.layout == WeightLayout::kTf32 ? " rounded to TF32"
                                                                 : " in panels";
  return parameter.name + " " + parameter.value->type.ToString() + layout;
}

// Longer lists print only the first and the last.
constexpr size_t kMostAlike = 6;

std::string SourceText(const Origin& origin) {
  std::string text = origin.onnx_node.empty() ? origin.onnx_op : origin.onnx_node;
  if (!origin.onnx_op.empty() && text.find(origin.onnx_op) == std::string::npos)
    text += " (" + origin.onnx_op + ")";
  if (!origin.source_line.empty()) text += " at " + origin.source_line;
  return text;
}

// The sources of a kernel, such as "/top/top.0/Gemm" and "node_1 (Relu)", without duplicates. Many
// nodes of one op become "node_3 to node_28 (26 Gather)", at the place of the first one.
std::vector<std::string> Sources(const KernelPlan& plan) {
  std::vector<std::string> sources;
  std::map<std::string, std::vector<const Origin*>> by_op;
  for (const Origin& origin : plan.provenance) {
    auto& alike = by_op[origin.onnx_op];
    const bool is_new = std::none_of(alike.begin(), alike.end(), [&](const Origin* known) {
      return SourceText(*known) == SourceText(origin);
    });
    if (is_new) alike.push_back(&origin);
  }
  for (const Origin& origin : plan.provenance) {
    const auto& alike = by_op[origin.onnx_op];
    if (alike.size() <= kMostAlike) {
      if (std::find(alike.begin(), alike.end(), &origin) != alike.end())
        sources.push_back(SourceText(origin));
    } else if (alike.front() == &origin) {
      sources.push_back(fmt::format("{} to {} ({} {})", origin.onnx_node, alike.back()->onnx_node,
                                    alike.size(), origin.onnx_op));
    }
  }
  return sources;
}

std::string TableText(const Value* table) {
  return FriendlyName(table->name) + " " + table->type.ToString();
}

// Entries such as "table_0 f32[10, 4]"; many become "table_0 f32[10, 4] to table_25 f32[7, 4] (26
// tables)".
std::vector<std::string> TableTexts(ArrayRef<const Value*> tables) {
  if (tables.size() > kMostAlike)
    return {fmt::format("{} to {} ({} {})", TableText(tables.front()), TableText(tables.back()),
                        tables.size(), IsConstant(tables.front()) ? "tables" : "tensors")};
  std::vector<std::string> texts;
  for (const Value* table : tables) texts.push_back(TableText(table));
  return texts;
}

// Sizes in a readable form: "batch * 16 + 64", "(batch + 15) / 16 * 3".
std::string InWords(const Expr& expr) {
  if (expr.terms().empty()) return "0";
  const auto in_parentheses = [](const Expr& e) {
    return e.terms().size() > 1 ? "(" + InWords(e) + ")" : InWords(e);
  };
  std::string sum;
  for (const Expr::Term& term : expr.terms()) {
    std::string product;
    for (const AtomRef& atom : term.atoms) {
      const std::string factor =
          atom->kind == Atom::Kind::kFloorDiv
              ? in_parentheses(atom->left) + " / " + in_parentheses(atom->right)
              : atom->text;
      product += (product.empty() ? "" : " * ") + factor;
    }
    const std::string number = std::to_string(std::abs(term.coefficient));
    if (product.empty())
      product = number;
    else if (number != "1")
      product += " * " + number;
    const bool is_negative = term.coefficient < 0;
    sum += (sum.empty() ? (is_negative ? "-" : "") : is_negative ? " - " : " + ") + product;
  }
  return sum;
}

// "batch up to 1: *_rows_1", "2..32: this kernel", "from 33: *_tile_64x64".
std::vector<std::string> VariantTexts(const KernelPlan& plan) {
  std::vector<std::string> texts;
  for (const auto& [name, from, to] : plan.variants) {
    const std::string sizes = &name == &plan.variants.front().name ? fmt::format("up to {}", to)
                              : to == INT64_MAX                    ? fmt::format("from {}", from)
                              : from == to                         ? fmt::format("{}", from)
                                           : fmt::format("{}..{}", from, to);
    texts.push_back(sizes + ": " + name);
  }
  texts.front() = InWords(plan.variant_size) + " " + texts.front();
  return texts;
}

// "// label text, text, ...": an item is broken only if it is longer than a line.
void WriteList(TextWriter& out, const std::string& label, ArrayRef<std::string> items) {
  constexpr size_t kWidth = 100;
  const std::string indent = "//" + std::string(label.size() + 1, ' ');
  std::string line = "// " + label;
  const auto add = [&](const std::string& word) {
    if (line.size() > indent.size() && line.size() + word.size() + 1 > kWidth) {
      out.Verbatim(line);
      line = indent;
    }
    line += (line.size() > indent.size() ? " " : "") + word;
  };
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = InComment(items[i]) + (i + 1 < items.size() ? "," : "");
    if (indent.size() + item.size() <= kWidth) {
      add(item);
      continue;
    }
    for (size_t at = 0; at < item.size();) {
      const size_t end = std::min(item.find(' ', at), item.size());
      add(item.substr(at, end - at));
      at = end + 1;
    }
  }
  out.Verbatim(line);
}

void WriteHeaderComment(TextWriter& out, const KernelPlan& plan) {
  std::vector<std::string> inputs, outputs, sizes;
  for (const KernelParameter& parameter : plan.parameters) {
    if (!parameter.comment.empty())
      sizes.push_back(parameter.name + " (" + parameter.comment + ")");
    if (parameter.kind == KernelParameter::Kind::kTables) {
      for (std::string& text : TableTexts(parameter.tables)) inputs.push_back(std::move(text));
    }
    if (parameter.kind != KernelParameter::Kind::kBuffer) continue;
    (parameter.written ? outputs : inputs).push_back(Describe(parameter));
  }
  const std::string threads =
      plan.block_size == 1 ? "1 thread" : std::to_string(plan.block_size) + " threads";
  const std::string blocks =
      plan.blocks.IsConstant(1) ? "1 block" : InWords(plan.blocks) + " blocks";
  std::vector<std::string> traffic = {fmt::format("reads {} bytes", InWords(plan.bytes_read)),
                                      fmt::format("writes {} bytes", InWords(plan.bytes_written))};
  if (!plan.bytes_kept.terms().empty())
    traffic.push_back(fmt::format("keeps {} bytes out of memory", InWords(plan.bytes_kept)));
  WriteList(out, "kernel  : ", {plan.name + "   class: " + RegionClassText(plan.region_class)});
  if (!plan.also_as.empty()) WriteList(out, "also as : ", plan.also_as);
  if (!plan.variants.empty()) WriteList(out, "variants: ", VariantTexts(plan));
  const std::vector<std::string> sources = Sources(plan);
  WriteList(out, "source  : ", sources.empty() ? plan.ops : sources);  // IR text has only ops
  if (inputs.empty()) inputs.push_back("none");
  WriteList(out, "inputs  : ", inputs);
  WriteList(out, "outputs : ", outputs);
  if (!sizes.empty()) WriteList(out, "sizes   : ", sizes);
  WriteList(out,
            "launch  : ", {fmt::format("{}; {} of {}", plan.launch_in_words, blocks, threads)});
  WriteList(out, "traffic : ", traffic);
  for (size_t i = 0; i < plan.drawing.size(); ++i)
    out.Line((i == 0 ? "// drawing : " : "//           ") + plan.drawing[i]);
}

CExpr TablesType(const KernelParameter& parameter) {
  return Template("Tables", {MemoryTypeName(parameter.tables[0]->type.dtype),
                             static_cast<int64_t>(parameter.tables.size())});
}

std::string ParameterType(const KernelParameter& parameter, const KernelPlan& plan) {
  switch (parameter.kind) {
    case KernelParameter::Kind::kDim:
      return plan.index_type;
    case KernelParameter::Kind::kErrors:
      return "IndexError*";
    case KernelParameter::Kind::kTables:
      return "const __grid_constant__ " + TablesType(parameter).ToString();
    case KernelParameter::Kind::kBuffer:
      break;
  }
  // Memory that earlier kernels may still write while this one runs must not be const __restrict__
  // (dependent_launch.cuh).
  const bool may_change =
      plan.dependent_launch && !parameter.written && !IsConstant(parameter.value);
  return std::string(parameter.written ? "" : "const ") +
         MemoryTypeName(parameter.value->type.dtype) + (may_change ? "*" : "* __restrict__");
}

// Whether some of the statements are executed conditionally.
bool HasBranches(ArrayRef<Statement> statements) {
  return std::any_of(statements.begin(), statements.end(), [](const Statement& statement) {
    return statement.kind == Statement::Kind::kIf || HasBranches(statement.body);
  });
}

// The attribute of a kernel for the CPU.
std::string CpuAttribute(const KernelPlan& plan) {
  return HasBranches(plan.body) ? "__plain_branches__ " : "";
}

// `name(parameters) {`
CodeTokens SignatureOf(const KernelPlan& plan) {
  CodeTokens line;
  line.Words(plan.name).Open("(");
  if (plan.parameters.size() > 1) line.Begin(CodeToken::kComma);
  for (const KernelParameter& parameter : plan.parameters) {
    if (&parameter != plan.parameters.data()) line.Comma();
    line.Words(ParameterType(parameter, plan)).Space().Words(parameter.name);
  }
  if (plan.parameters.size() > 1) line.End();
  line.Close(")");
  return OpenBody(line);
}

CodeTokens DefinitionOf(const NamedConstant& constant) {
  CExpr place = CExpr::Type(constant.name);
  if (constant.is_array()) place = place[static_cast<int64_t>(constant.value.operands().size())];
  CodeTokens line;
  const std::string type =
      (constant.is_array() ? "static constexpr " : "constexpr ") + constant.type;
  return AddAssignment(line, type, place, constant.value).Semicolon();
}

void WriteKernelCode(TextWriter& out, const KernelPlan& plan, const std::string& attribute = "") {
  const std::string together =
      plan.blocks_together > 0 ? fmt::format(", {}", plan.blocks_together) : "";
  const std::string cluster =
      plan.cluster_blocks > 1 ? fmt::format("__cluster_dims__({}) ", plan.cluster_blocks) : "";
  out.Line(fmt::format("extern \"C\" {}__global__ void {}__launch_bounds__({}{})", attribute,
                       cluster, plan.block_size, together));
  out.Signature(SignatureOf(plan));
  out.Indent();
  std::vector<TextWriter::Row> constants;
  for (const NamedConstant& constant : plan.constants)
    constants.push_back({DefinitionOf(constant), InComment(constant.comment)});
  out.Table(constants);
  WriteStatements(out, plan.body);
  out.Outdent();
  out.Line("}");
}

void WriteKernel(TextWriter& out, const KernelPlan& plan, const std::string& attribute = "") {
  WriteHeaderComment(out, plan);
  WriteKernelCode(out, plan, attribute);
}

// Writes the device functions that the code of kernels uses, without duplicates.
void WriteDeviceFunctions(TextWriter& out, const std::string& code,
                          ArrayRef<const KernelPlan*> plans) {
  std::vector<std::string> files;
  for (const KernelPlan* plan : plans) {
    for (const std::string& file : plan->device_files) {
      if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
    }
  }
  out.Verbatim(DeviceFunctionsFor(code, files));
}

void WriteTitle(TextWriter& out, const ModelTitle& title) {
  out.Line("// Generated by fusec. Do not edit: change the model or the compiler instead.");
  out.Line(fmt::format("// model   : {} (opset {})", InComment(title.file), title.opset));
}

std::string EmitModule(ArrayRef<const KernelPlan*> plans, const ModelTitle& title) {
  TextWriter kernels;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (i > 0) kernels.Line("");
    WriteKernel(kernels, *plans[i]);
  }
  const std::string code = kernels.Take();
  TextWriter out;
  WriteTitle(out, title);
  out.Line("");
  WriteDeviceFunctions(out, code, plans);
  out.Verbatim(code);
  return out.Take();
}

// extern "C" void NAME_blocks(void* const* arguments, long long first_block, long long last_block)
void WriteCpuLauncher(TextWriter& out, const KernelPlan& plan) {
  // The launcher has the attribute of the kernel, which would be lost when the kernel is inlined
  // into it.
  CodeTokens line;
  line.Words("extern \"C\" " + CpuAttribute(plan) + "__attribute__").Open("(").Open("(");
  line.Words("visibility").Open("(").Words("\"default\"").Close(")").Close(")").Close(")");
  out.Code(line.Space().Words("void " + plan.name + "_blocks").Open("("));
  out.Line("    void* const* arguments, long long first_block, long long last_block) {");
  out.Indent();
  std::vector<CExpr> arguments;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const KernelParameter& parameter = plan.parameters[i];
    std::string type = plan.index_type;
    if (parameter.kind == KernelParameter::Kind::kErrors) type = "IndexError*";
    if (parameter.kind == KernelParameter::Kind::kTables) type = TablesType(parameter).ToString();
    if (parameter.kind == KernelParameter::Kind::kBuffer) {
      type = std::string(parameter.written ? "" : "const ") +
             MemoryTypeName(parameter.value->type.dtype) + "*";
    }
    const CExpr pointer = CExpr::Type(type.rfind("const ", 0) == 0 ? type + " const*" : type + "*");
    arguments.push_back(CExpr::Make(
        CExpr::Kind::kPrefix, "*",
        {Call(Template("static_cast", {pointer}), {CExpr("arguments")[static_cast<int64_t>(i)]})}));
  }
  out.Line("for (long long block = first_block; block < last_block; ++block) {");
  out.Indent();
  out.Line("blockIdx.x = static_cast<unsigned>(block);");
  out.Code(CodeTokens().Add(Call(plan.name, std::move(arguments))).Semicolon());
  out.Outdent();
  out.Line("}");
  out.Outdent();
  out.Line("}");
}

}  // namespace

std::string EmitKernelFile(const KernelPlan& plan, const ModelTitle& title) {
  return EmitModule({&plan}, title);
}

std::string EmitKernelCode(const KernelPlan& plan) {
  TextWriter out;
  WriteKernelCode(out, plan);
  return out.Take();
}

std::string EmitGpuModule(ArrayRef<const KernelPlan*> plans, const ModelTitle& title) {
  return EmitModule(plans, title);
}

std::string_view EmitRuntimeKernels() {
  const auto text = TemplateText("runtime/transfer.cu");
  FUSEC_CHECK(text.has_value(), "the kernels of the runtime are missing");
  return *text;
}

std::string EmitRowKernels(bool has_caches) {
  std::vector<std::string> names = {"device/stored_row.cuh", "runtime/update_rows.cu"};
  if (has_caches)
    names.insert(names.end(),
                 {"device/vector.cuh", "device/row_cache.cuh", "runtime/row_cache.cu"});
  std::string module;
  for (const std::string& name : names) {
    const auto text = TemplateText(name);
    FUSEC_CHECK(text.has_value(), "a part of the kernels that change rows is missing: " + name);
    if (!module.empty()) module += "\n";
    // The files of runtime/ begin with such a line themselves.
    if (name.starts_with("device/")) module += "// ---- from codegen_templates/" + name + " ----\n";
    module += *text;
  }
  return module;
}

std::string EmitCpuLibrary(ArrayRef<const KernelPlan*> plans, const ModelTitle& title) {
  TextWriter kernels;
  for (const KernelPlan* plan : plans) {
    WriteKernel(kernels, *plan, CpuAttribute(*plan));
    kernels.Line("");
    WriteCpuLauncher(kernels, *plan);
    kernels.Line("");
  }
  const std::string code = kernels.Take();
  TextWriter out;
  WriteTitle(out, title);
  out.Line(
      "// The kernels planned for the CPU: a block has one thread, the runtime spreads blocks over "
      "cores.");
  out.Line("");
  const auto host = TemplateText("host/cuda_on_cpu.h");
  FUSEC_CHECK(host.has_value(), "the host header is missing");
  std::string header(*host);
  if (size_t at = header.find("#pragma once\n"); at != std::string::npos) header.erase(at, 13);
  out.Verbatim(header);
  out.Line("");
  out.Line("namespace fusec_kernels {");
  out.Line("");
  WriteDeviceFunctions(out, code, plans);
  out.Verbatim(code);
  out.Line("}  // namespace fusec_kernels");
  return out.Take();
}

}  // namespace fusec
