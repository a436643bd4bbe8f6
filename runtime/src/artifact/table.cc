#include "runtime/src/artifact/table.h"

#include <cstring>
#include <optional>

#include "codegen_templates/host/cuda_on_cpu.h"
#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/json_reader.h"
#include "runtime/src/artifact/manifest.h"

namespace fusec_kernels {
#include "codegen_templates/device/stored_row.cuh"
}  // namespace fusec_kernels

namespace fusec::runtime {
namespace {

constexpr std::string_view kForms[] = {"f32", "f16", "bf16", "f64", "int8", "int4", "fp8"};
static_assert(static_cast<int>(fusec_kernels::RowForm::kFp8) == static_cast<int>(RowForm::kFp8));
static_assert(static_cast<int>(RowForm::kF64) == FUSEC_F64);

fusec_kernels::RowForm InKernels(RowForm form) { return static_cast<fusec_kernels::RowForm>(form); }

// The dtype of a constant that holds rows in this storage type.
fusec_dtype StoredDtype(RowForm form) {
  return form <= RowForm::kF64 ? static_cast<fusec_dtype>(form) : FUSEC_U8;
}

Status CheckBuffer(const JsonValue& item, std::string_view key, const Buffer& buffer,
                   fusec_dtype dtype, int64_t bytes) {
  FUSEC_RT_ASSIGN(const JsonValue field, item.Field(key));
  const auto elements = buffer.elements.Evaluate({});
  const bool fits = buffer.kind == BufferKind::kConstant && buffer.dtype == dtype && elements &&
                    *elements * DtypeBytes(dtype) == bytes;
  if (fits) return {};
  return field.Unexpected(Text("a constant of ", DtypeName(dtype), " with ", bytes, " bytes"));
}

constexpr int64_t kMostRows = int64_t{1} << 40;

StatusOr<TableRows> ReadPart(const JsonValue& item, int64_t columns) {
  TableRows part;
  FUSEC_RT_ASSIGN(const int64_t step, ReadInt(item, "step", 0, INT32_MAX));
  part.step = static_cast<int>(step);
  FUSEC_RT_ASSIGN(part.first_row, ReadInt(item, "first_row", 0, kMostRows));
  FUSEC_RT_ASSIGN(part.rows, ReadInt(item, "rows", 1, kMostRows));
  part.columns = columns;
  if (item.Has("columns")) {
    FUSEC_RT_ASSIGN(part.columns, ReadInt(item, "columns", 1, columns));
    FUSEC_RT_ASSIGN(part.first_column, ReadInt(item, "first_column", 0, columns - part.columns));
  }
  return part;
}

StatusOr<Table> ReadTable(const JsonValue& item, const std::vector<Buffer>& buffers) {
  constexpr int64_t kMostColumns = int64_t{1} << 24;
  Table table;
  FUSEC_RT_ASSIGN(table.name, ReadText(item, "table"));
  FUSEC_RT_ASSIGN(const int dtype, ReadPosition(item, "dtype", {"f32", "f16", "bf16", "f64"}));
  table.dtype = static_cast<fusec_dtype>(dtype);
  FUSEC_RT_ASSIGN(table.rows, ReadInt(item, "rows", 1, kMostRows));
  FUSEC_RT_ASSIGN(table.columns, ReadInt(item, "columns", 1, kMostColumns));
  if (item.Has("fixed")) {
    FUSEC_RT_ASSIGN(table.fixed, ReadText(item, "fixed"));
    return table;
  }
  FUSEC_RT_ASSIGN(
      table.form,
      ReadChoice<RowForm>(item, "storage", {"f32", "f16", "bf16", "f64", "int8", "int4", "fp8"}));
  table.storage = kForms[static_cast<int>(table.form)];
  if (item.Has("parts")) {
    FUSEC_RT_ASSIGN(table.parts, ReadList(item, "parts", [&](const JsonValue& part) {
                      return ReadPart(part, table.columns);
                    }));
    return table;
  }
  const auto last = static_cast<int64_t>(buffers.size()) - 1;
  FUSEC_RT_ASSIGN(const int64_t buffer, ReadInt(item, "buffer", 0, last));
  table.buffer = static_cast<int>(buffer);
  FUSEC_RT_TRY(CheckBuffer(item, "buffer", buffers[static_cast<size_t>(buffer)],
                           StoredDtype(table.form), table.rows * table.stored_bytes()));
  if (table.factor_count() == 0) return table;
  FUSEC_RT_ASSIGN(const int64_t factors, ReadInt(item, "factors_buffer", 0, last));
  table.factors = static_cast<int>(factors);
  FUSEC_RT_TRY(CheckBuffer(item, "factors_buffer", buffers[static_cast<size_t>(factors)], FUSEC_F32,
                           table.rows * table.factor_count() * 4));
  return table;
}

}  // namespace

RowForm Table::model_form() const { return static_cast<RowForm>(dtype); }

int64_t Table::row_bytes() const { return columns * DtypeBytes(dtype); }

int64_t Table::stored_bytes() const {
  if (form == RowForm::kInt4) return (columns + 1) / 2;
  return columns * DtypeBytes(StoredDtype(form));
}

int Table::factor_count() const {
  if (form == RowForm::kInt8 || form == RowForm::kInt4) return 2;
  return form == RowForm::kFp8 ? 1 : 0;
}

bool Table::Holds(const void* row) const {
  if (form == model_form()) return true;
  return fusec_kernels::FactorsOf(InKernels(model_form()), row, InKernels(form),
                                  static_cast<int>(columns))
      .fits;
}

void Table::Store(const void* row, std::byte* stored, float* factors_row) const {
  if (form == model_form()) {
    std::memcpy(stored, row, static_cast<size_t>(row_bytes()));
    return;
  }
  fusec_kernels::StoreRow(InKernels(model_form()), row, InKernels(form), static_cast<int>(columns),
                          stored, factors_row);
}

StatusOr<std::vector<Table>> ReadTables(const JsonValue& manifest,
                                        const std::vector<Buffer>& buffers) {
  if (!manifest.Has("tables")) return std::vector<Table>();
  return ReadList(manifest, "tables",
                  [&](const JsonValue& item) { return ReadTable(item, buffers); });
}

}  // namespace fusec::runtime
