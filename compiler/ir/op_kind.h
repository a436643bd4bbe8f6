#pragma once

#include <cstdint>

namespace fusec {

// Every op of the IR, in the order of compiler/ir/op_list.def.
enum class OpKind : uint16_t {
#define FUSEC_OP(Kind, text, onnx, operands, Class, algebra) k##Kind,
#include "compiler/ir/op_list.def"
#undef FUSEC_OP
};

}  // namespace fusec
