#include <fusec/fusec.h>

#include <algorithm>
#include <exception>
#include <new>
#include <span>

#include "runtime/src/artifact/bind_symbols.h"
#include "runtime/src/artifact/dtype.h"
#include "runtime/src/context.h"
#include "runtime/src/program.h"

using fusec::runtime::Context;
using fusec::runtime::DtypeBytes;
using fusec::runtime::DtypeName;
using fusec::runtime::Fail;
using fusec::runtime::Manifest;
using fusec::runtime::Program;
using fusec::runtime::RowUpdate;
using fusec::runtime::Status;
using fusec::runtime::Table;
using fusec::runtime::TensorSignature;
using fusec::runtime::Text;

struct fusec_program {
  std::unique_ptr<Program> program;
};

struct fusec_context {
  std::unique_ptr<Context> context;
};

namespace {

thread_local std::string last_error;

// Runs `body` and converts the error that it returns or throws into a status code and the text of
// fusec_last_error. Only the standard library throws (out of memory).
template <class Body>
fusec_status Guard(Body body) noexcept {
  try {
    const Status status = body();
    if (status) return FUSEC_OK;
    last_error = status.error().message;
    return status.error().code;
  } catch (const std::bad_alloc&) {
    last_error.assign("out of memory");  // short enough to need no allocation
    return FUSEC_NO_DEVICE;
  } catch (const std::exception& exception) {
    last_error.assign("internal error: ");
    last_error.append(exception.what(), 0, 200);
    return FUSEC_NO_DEVICE;
  }
}

Status CheckIndex(const char* what, int i, size_t count) {
  if (i >= 0 && static_cast<size_t>(i) < count) return {};
  return Fail(FUSEC_BAD_USAGE, "there is no ", what, " ", i, ", the program has ", count);
}

Status NotNull(const void* pointer, const char* name) {
  if (pointer) return {};
  return Fail(FUSEC_BAD_USAGE, name, " is null");
}

bool IsDtype(fusec_dtype dtype) { return dtype >= FUSEC_F32 && dtype <= FUSEC_BOOL; }

Status Find(const char* what, std::span<const TensorSignature> tensors, const char* name, int* i) {
  FUSEC_RT_TRY(NotNull(name, "name"));
  FUSEC_RT_TRY(NotNull(i, "i"));
  std::string known;
  for (size_t place = 0; place < tensors.size(); ++place) {
    if (tensors[place].name == name) {
      *i = static_cast<int>(place);
      return {};
    }
    known += Text(known.empty() ? "\"" : ", \"", tensors[place].name, "\"");
  }
  return Fail(FUSEC_BAD_INPUT, "there is no ", what, " \"", name, "\", the program has ",
              known.empty() ? "none" : known);
}

Status CheckInput(const fusec_context* context, int i) {
  FUSEC_RT_TRY(NotNull(context, "the context"));
  return CheckIndex("input", i, context->context->program().manifest().inputs.size());
}

Status CheckOutput(const fusec_context* context, int i) {
  FUSEC_RT_TRY(NotNull(context, "the context"));
  return CheckIndex("output", i, context->context->program().manifest().output_count());
}

Status CopyDims(std::span<const int64_t> from, int64_t* dims) {
  if (!from.empty()) FUSEC_RT_TRY(NotNull(dims, "dims"));
  std::copy(from.begin(), from.end(), dims);
  return {};
}

}  // namespace

extern "C" {

int fusec_abi_version(void) { return FUSEC_ABI_VERSION; }

const char* fusec_version(void) { return FUSEC_VERSION; }

const char* fusec_last_error(void) { return last_error.c_str(); }

const char* fusec_dtype_name(fusec_dtype dtype) {
  return IsDtype(dtype) ? DtypeName(dtype).data() : "";
}

size_t fusec_dtype_bytes(fusec_dtype dtype) {
  return IsDtype(dtype) ? static_cast<size_t>(DtypeBytes(dtype)) : 0;
}

fusec_status fusec_load(const char* artifact_path, const char* device, fusec_program** program) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "program"));
    *program = nullptr;
    FUSEC_RT_TRY(NotNull(artifact_path, "artifact_path"));
    FUSEC_RT_ASSIGN(auto loaded, Program::Load(artifact_path, device));
    *program = new fusec_program{std::move(loaded)};
    return {};
  });
}

fusec_status fusec_can_load(const char* artifact_path, const char* device) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(artifact_path, "artifact_path"));
    return Program::CanLoad(artifact_path, device);
  });
}

