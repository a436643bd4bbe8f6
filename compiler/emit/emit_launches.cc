#include "compiler/emit/emit_launches.h"

#include <fmt/format.h>

#include <sstream>

#include "compiler/support/check.h"

namespace fusec {

namespace {

std::string BufferText(const Value* value, bool is_written = false) {
  return fmt::format("{}{}[{}]", is_written ? "" : "const ", DtypeName(value->type.dtype),
                     value->type.ElementCount().ToString());
}

std::string ParameterText(const KernelParameter& parameter, const KernelPlan& plan) {
  switch (parameter.kind) {
    case KernelParameter::Kind::kBuffer:
      FUSEC_CHECK(parameter.layout == WeightLayout::kPlain, "panels on a CPU: " + parameter.name);
      return BufferText(parameter.value, parameter.written);
    case KernelParameter::Kind::kTables: {
      std::string text;
      for (const Value* table : parameter.tables)
        text += (text.empty() ? "{" : ", ") + BufferText(table);
      return text + "}";
    }
    case KernelParameter::Kind::kDim:
      return (plan.index_type == "int" ? "i32 " : "i64 ") + parameter.dim.ToString();
    case KernelParameter::Kind::kErrors:
      return "errors";
  }
  return "";
}

}  // namespace

std::string LaunchTexts(const ProgramPlan& plan, ArrayRef<DimSymbol> dims) {
  std::string text;
  for (const DimSymbol& dim : dims)
    text += fmt::format("dim {} {}..{}\n", dim.name, dim.low, dim.high);
  for (const Step& step : plan.steps) {
    if (step.is_matmul) continue;
    std::string arguments;
    for (const KernelParameter& parameter : step.kernel.parameters)
      arguments += (arguments.empty() ? "" : ", ") + ParameterText(parameter, step.kernel);
    text += fmt::format("{}({}) in {} blocks\n", step.kernel.name, arguments,
                        step.kernel.blocks.ToString());
  }
  return text;
}

std::string EmitLaunches(const std::string& launches) {
  std::string text =
      "// How the kernels of kernels.cc are launched. The library contains this text; the runtime\n"
      "// compares it with the manifest, and refuses a manifest that differs.\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) const char fusec_launches[] =";
  if (launches.empty()) text += " \"\"";  // no symbolic dims, and all steps are library calls
  std::istringstream lines(launches);
  for (std::string line; std::getline(lines, line);) text += fmt::format("\n    \"{}\\n\"", line);
  return text + ";\n";
}

}  // namespace fusec
