#include "compiler/import/onnx_reader.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/defs/parser.h>

#include <algorithm>
#include <climits>
#include <exception>
#include <string_view>

#include "compiler/import/contrib/contrib_ops.h"
#include "compiler/import/ml/ml_ops.h"
#include "compiler/import/names.h"
#include "compiler/import/wire_format.h"

namespace fusec {
namespace {

bool ParseProtobuf(const void* bytes, size_t size, onnx::ModelProto& model) {
  google::protobuf::LogSilencer silencer;
  google::protobuf::io::ArrayInputStream array(bytes, static_cast<int>(size));
  google::protobuf::io::CodedInputStream stream(&array);
  stream.SetTotalBytesLimit(INT_MAX);
  return model.ParsePartialFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

Result<void> ReadBinary(OnnxFile& onnx) {
  const std::span<const std::byte> bytes = onnx.file->bytes();
  if (bytes.size() > INT_MAX) {
    return ModelError("the file has " + std::to_string(bytes.size()) +
                      " bytes, but a protobuf message ends at 2147483647; save the weights as "
                      "external data");
  }
  FUSEC_ASSIGN(SplitModel split, SplitPayloads(bytes));
  onnx.payloads = std::move(split.payloads);
  const bool parsed = split.whole
                          ? ParseProtobuf(bytes.data(), bytes.size(), onnx.model)
                          : ParseProtobuf(split.skeleton.data(), split.skeleton.size(), onnx.model);
  if (!parsed) return ModelError("the file is damaged: protobuf cannot parse it as an ONNX model");
  return {};
}

// The parser's message is "[ParseError at position (line: 2 column: 53)]", then the quoted line,
// then the reason.
std::string SyntaxError(const std::string& message) {
  const size_t open = std::min(message.find('('), message.size());
  const size_t close = std::min(message.find(')', open), message.size());
  const size_t quoted_line = std::min(message.find('\n', close), message.size());
  const size_t reason = std::min(message.find('\n', quoted_line + 1), message.size());
  return "syntax error " + message.substr(open, close + 1 - open) + ": " +
         OneLine(std::string_view(message).substr(reason));
}

Result<void> ReadText(OnnxFile& onnx) {
  const std::span<const std::byte> bytes = onnx.file->bytes();
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  onnx::OnnxParser parser(text.c_str());
  try {
    const auto status = parser.Parse(onnx.model);
    if (!status.IsOK()) return ModelError(SyntaxError(status.ErrorMessage()));
  } catch (const std::exception& error) {  // a number that does not fit its type
    return ModelError("syntax error: " + OneLine(error.what()));
  }
  return {};
}

void SpellDomain(std::string& domain) {
  if (domain == "ai.onnx") domain.clear();
}

// Whether an op of the default domain is one of onnxruntime, which writes some of its own ops
// without a domain.
bool IsOnnxruntimesOp(const onnx::NodeProto& node, int64_t opset) {
  constexpr int64_t kLayerNormalization = 17;  // the first opset of ONNX that has it
  return node.op_type() == "SimplifiedLayerNormalization" ||
         (node.op_type() == "LayerNormalization" && opset < kLayerNormalization);
}

// Whether an op of the default domain is one of TensorFlow, which tf2onnx left in the graph.
bool IsTensorFlowsOp(const onnx::NodeProto& node, int64_t opset) {
  constexpr int64_t kBitwise = 18;  // the first opset of ONNX that has BitwiseAnd and its kin
  const bool is_onnxs = node.op_type().starts_with("Bitwise") && opset >= kBitwise;
  return !is_onnxs && IsContribOp(std::string(kTensorFlowDomain), node.op_type());
}

template <class OpsetImports>
int64_t DefaultOpset(const OpsetImports& imports) {
  for (const auto& import : imports) {
    if (import.domain().empty()) return import.version();
  }
  return kMaxOpset;
}

void SpellDomains(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int64_t opset) {
  for (onnx::NodeProto& node : nodes) {
    if (node.domain() == "ai.onnx") node.clear_domain();
    if (node.domain().empty() && IsOnnxruntimesOp(node, opset))
      node.set_domain(std::string(kContribDomain));
    if (node.domain().empty() && IsTensorFlowsOp(node, opset))
      node.set_domain(std::string(kTensorFlowDomain));
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) SpellDomains(*attribute.mutable_g()->mutable_node(), opset);
      for (onnx::GraphProto& graph : *attribute.mutable_graphs()) {
        SpellDomains(*graph.mutable_node(), opset);
      }
    }
  }
}

// One spelling of every domain, so that libonnx and the op table need to know only one.
void SpellDomains(onnx::ModelProto& model) {
  for (auto& import : *model.mutable_opset_import()) SpellDomain(*import.mutable_domain());
  SpellDomains(*model.mutable_graph()->mutable_node(), DefaultOpset(model.opset_import()));
  for (auto& function : *model.mutable_functions()) {
    for (auto& import : *function.mutable_opset_import()) SpellDomain(*import.mutable_domain());
    SpellDomains(*function.mutable_node(), DefaultOpset(function.opset_import()));
  }
}

Result<void> CheckVersions(const onnx::ModelProto& model) {
  if (model.ir_version() < 3 || model.ir_version() > onnx::Version::IR_VERSION) {
    return ModelError("the IR version is " + std::to_string(model.ir_version()) +
                      ", expected 3 to " + std::to_string(onnx::Version::IR_VERSION));
  }
  std::map<std::string, int64_t> opsets;
  for (const auto& import : model.opset_import()) {
    const auto [known, fresh] = opsets.emplace(import.domain(), import.version());
    if (!fresh && known->second != import.version()) {
      return ModelError("the model imports two opsets of " + DomainName(import.domain()) + ": " +
                        std::to_string(known->second) + " and " + std::to_string(import.version()));
    }
  }
  const auto opset = opsets.find("");
  if (opset == opsets.end()) {
    const bool has_nodes = std::any_of(model.graph().node().begin(), model.graph().node().end(),
                                       [](const auto& node) { return node.domain().empty(); });
    if (has_nodes || opsets.count(std::string(kMlDomain)) == 0)
      return ModelError("the model imports no opset of ai.onnx");
    return {};
  }
  if (opset->second < kMinOpset || opset->second > kMaxOpset) {
    return ModelError("the opset of ai.onnx is " + std::to_string(opset->second) + ", expected " +
                      std::to_string(kMinOpset) + " to " + std::to_string(kMaxOpset));
  }
  return {};
}

Result<OnnxFile> Read(const std::string& path) {
  OnnxFile onnx;
  FUSEC_ASSIGN(onnx.file, MappedFile::Open(path, MappedFile::Links::kFollow));
  if (onnx.file->bytes().empty()) return ModelError("the file is empty");
  FUSEC_TRY(path.ends_with(".onnxtxt") ? ReadText(onnx) : ReadBinary(onnx));
  if (!onnx.model.has_graph()) return ModelError("is not an ONNX model: it has no graph");
  SpellDomains(onnx.model);
  FUSEC_TRY(CheckVersions(onnx.model));
  return onnx;
}

}  // namespace

Result<OnnxFile> ReadOnnx(const std::string& path) {
  Result<OnnxFile> onnx = Read(path);
  if (!onnx) return ModelError(Printable(path + ": " + onnx.error().message));
  return onnx;
}

}  // namespace fusec
