#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"

namespace fusec {

// How the rows of an embedding table are stored.
enum class RowStorage : uint8_t { kInt8, kInt4, kFp8, kF16, kBF16 };

const char* RowStorageName(RowStorage storage);  // "int8", "int4", "fp8", "f16", "bf16"
std::optional<RowStorage> ParseRowStorage(std::string_view name);
const std::vector<std::string>& RowStorageNames();

// The tensors that hold a table of `columns` columns:
//
//   storage    rows                         factors              element c of a row
//   int8       u8[rows, columns]            f32[rows, 2]         q[c] * scale + bias
//   int4       u8[rows, (columns + 1) / 2]  f32[rows, 2]         q[c] * scale + bias
//   fp8        u8[rows, columns]            f32[rows, 1]         e4m3[c] * scale
//   f16, bf16  f16 or bf16[rows, columns]   none                 itself
//
// Rows of int4 hold two values per byte, the low bits first. `factors` holds the scale and the bias
// of each row next to each other, so that both lie in one 32-byte sector of memory.
struct StoredRows {
  TensorData rows;
  std::optional<TensorData> factors;
};

// Rounds a table of floats, [rows, columns], row by row:
//
//   int8, int4  bias = min, scale = (max - min) / (2^bits - 1), q = round((x - bias) / scale);
//               an element moves by at most half of its row's scale, and constant rows are exact
//               (FBGEMM's row-wise quantization with scale and bias in f32)
//   fp8         scale = max |x| / 448 (the largest E4M3 number); x / scale is rounded to nearest
//   f16, bf16   x is rounded to nearest, once
//
// Errors (ErrorKind::kModel) name the row, as in "row 17 holds nan, which int8 has no code for".
Result<StoredRows> StoreRows(const TensorData& table, RowStorage storage);

// A table that is stored in another form than in the model.
struct StoredTable {
  std::string table;    // the model's name
  std::string storage;  // RowStorageName
  int64_t rows = 0, columns = 0;
  int64_t bytes_before = 0, bytes = 0;
  // The names of the constants of the graph that hold the rows and the factors; `factors` may be
  // "". They are empty if this was read from a manifest.
  std::string constant = {}, factors = {};
  bool operator==(const StoredTable&) const = default;
};

}  // namespace fusec
