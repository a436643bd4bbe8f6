#include "runtime/python/src/row_update.h"

#include "runtime/python/src/array_library.h"
#include "runtime/python/src/errors.h"
#include "runtime/python/src/process.h"
#include "runtime/python/src/reading.h"

namespace fusec::python {
namespace {

// A dense tensor of the call, and the owner of its memory.
struct GivenTensor {
  TensorView view;
  std::unique_ptr<HostMemory> copy;
  ArrayLibrary* library = nullptr;
  void* stream = nullptr;  // on a GPU: the stream of the library's work on it
};

GivenTensor ReadDense(const Program& program, const std::string& what, nb::handle tensor) {
  GivenTensor given;
  given.library = ArrayLibrary::Of(tensor);
  if (given.library == nullptr)
    Raise(FUSEC_BAD_INPUT, what + " are of type " + TypeName(tensor) + ", expected a tensor");
  ArrayLibrary& library = *given.library;
  // Other libraries make the default stream wait for writes to the tensor.
  const auto stream_of = [&]() -> void* {
    const bool has_current = library.is_stream_ordered() || !library.needs_stream();
    return has_current ? library.CurrentStream(program.gpu()) : nullptr;
  };
  Reading(what, [&] {
    if (program.is_on_gpu() && library.needs_stream() && library.IsOnGpu(tensor))
      given.stream = stream_of();
    library.Read(tensor, given.stream, false, given.view);
  });
  TensorView& view = given.view;
  if (view.is_on_gpu && view.gpu != program.gpu())
    Raise(FUSEC_BAD_INPUT, what + " are " + DeviceOf(view) + ", but the model runs on " +
                               fusec_device_name(program.handle()));
  if (view.is_on_gpu && !library.needs_stream()) given.stream = stream_of();
  if (view.is_dense) return given;
  if (!view.is_on_gpu) {
    given.copy = std::make_unique<HostMemory>(view.bytes());
    CopyDense(view, given.copy->data());
    view.data = given.copy->data();
    return given;
  }
  const nb::object copy = library.DenseCopy(tensor);
  if (!copy.is_valid()) Raise(FUSEC_BAD_INPUT, what + " are not contiguous");
  library.Read(copy, given.stream, false, view);
  if (!library.needs_stream()) view.owner = MemoryOwner(copy);
  return given;
}

fusec_dtype DtypeOf(const std::string& what, const TensorView& view) {
  if (!view.dtype) Raise(FUSEC_BAD_INPUT, what + " are " + view.type());
  return *view.dtype;
}

// Checks that `rows` has one row of the table for each id.
void CheckRows(const std::string& what, const std::string& table, const Program& program,
               const TensorView& ids, const TensorView& rows) {
  fusec_table info;
  for (int i = 0; fusec_table_info(program.handle(), i, &info) == FUSEC_OK; ++i) {
    if (table != info.name) continue;
    const int64_t elements = ids.elements() * info.columns;
    const bool fits =
        !rows.dims.empty() && rows.dims.front() == ids.elements() && rows.elements() == elements;
    if (fits) return;
    Raise(FUSEC_BAD_INPUT, what + " are " + rows.type() + ", expected " +
                               fusec_dtype_name(info.dtype) + "[" + std::to_string(ids.elements()) +
                               ", " + std::to_string(info.columns) + "]");
  }
  // fusec_update_rows reports an unknown table.
}

// Makes a call that may take long with the GIL released, and raises its error.
template <class Call>
void WithoutGilCheck(const Call& call) {
  fusec_status status;
  std::string message;
  {
    const WithoutGil released;
    status = call();
    if (status != FUSEC_OK) message = fusec_last_error();
  }
  if (status != FUSEC_OK) Raise(status, message);
}

}  // namespace

void UpdateRows(const std::shared_ptr<Program>& program, const std::string& table, nb::handle ids,
                nb::handle rows) {
  program->CheckNotForked();
  const std::string of_table = " of table \"" + table + "\"";
  const std::string ids_name = "the ids" + of_table, rows_name = "the rows" + of_table;
  const GivenTensor given_ids = ReadDense(*program, ids_name, ids);
  const GivenTensor given_rows = ReadDense(*program, rows_name, rows);
  const TensorView &id_view = given_ids.view, &row_view = given_rows.view;
  if (id_view.dims.size() != 1)
    Raise(FUSEC_BAD_INPUT, ids_name + " are " + id_view.type() + ", expected a vector");
  CheckRows(rows_name, table, *program, id_view, row_view);
  if (id_view.is_on_gpu != row_view.is_on_gpu)
    Raise(FUSEC_BAD_INPUT,
          ids_name + " are " + DeviceOf(id_view) + ", and " + rows_name + " " + DeviceOf(row_view));
  if (id_view.is_on_gpu && given_ids.stream != given_rows.stream)
    Raise(FUSEC_BAD_INPUT,
          ids_name + " and " + rows_name + " are of two libraries that work on different streams");
  const fusec_dtype id_dtype = DtypeOf(ids_name, id_view);
  const fusec_dtype row_dtype = DtypeOf(rows_name, row_view);
  WithoutGilCheck([&] {
    return fusec_update_rows(program->handle(), table.c_str(), id_view.data, id_dtype,
                             row_view.data, row_dtype, id_view.elements(), id_view.is_on_gpu,
                             given_ids.stream);
  });
}

void WarmTable(const std::shared_ptr<Program>& program, const std::string& table, nb::handle ids) {
  program->CheckNotForked();
  const std::string what = "the ids of table \"" + table + "\"";
  const GivenTensor given = ReadDense(*program, what, ids);
  const TensorView& view = given.view;
  if (view.is_on_gpu)
    Raise(FUSEC_BAD_INPUT, what + " are " + DeviceOf(view) + ", expected host memory");
  const fusec_dtype dtype = DtypeOf(what, view);
  WithoutGilCheck([&] {
    return fusec_warm_table(program->handle(), table.c_str(), view.data, dtype, view.elements());
  });
}

}  // namespace fusec::python