fusec_status fusec_update_weights(fusec_program* program, const char* artifact_path) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_TRY(NotNull(artifact_path, "artifact_path"));
    return program->program->UpdateWeights(artifact_path);
  });
}

fusec_status fusec_update_rows(fusec_program* program, const char* table, const void* ids,
                               fusec_dtype id_dtype, const void* rows, fusec_dtype row_dtype,
                               int64_t count, int on_device, void* stream) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_TRY(NotNull(table, "table"));
    RowUpdate update;
    update.ids = ids;
    update.id_dtype = id_dtype;
    update.rows = rows;
    update.count = count;
    update.on_device = on_device != 0;
    update.stream = stream;
    return program->program->UpdateRows(table, update, row_dtype);
  });
}

int fusec_adapter_slots(const fusec_program* program) {
  return program ? static_cast<int>(program->program->manifest().adapters.slots) : 0;
}

fusec_status fusec_load_adapter(fusec_program* program, int slot, const char* path) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_TRY(NotNull(path, "path"));
    return program->program->LoadAdapter(slot, path);
  });
}

fusec_status fusec_unload_adapter(fusec_program* program, int slot) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    return program->program->UnloadAdapter(slot);
  });
}

void fusec_unload(fusec_program* program) { delete program; }

const char* fusec_device_name(const fusec_program* program) {
  return program ? program->program->device().name().c_str() : "";
}

size_t fusec_weight_bytes(const fusec_program* program) {
  return program ? program->program->device().weight_bytes() : 0;
}

fusec_status fusec_allocate_host(fusec_program* program, size_t bytes, void** memory) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(memory, "memory"));
    *memory = nullptr;
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_ASSIGN(*memory, program->program->device().AllocateHost(bytes));
    return {};
  });
}

void fusec_free_host(fusec_program* program, void* memory) {
  if (program) program->program->device().FreeHost(memory);
}

int fusec_input_count(const fusec_program* program) {
  return program ? static_cast<int>(program->program->manifest().inputs.size()) : 0;
}

int fusec_output_count(const fusec_program* program) {
  return program ? static_cast<int>(program->program->manifest().output_count()) : 0;
}

int fusec_symbol_count(const fusec_program* program) {
  return program ? static_cast<int>(program->program->manifest().symbols.size()) : 0;
}

fusec_status fusec_input_info(const fusec_program* program, int i, fusec_tensor_info* info) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_TRY(NotNull(info, "info"));
    FUSEC_RT_TRY(CheckIndex("input", i, program->program->manifest().inputs.size()));
    *info = program->program->input_info(i);
    return {};
  });
}

fusec_status fusec_output_info(const fusec_program* program, int i, fusec_tensor_info* info) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_TRY(NotNull(info, "info"));
    FUSEC_RT_TRY(CheckIndex("output", i, program->program->manifest().output_count()));
    *info = program->program->output_info(i);
    return {};
  });
}

fusec_status fusec_symbol_info(const fusec_program* program, int i, fusec_symbol* info) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_TRY(NotNull(info, "info"));
    const auto& symbols = program->program->manifest().symbols;
    FUSEC_RT_TRY(CheckIndex("symbol", i, symbols.size()));
    *info = {symbols[i].name.c_str(), symbols[i].lowest(), symbols[i].max};
    return {};
  });
}

fusec_status fusec_find_input(const fusec_program* program, const char* name, int* i) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    return Find("input", program->program->manifest().inputs, name, i);
  });
}

fusec_status fusec_find_output(const fusec_program* program, const char* name, int* i) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    const Manifest& manifest = program->program->manifest();
    return Find("output", std::span(manifest.outputs).first(manifest.output_count()), name, i);
  });
}

int fusec_output_has_run_time_dims(const fusec_program* program, int i) {
  if (!program || i < 0) return 0;
  const auto& outputs = program->program->manifest().outputs;
  return static_cast<size_t>(i) < outputs.size() && !outputs[static_cast<size_t>(i)].sizes.empty();
}

int fusec_output_in_place_of(const fusec_program* program, int i) {
  if (!program || i < 0) return -1;
  const auto& manifest = program->program->manifest();
  const auto output = static_cast<size_t>(i);
  return output < manifest.outputs.size() ? manifest.InputInPlaceOf(output) : -1;
}

int fusec_table_count(const fusec_program* program) {
  return program ? static_cast<int>(program->program->manifest().tables.size()) : 0;
}

