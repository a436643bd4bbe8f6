#include "runtime/src/row_update.h"

namespace fusec::runtime {

Status BadId(const RowUpdate& update, int64_t i, int64_t id) {
  return Fail(FUSEC_BAD_INPUT, "table \"", update.table->name, "\": id ", i, " is ", id,
              ", expected 0 to ", update.table->rows - 1);
}

Status BadRow(const RowUpdate& update, int64_t i, int64_t id) {
  return Fail(FUSEC_BAD_INPUT, "table \"", update.table->name, "\": row ", i, ", of id ", id,
              ", has an element that ", update.table->storage, " has no code for");
}

Status CheckRows(const RowUpdate& update) {
  const Table& table = *update.table;
  for (int64_t i = 0; i < update.count; ++i) {
    const int64_t id = update.IdAt(i);
    if (id < 0 || id >= table.rows) return BadId(update, i, id);
    if (!table.Holds(update.RowAt(i))) return BadRow(update, i, id);
  }
  return {};
}

}  // namespace fusec::runtime
