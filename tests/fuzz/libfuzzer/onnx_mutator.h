// Changes ONNX models so that they stay valid protobuf messages, and a fuzzer gets past the parser.
#pragma once

#include <onnx/onnx_pb.h>

#include <random>

namespace fusec {

// Makes one change. Half of the changes apply to any message, by reflection: a field is set or cleared, or an element of a repeated field
// is removed, duplicated, swapped with another, or copied from elsewhere in the model. The other half are specific to models: they add
// nodes with operands and attributes that match the op's schema, replace operands by existing values, and change small constants, dims and
// opsets.
void MutateModel(onnx::ModelProto& model, std::mt19937_64& random);

// Copies nodes, initializers or functions from another model.
void CrossModels(onnx::ModelProto& model, const onnx::ModelProto& other, std::mt19937_64& random);

}  // namespace fusec
