#pragma once

#include "compiler/plan/region_lowering.h"

namespace fusec {

// Elements of a value that shared memory holds in 16 bytes; halves are kept as floats.
int64_t KeptLanes(const Value* value);

// How a block keeps a value of its rows in shared memory. Runs that are read at once by threads at
// different runs would meet in few banks if they began at multiples of 8 words, so that a gap is
// left behind each: one vector, so that runs can still be read in vectors, or one element unless
// `vector_gaps`.
RegionLowering::KeptRows PlaceKeptRows(const Node& region, const Value* value, const Shape& rows,
                                       bool vector_gaps);

// Declares the array for `rows_per_block` rows, a named constant ("" for one row).
void DeclareKeptRows(KernelBuilder& builder, const Value* value, const std::string& rows_per_block,
                     RegionLowering::KeptRows& kept);

}  // namespace fusec
