#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Stores embedding tables in fewer bits, as PassOptions::table_storage says (--table-storage), and
// computes their elements where rows are looked up. A table is a constant of floats, [rows,
// columns], that only gathers along its rows read. With int8 (stored_rows.h has the formulas of all
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
// int4 unpacks two codes from each byte (unpack_int4). fp8 decodes E4M3 bytes (from_e4m3) and has
// no bias. f16 and bf16 need a cast only. Fusion moves these ops into the kernel that gathers, so
// that memory holds and moves only the stored bytes. A look-up of 128 columns as int8 reads five
// 32-byte sectors: four of codes and one of factors. Rows of [scale, bias, codes] would span five
// sectors as well, and their 136 bytes would allow loads of 8 bytes only. Separate tables of scales
// and biases would cost two sectors instead of one.
//
// It is an error if a pattern matches no table (the message lists the tables), or if the storage
// cannot hold a row.
Result<bool> QuantizeTables(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
