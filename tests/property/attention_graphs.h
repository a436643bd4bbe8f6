#pragma once

#include <memory>
#include <string>

#include "compiler/ir/graph.h"

// Attention graphs, for tests that run attention as one kernel.
namespace fusec {

enum class Weights { kSoftmax, kGuardedSoftmax, kSoftmaxOfSeen, kMasked };

// The numbers of queries and keys of a head; 0 stands for the symbols `tokens` and `keys`, with values up to 1000.
struct HeadRows {
  int64_t tokens = 0, keys = 0;
};

// Attention with heads of `depth` elements, whose values have `columns` columns; `groups` heads share keys and values. `mask` has the ops
// that make %masked from the scaled scores %scaled; softmax is applied to %masked, or it multiplies the values directly. A guard replaces
// NaN probabilities by zeros, or those of a row whose scores are all -infinity (kSoftmaxOfSeen). The bias %bias is [tokens, keys];
// %lengths gives the number of keys of each member of the batch, or %visible says which keys are visible.
std::unique_ptr<Graph> Attention(const std::string& dtype, int depth, int columns, int groups, const std::string& mask,
                                 Weights weights = Weights::kSoftmax, HeadRows rows = {});
// `ops` with {0} replaced by the dtype.
std::string Chain(const char* ops, const std::string& dtype);

inline const char* const kBias = "%masked = add(%scaled, %bias) : {0}[batch, 6, tokens, keys]";
inline const char* const kPadding =
    "%never = constant() [-inf] : {0}[]\n"
    "  %masked = where(%visible, %scaled, %never) : {0}[batch, 6, tokens, keys]";
inline const char* const kSquashed = "%masked = tanh(%scaled) : {0}[batch, 6, tokens, keys]";
// Chains of ops that no softmax follows. They map a score of zero to another number, which keys beyond the last one must not add.
inline const char* const kSilu =
    "%placed = add(%scaled, %bias) : {0}[batch, 6, tokens, keys]\n"
    "  %gate = sigmoid(%placed) : {0}[batch, 6, tokens, keys]\n"
    "  %silu = mul(%placed, %gate) : {0}[batch, 6, tokens, keys]\n"
    "  %few = constant() [0.0625] : {0}[]\n"
    "  %small = mul(%silu, %few) : {0}[batch, 6, tokens, keys]\n"
    "  %one = constant() [1.0] : {0}[]\n"
    "  %none = constant() [0.0] : {0}[]\n"
    "  %seen = where(%visible, %one, %none) : {0}[batch, 1, 1, keys]\n"
    "  %masked = mul(%small, %seen) : {0}[batch, 6, tokens, keys]";
inline const char* const kShifted =
    "%one = constant() [1.0] : {0}[]\n"
    "  %masked = add(%scaled, %one) : {0}[batch, 6, tokens, keys]";
inline const char* const kHidden =
    "%none = constant() [0.0] : {0}[]\n"
    "  %positive = relu(%scaled) : {0}[batch, 6, tokens, keys]\n"
    "  %few = constant() [0.015625] : {0}[]\n"
    "  %small = mul(%positive, %few) : {0}[batch, 6, tokens, keys]\n"
    "  %square = mul(%small, %positive) : {0}[batch, 6, tokens, keys]\n"
    "  %masked = where(%visible, %square, %none) : {0}[batch, 6, tokens, keys]";

}  // namespace fusec
