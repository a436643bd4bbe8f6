#pragma once

#include <fusec/fusec.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/src/status.h"

namespace fusec::runtime {

class JsonValue;
struct Buffer;

// How the elements of a row lie in memory, as in codegen_templates/device/stored_row.cuh.
enum class RowForm { kF32, kF16, kBF16, kF64, kInt8, kInt4, kFp8 };

// Rows of a table that a part of a sharded program has, under the same name, or columns of all.
struct TableRows {
  int step = 0;  // that runs the part
  int64_t first_row = 0, rows = 0;
  int64_t first_column = 0, columns = 0;
};

// A table of the model whose rows look-ups read, and where its stored rows lie: row i of these
// buffers is the model's row i.
struct Table {
  std::string name;  // the model's
  fusec_dtype dtype = FUSEC_F32;
  int64_t rows = 0, columns = 0;  // columns: elements of a row
  std::string fixed;              // why rows cannot be updated; "" if they can
  std::string storage;            // "f32", "int8"; "" where `fixed` is not
  RowForm form = RowForm::kF32;
  int buffer = -1;
  int factors = -1;              // the buffer of scales and biases, or -1
  std::vector<TableRows> parts;  // of a sharded program, which has no buffers for it

  RowForm model_form() const;
  int64_t row_bytes() const;     // as the model has it
  int64_t stored_bytes() const;  // of a row, without its factors
  int factor_count() const;      // floats of a row in `factors`: scale and bias, or a scale
  int64_t bytes() const { return rows * (stored_bytes() + 4 * factor_count()); }

  // Whether the stored form has codes for every element of a row.
  bool Holds(const void* row) const;
  // Stores a row that it holds, with the bits that the compiler would give it. `factors` may be
  // null without any.
  void Store(const void* row, std::byte* stored, float* factors) const;
};

// The key "tables" of a manifest; none without it. Its buffers are constants of the right size.
StatusOr<std::vector<Table>> ReadTables(const JsonValue& manifest,
                                        const std::vector<Buffer>& buffers);

// Of a target's files, the machine code of the kernels that update rows, and their text.
inline constexpr const char* kRowKernels = "rows";
inline constexpr const char* kRowKernelsText = "rows/update_rows.cu";

}  // namespace fusec::runtime
