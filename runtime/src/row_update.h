#pragma once

#include <fusec/fusec.h>

#include <cstdint>

#include "runtime/src/artifact/table.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// New contents for some rows of a table. If an id occurs more than once, its last row is stored.
struct RowUpdate {
  const Table* table = nullptr;  // a table whose rows can be updated
  const void* ids = nullptr;     // `count` ids of type FUSEC_I32 or FUSEC_I64
  fusec_dtype id_dtype = FUSEC_I64;
  const void* rows = nullptr;  // `count` consecutive rows of the table's dtype
  int64_t count = 0;           // more than 0
  bool on_device = false;      // ids and rows are memory of the program's GPU
  void* stream = nullptr;      // the CUstream that orders the update; null: the call waits for it

  // Id and row number i, if they are in host memory.
  int64_t IdAt(int64_t i) const {
    return id_dtype == FUSEC_I32 ? static_cast<const int32_t*>(ids)[i]
                                 : static_cast<const int64_t*>(ids)[i];
  }
  const void* RowAt(int64_t i) const {
    return static_cast<const std::byte*>(rows) + i * table->row_bytes();
  }
};

// The errors of row i of an update: its id is outside the table, or the storage type cannot
// represent one of its elements.
Status BadId(const RowUpdate& update, int64_t i, int64_t id);
Status BadRow(const RowUpdate& update, int64_t i, int64_t id);
// Checks an update in host memory; returns the error of the first invalid row.
Status CheckRows(const RowUpdate& update);

}  // namespace fusec::runtime
