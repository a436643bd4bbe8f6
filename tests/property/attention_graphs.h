#pragma once

#include <memory>
#include <string>

#include "compiler/ir/graph.h"

// Graphs of attention, for tests that run it as one kernel.
namespace fusec {

enum class Weights { kSoftmax, kGuardedSoftmax, kMasked };

// Queries and keys of a head; 0 stands for the symbols `tokens` and `keys`, of up to 1000.
struct HeadRows {
  int64_t tokens = 0, keys = 0;
};

// Heads of `depth` elements whose values have `columns`; `groups` of them share keys and values. What softmax is of, or what
// multiplies the values, stands in `mask`: ops that make %masked out of the scaled scores %scaled. A guard gives zeros to
// probabilities that are no numbers. The bias %bias has [tokens, keys]; %lengths says how many keys a member of the
// batch has, or %visible which.
std::unique_ptr<Graph> Attention(const std::string& dtype, int depth, int columns, int groups, const std::string& mask,
                                 Weights weights = Weights::kSoftmax, HeadRows rows = {});
// `ops` with {0} as the dtype.
std::string Chain(const char* ops, const std::string& dtype);

inline const char* const kBias = "%masked = add(%scaled, %bias) : {0}[batch, 6, tokens, keys]";
inline const char* const kPadding =
    "%never = constant() [-inf] : {0}[]\n"
    "  %masked = where(%visible, %scaled, %never) : {0}[batch, 6, tokens, keys]";
inline const char* const kSquashed = "%masked = tanh(%scaled) : {0}[batch, 6, tokens, keys]";
// Chains that no softmax follows. What they make of a score of zero is another number, which keys beyond the last must not add.
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
