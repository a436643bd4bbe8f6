#include <fusec/fusec.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compiler/driver/cli/cli.h"
#include "compiler/import/op_versions.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/terminal.h"
#include "runtime/src/cuda/cuda_pieces.h"

namespace fusec {

namespace {

// One line per ONNX op type. For ops of the IR that ONNX does not have, `onnx` is empty; for ONNX
// ops that import expands into other ops, and onnxruntime's own ops, which are functions of ONNX's,
// `name` is empty.
struct OpLine {
  std::string name;
  std::string onnx;
  std::string op_class;
  std::string operands;
  std::vector<int> since_versions;
  std::vector<std::string> dtypes;
};

std::vector<std::string> DtypeNames(const std::string& onnx) {
  std::vector<std::string> names;
  std::vector<Dtype> dtypes = OnnxDtypes(onnx);
  const bool any = onnx.empty() || onnx == "Constant";
  for (int i = 0; any && i < kDtypeCount; ++i) names.emplace_back(DtypeName(static_cast<Dtype>(i)));
  for (size_t i = 0; !any && i < dtypes.size(); ++i) names.emplace_back(DtypeName(dtypes[i]));
  return names;
}

std::vector<OpLine> OpLines() {
  std::vector<OpLine> lines;
  for (const OpDef& op : AllOps()) {
    std::stringstream names(op.onnx);
    std::string onnx;
    do {
      onnx.clear();
      std::getline(names, onnx, ',');
      lines.push_back({op.text, onnx, OpClassName(op.op_class), op.operands,
                       OnnxSinceVersions(onnx), DtypeNames(onnx)});
    } while (names.good());
  }
  for (const std::string& onnx : AllExpansions()) {
    lines.push_back({"", onnx, "expansion", "", OnnxSinceVersions(onnx), DtypeNames(onnx)});
  }
  for (const std::string& op : OpsOfOtherDomains())
    lines.push_back({"", op, "function", "", {}, {}});
  return lines;
}

}  // namespace

Result<int> RunListOps(bool json) {
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const OpLine& line : OpLines()) {
      list.push_back({{"name", line.name},
                      {"onnx", line.onnx},
                      {"since_versions", line.since_versions},
                      {"dtypes", line.dtypes},
                      {"class", line.op_class},
                      {"operands", line.operands}});
    }
    std::printf("%s\n", list.dump(1).c_str());
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {
      {"name", "ONNX", "class", "operands", "opsets", "dtypes"}};
  for (const OpLine& line : OpLines()) {
    std::vector<std::string> versions;
    for (const int version : line.since_versions) versions.push_back(std::to_string(version));
    const bool all = line.dtypes.size() == kDtypeCount;
    rows.push_back({line.name.empty() ? "-" : line.name, line.onnx.empty() ? "-" : line.onnx,
                    line.op_class, line.operands.empty() ? "-" : line.operands,
                    versions.empty() ? "-" : Join(versions, ","),
                    all                   ? "all"
                    : line.dtypes.empty() ? "-"
                                          : Join(line.dtypes, " ")});
  }
  std::fputs(FormatTable(rows, "llllll").c_str(), stdout);
  return 0;
}

Result<int> RunVersion() {
  const OnnxSupport onnx = GetOnnxSupport();
  std::printf("fusec %s\n", fusec_version());
  std::printf("onnx %s, opsets %d..%d\n", onnx.library_version.c_str(), onnx.min_opset,
              onnx.max_opset);
  for (const auto& [piece, found] : runtime::CudaPieces())
    std::printf("%s: %s\n", piece.c_str(), found.c_str());
  return 0;
}

}  // namespace fusec