fusec_status fusec_table_info(const fusec_program* program, int i, fusec_table* info) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_TRY(NotNull(info, "info"));
    const auto& tables = program->program->manifest().tables;
    FUSEC_RT_TRY(CheckIndex("table", i, tables.size()));
    const Table& table = tables[static_cast<size_t>(i)];
    const size_t bytes = table.fixed.empty() ? static_cast<size_t>(table.bytes()) : 0;
    *info = {table.name.c_str(),    table.dtype, table.rows,         table.columns,
             table.storage.c_str(), bytes,       table.fixed.c_str()};
    return {};
  });
}

fusec_status fusec_table_version(const fusec_program* program, const char* table,
                                 uint64_t* version) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_TRY(NotNull(table, "table"));
    FUSEC_RT_TRY(NotNull(version, "version"));
    FUSEC_RT_ASSIGN(const size_t number, program->program->FindTable(table));
    *version = program->program->table_version(number);
    return {};
  });
}

fusec_status fusec_table_cache(fusec_program* program, const char* table, fusec_cache_info* info) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_TRY(NotNull(table, "table"));
    FUSEC_RT_TRY(NotNull(info, "info"));
    FUSEC_RT_ASSIGN(*info, program->program->TableCache(table));
    return {};
  });
}

fusec_status fusec_warm_table(fusec_program* program, const char* table, const void* ids,
                              fusec_dtype id_dtype, int64_t count) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_TRY(NotNull(table, "table"));
    RowUpdate looked_up;
    looked_up.ids = ids;
    looked_up.id_dtype = id_dtype;
    looked_up.count = count;
    return program->program->WarmTable(table, looked_up);
  });
}

fusec_status fusec_create_context(fusec_program* program, fusec_context** context) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(context, "context"));
    *context = nullptr;
    FUSEC_RT_TRY(NotNull(program, "the program"));
    FUSEC_RT_ASSIGN(auto created, Context::Create(*program->program));
    *context = new fusec_context{std::move(created)};
    return {};
  });
}

void fusec_destroy_context(fusec_context* context) { delete context; }

fusec_status fusec_bind_input(fusec_context* context, int i, const void* data, const int64_t* dims,
                              int rank, int on_device) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(CheckInput(context, i));
    FUSEC_RT_TRY(CheckRank(context->context->program().manifest().inputs[i], rank));
    if (rank > 0) FUSEC_RT_TRY(NotNull(dims, "dims"));
    return context->context->BindInput(i, data, std::span(dims, static_cast<size_t>(rank)),
                                       on_device != 0);
  });
}

fusec_status fusec_bind_output(fusec_context* context, int i, void* data, size_t bytes,
                               int on_device) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(CheckOutput(context, i));
    if (bytes > 0) FUSEC_RT_TRY(NotNull(data, "data"));
    return context->context->BindOutput(i, data, bytes, on_device != 0);
  });
}

fusec_status fusec_output_dims(fusec_context* context, int i, int64_t* dims) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(CheckOutput(context, i));
    FUSEC_RT_ASSIGN(const auto values, context->context->OutputDims(i));
    return CopyDims(values, dims);
  });
}

fusec_status fusec_output_bounds(fusec_context* context, int i, int64_t* dims) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(CheckOutput(context, i));
    FUSEC_RT_ASSIGN(const auto values, context->context->OutputBounds(i));
    return CopyDims(values, dims);
  });
}

fusec_status fusec_run(fusec_context* context) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(context, "the context"));
    return context->context->Run();
  });
}

fusec_status fusec_run_async(fusec_context* context, void* stream) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(context, "the context"));
    return context->context->RunAsync(stream);
  });
}

fusec_status fusec_synchronize(fusec_context* context) {
  return Guard([&]() -> Status {
    FUSEC_RT_TRY(NotNull(context, "the context"));
    return context->context->Synchronize();
  });
}

void* fusec_stream(const fusec_context* context) {
  return context ? context->context->executor().stream() : nullptr;
}

size_t fusec_context_bytes(const fusec_context* context) {
  return context ? context->context->executor().scratch_bytes() : 0;
}

const void* fusec_get_output(fusec_context* context, int i, size_t* bytes) {
  if (bytes) *bytes = 0;
  const void* data = nullptr;
  (void)Guard([&]() -> Status {
    FUSEC_RT_TRY(CheckOutput(context, i));
    const auto output = context->context->GetOutput(i);
    if (bytes) *bytes = output.bytes;
    data = output.data;
    return {};
  });
  return data;
}

}  // extern "C"
