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

// The storage type of the elements of a row, as in codegen_templates/device/stored_row.cuh.
enum class RowForm { kF32, kF16, kBF16, kF64, kInt8, kInt4, kFp8 };

// The rows of a table that a part of a sharded program has under the same name, or the columns that
// it has of all rows.
struct TableRows {
  int step = 0;  // the step that runs the part
  int64_t first_row = 0, rows = 0;
  int64_t first_column = 0, columns = 0;
};

// A table of the model whose rows are looked up, and the buffers of its stored rows: row i of these
// buffers is the model's row i.
struct Table {
  std::string name;  // in the model
  fusec_dtype dtype = FUSEC_F32;
  int64_t rows = 0, columns = 0;  // columns: elements of a row
  std::string fixed;              // why rows cannot be updated; "" if they can
  std::string storage;            // storage type, such as "int8"; "" if `fixed` is not ""
  RowForm form = RowForm::kF32;
  int buffer = -1;
  int factors = -1;              // the buffer of scales and biases, or -1
  std::vector<TableRows> parts;  // of a sharded program, instead of buffers

  RowForm model_form() const;
  int64_t row_bytes() const;     // bytes of a row in the model's dtype
  int64_t stored_bytes() const;  // bytes of a stored row, without its factors
  int factor_count() const;      // floats per row in `factors`: scale and bias, or a scale
  int64_t bytes() const { return rows * (stored_bytes() + 4 * factor_count()); }

  // Whether the storage type can represent every element of a row.
  bool Holds(const void* row) const;
  // Converts a row for which Holds is true to the storage type, with the same bits as the compiler.
  // `factors` may be null if the storage type has none.
  void Store(const void* row, std::byte* stored, float* factors) const;
};

// Reads the key "tables" of a manifest and checks that its buffers are constants of the right size.
// Without the key there are no tables.
StatusOr<std::vector<Table>> ReadTables(const JsonValue& manifest,
                                        const std::vector<Buffer>& buffers);

// The key in a target's files of the machine code of the kernels that update rows, and the path of
// their source.
inline constexpr const char* kRowKernels = "rows";
inline constexpr const char* kRowKernelsText = "rows/update_rows.cu";

}  // namespace fusec::runtime
