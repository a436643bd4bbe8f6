// Changes of ONNX models that leave them messages of protobuf, so that a fuzzer gets behind the parser.
#pragma once

#include <onnx/onnx_pb.h>

#include <random>

namespace fusec {

// Changes one thing. Half of the changes are of any message, by reflection: a field is set, cleared, or, where it is repeated, an
// element is left out, doubled, exchanged with another, or taken from elsewhere in the model. The others know what a model is: nodes
// of an op with operands and attributes as its schema has them, operands that are there, small constants, dims and opsets.
void MutateModel(onnx::ModelProto& model, std::mt19937_64& random);

// Adds nodes, initializers or functions of another model.
void CrossModels(onnx::ModelProto& model, const onnx::ModelProto& other, std::mt19937_64& random);

}  // namespace fusec
