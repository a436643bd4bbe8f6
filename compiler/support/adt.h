#pragma once

// LLVM's containers and references, under the names that they have in LLVM, for lists, sets and
// maps in the compiler. (The runtime does not use them.)
//
//   ArrayRef, function_ref   parameters: a list that the caller owns, a callback for the call
//   SmallVector              lists that are mostly short: operands, shapes, coordinates
//   SmallPtrSet, DenseMap    keyed by pointer: for lookups, never iterated in order
//
// std::map and std::set are used where iteration in the order of keys is wanted, and
// std::unordered_map where references to values must stay valid while others are added, which
// DenseMap moves.

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/ADT/SmallVector.h>

namespace fusec {

using llvm::ArrayRef;
using llvm::DenseMap;
using llvm::function_ref;
using llvm::SmallPtrSet;
using llvm::SmallVector;

}  // namespace fusec
