#include "compiler/ir/host_table.h"

namespace fusec {

bool IsHostTable(const Value* value) {
  return IsConstant(value) && value->producer->Has(kHostTable);
}

}  // namespace fusec
