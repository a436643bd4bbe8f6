#pragma once

#include <fusec/fusec.h>

#include <cstdint>

#include "runtime/src/artifact/table.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// New rows for some rows of a table. Of an id that is there twice, the last row counts.
struct RowUpdate {
  const Table* table = nullptr;  // not a fixed one
  const void* ids = nullptr;     // `count` of FUSEC_I32 or FUSEC_I64
  fusec_dtype id_dtype = FUSEC_I64;
  const void* rows = nullptr;  // `count` rows of the table's dtype, one behind the other
  int64_t count = 0;           // more than 0
  bool on_device = false;      // ids and rows are memory of the program's GPU
  void* stream = nullptr;      // a CUstream that the update is ordered on; null: it is waited for

  // In host memory.
  int64_t IdAt(int64_t i) const {
    return id_dtype == FUSEC_I32 ? static_cast<const int32_t*>(ids)[i]
                                 : static_cast<const int64_t*>(ids)[i];
  }
  const void* RowAt(int64_t i) const {
    return static_cast<const std::byte*>(rows) + i * table->row_bytes();
  }
};

// Errors of row i of an update: its id is outside the table, or the stored form has no code for one
// of its elements.
Status BadId(const RowUpdate& update, int64_t i, int64_t id);
Status BadRow(const RowUpdate& update, int64_t i, int64_t id);
// The error of the first bad row of an update in host memory.
Status CheckRows(const RowUpdate& update);

}  // namespace fusec::runtime
