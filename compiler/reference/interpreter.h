#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/reference/reference_context.h"
#include "compiler/support/adt.h"

namespace fusec {

// Runs a graph node by node in double precision. Inputs match `graph.inputs`; symbols are bound
// from their dims. Outputs have their true dims, and run-time sizes are none of them. Errors: a dim
// that contradicts its symbol or its range, an index outside its table.
Result<std::vector<ReferenceTensor>> Interpret(const Graph& graph,
                                               ArrayRef<ReferenceTensor> inputs);

// The same with every float of inputs and weights moved by a unit in the last place at random, and
// every float result rounded up or down, as a program of its dtype rounds (halves that stay in a
// kernel are f32; zeros of reductions and products have either sign): stochastic arithmetic, after
// Vignes and Parker. How far answers of several seeds
// lie apart tells how much of an answer is rounding error. Results of f64 are not rounded.
Result<std::vector<ReferenceTensor>> InterpretRounded(const Graph& graph,
                                                      ArrayRef<ReferenceTensor> inputs,
                                                      uint64_t seed);

// The value of every symbol, which follows from the inputs' dims. The error names input, dim, the
// size that was found and the size that was expected.
Result<std::map<std::string, int64_t>> BindSymbols(const Graph& graph,
                                                   ArrayRef<std::vector<int64_t>> input_dims);

// The results of `node` alone, for those of its operands that are given, in order. Their dims may
// differ from the node's.
Result<std::vector<ReferenceTensor>> InterpretNode(const Node& node,
                                                   ArrayRef<ReferenceTensor> inputs);

}  // namespace fusec
