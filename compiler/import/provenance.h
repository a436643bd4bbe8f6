#pragma once

#include "compiler/ir/graph.h"

namespace onnx {
class NodeProto;
}

namespace fusec {

// Where in the PyTorch module a node comes from, as far as the exporter recorded it. The dynamo
// exporter writes metadata
//   pkg.torch.onnx.name_scopes   "['', 'top', 'top.0', 'linear']", which is module path "top.0"
//   namespace                    ": m.Net/top: t.Sequential/top.0: t.Linear/linear: aten", the same
//   pkg.torch.onnx.stack_trace   of which the innermost frame outside torch is the source line
// and the TorchScript exporter writes only the name of the node, "/top/top.0/Gemm".
Origin OriginOf(const onnx::NodeProto& node);

}  // namespace fusec
