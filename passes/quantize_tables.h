#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Stores embedding tables in fewer bits, as PassOptions::table_storage says (--table-storage), and
// computes their elements where rows are looked up. A table is a constant of floats, [rows,
// columns], that is only gathered from along its rows. int8 (stored_rows.h has the formulas of all
// storages):
//
//   %y = gather(%table, %ids) {axis = 0} : f32[batch, 128]
// =>
//   %codes   = gather(%table, %ids) {axis = 0} : u8[batch, 128]
//   %factors = gather(%table_factors, %ids) {axis = 0} : f32[batch, 2]
//   %scale   = slice(%factors) [.., 0:1]
//   %bias    = slice(%factors) [.., 1:2]
//   %y       = add(mul(cast(%codes), %scale), %bias) : f32[batch, 128]
//
// int4 takes its codes from bytes (unpack_int4), fp8 from bits (from_e4m3) and has no bias; f16 and
// bf16 are a cast. Fusions take these ops into the kernel that gathers, so that memory holds and
// moves the stored bytes only. A look-up of 128 columns as int8 reads five 32-byte sectors: four of
// codes and one of factors. Rows of [scale, bias, codes] would span five as well, and their 136
// bytes would allow loads of 8 bytes only; scales and biases in tables of their own would be two
// sectors.
//
// A pattern that matches no table is an error that lists the tables, and so is a row that the
// storage cannot hold.
Result<bool> QuantizeTables(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
