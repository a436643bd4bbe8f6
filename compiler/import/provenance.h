#pragma once

#include "compiler/ir/graph.h"

namespace onnx {
class NodeProto;
}

namespace fusec {

// Where a node comes from, as far as its exporter wrote it down. PyTorch's exporters leave
//   dynamo       metadata "pkg.torch.onnx.name_scopes" = "['', 'top', 'top.0', 'linear']"         -> module path top.0
//                or "namespace" = ": m.Net/top: t.Sequential/top.0: t.Linear/linear: aten.linear"  -> top.0
//                and "pkg.torch.onnx.stack_trace", of which the innermost frame outside torch is the source line
//   TorchScript  only the node's name "/top/top.0/Gemm"                                            -> top.0
Origin OriginOf(const onnx::NodeProto& node);

}  // namespace fusec
