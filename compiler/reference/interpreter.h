#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/reference/reference_context.h"
#include "compiler/support/adt.h"

namespace fusec {

// Runs a graph node by node in double precision. Inputs match `graph.inputs`; symbols are bound
// from their dims. Outputs have their true dims, and the output of run-time sizes is left out.
// Errors: a dim that contradicts its symbol or its range, or an out-of-range index.
Result<std::vector<ReferenceTensor>> Interpret(const Graph& graph,
                                               ArrayRef<ReferenceTensor> inputs);

// The same with every float of inputs and weights moved by a unit in the last place at random, and
// every float result rounded up or down at random, as a program of its dtype rounds (stochastic
// arithmetic, after Vignes and Parker). Values of 16 bits may stay f32, as they do within a kernel,
// and zeros of reductions and products get either sign. The distance between the results of several
// seeds tells how much of a result is rounding error. Results of f64 are not rounded.
Result<std::vector<ReferenceTensor>> InterpretRounded(const Graph& graph,
                                                      ArrayRef<ReferenceTensor> inputs,
                                                      uint64_t seed);

// The value of every symbol, derived from the dims of the inputs. The error names the input, the
// dim, the size that was found and the size that was expected.
Result<std::map<std::string, int64_t>> BindSymbols(const Graph& graph,
                                                   ArrayRef<std::vector<int64_t>> input_dims);

// The results of a single node. `inputs` are its non-null operands, in order; their dims may differ
// from those of the node's operands.
Result<std::vector<ReferenceTensor>> InterpretNode(const Node& node,
                                                   ArrayRef<ReferenceTensor> inputs);

}  // namespace fusec
