#include "compiler/import/op_versions.h"

#include <onnx/common/version.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <set>

#include "compiler/import/contrib/contrib_ops.h"
#include "compiler/import/ml/ml_ops.h"
#include "compiler/import/onnx_reader.h"
#include "compiler/import/tensor_proto.h"

namespace fusec {

namespace {

// Whether the schema allows `dtype` for a parameter. ONNX spells such a type "tensor(float)".
bool Accepts(const onnx::OpSchema::FormalParameter& parameter, Dtype dtype) {
  for (int type = 1; type <= 16; ++type) {
    if (DtypeFromOnnx(type) != dtype) continue;
    const std::string text = "tensor(" + OnnxTypeName(type) + ")";
    for (const auto& accepted : parameter.GetTypes()) {
      if (*accepted == text) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<int> OnnxSinceVersions(const std::string& op) {
  std::set<int> versions;
  for (int opset = 1; opset <= kMaxOpset; ++opset) {
    if (const auto* schema = onnx::OpSchemaRegistry::Schema(op, opset))
      versions.insert(schema->SinceVersion());
  }
  return {versions.begin(), versions.end()};
}

std::vector<Dtype> OnnxDtypes(const std::string& op) {
  const auto* schema = onnx::OpSchemaRegistry::Schema(op, kMaxOpset);
  if (!schema) return {};
  const auto& parameters = schema->inputs().empty() ? schema->outputs() : schema->inputs();
  std::vector<Dtype> dtypes;
  for (int i = 0; i < kDtypeCount; ++i) {
    if (Accepts(parameters.at(0), static_cast<Dtype>(i))) dtypes.push_back(static_cast<Dtype>(i));
  }
  return dtypes;
}

std::vector<std::string> OpsOfOtherDomains() {
  std::vector<std::string> names;
  for (const std::string& op : ContribOpNames())
    names.push_back(std::string(kContribDomain) + "." + op);
  for (const std::string& op : MlOpNames()) names.push_back(std::string(kMlDomain) + "." + op);
  return names;
}

OnnxSupport GetOnnxSupport() { return {onnx::LAST_RELEASE_VERSION, kMinOpset, kMaxOpset}; }

}  // namespace fusec
