#pragma once

// LLVM's containers and references, by the names that they have in LLVM: this project's vocabulary
// for lists, sets and maps in the compiler. (The runtime does without.)
//
//   ArrayRef, function_ref   of parameters: a list that the caller holds, a callback for the call
//   SmallVector              lists that are mostly short: operands, shapes, coordinates
//   SmallPtrSet, DenseMap    keyed by pointer: looked up, never walked through in order
//
// std::map and std::set stay where their order, by key, is what is wanted; std::unordered_map where
// references to its values are kept while others are added, which DenseMap moves.

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
