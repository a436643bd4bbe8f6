/* The C interface of fusec's runtime: load an artifact, query its signature, bind tensors, run.
 *
 *     fusec_program* program;                 one per model and device: kernels, weights
 *     fusec_context* context;                 one per thread or stream: bindings, scratch memory
 *     fusec_load("model_fused", NULL, &program);
 *     fusec_create_context(program, &context);
 *     fusec_bind_input(context, 0, dense, (int64_t[]){64, 13}, 2, 0);
 *     fusec_run(context);
 *     const float* scores = fusec_get_output(context, 0, NULL);
 *
 * Tensors are dense and row-major. Inputs and outputs have names, and indices that count from 0 in
 * the model's order. Dims are in elements; all other sizes are in bytes.
 *
 * Errors: a function that returns fusec_status returns FUSEC_OK or the kind of error;
 * fusec_last_error() then returns one line that describes it. A failed call leaves nothing half
 * done and may be tried again, unless the text says that the program is unusable: after a device
 * error such as an illegal address the GPU refuses all further work of the process, and every
 * context on that GPU returns FUSEC_NO_DEVICE with the text of the first error.
 *
 * Threads: any function may be called from any thread. Many threads may use one program at the same
 * time; a context may be used by only one thread at a time. The program must outlive its contexts.
 *
 * Version: the declarations below keep their meaning and layout as long as FUSEC_ABI_VERSION stays
 * the same. */
#ifndef FUSEC_FUSEC_H_
#define FUSEC_FUSEC_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FUSEC_ABI_VERSION 1
#define FUSEC_VERSION "0.1.0" /* the release */
#if defined(_WIN32)
#define FUSEC_API
#else
#define FUSEC_API __attribute__((visibility("default")))
#endif

typedef struct fusec_program fusec_program;
typedef struct fusec_context fusec_context;

/* The values are also the exit codes of the command line program. */
typedef enum fusec_status {
  FUSEC_OK = 0,
  FUSEC_BAD_USAGE = 2,    /* a null handle, a number out of range, an unknown device name */
  FUSEC_NO_DEVICE = 4,    /* no driver, no GPU, no host library, no memory; a device error */
  FUSEC_BAD_ARTIFACT = 5, /* a file is missing, damaged or of another version */
  FUSEC_BAD_INPUT = 6     /* wrong name, dtype, shape, size, or an index out of range */
} fusec_status;

typedef enum fusec_dtype {
  FUSEC_F32, FUSEC_F16, FUSEC_BF16, FUSEC_F64, FUSEC_I8, FUSEC_I16, FUSEC_I32, FUSEC_I64,
  FUSEC_U8, FUSEC_U16, FUSEC_U32, FUSEC_U64, FUSEC_BOOL
} fusec_dtype;

/* ---- the library ---- */

/* FUSEC_ABI_VERSION of the loaded library, to compare with that of this header. */
FUSEC_API int fusec_abi_version(void);
/* FUSEC_VERSION of the loaded library. */
FUSEC_API const char* fusec_version(void);
/* The error text of this thread's last failed call: one line without a full stop, valid until the
 * thread's next failure. It is "" if no call of the thread has failed. */
FUSEC_API const char* fusec_last_error(void);

/* The name of a dtype, such as "f32", "bf16" or "bool"; "" for an invalid value. */
FUSEC_API const char* fusec_dtype_name(fusec_dtype dtype);
/* Bytes of one element; 0 for an invalid value. A bool is one byte, 0 or 1. */
FUSEC_API size_t fusec_dtype_bytes(fusec_dtype dtype);

/* ---- programs ---- */

/* Loads the folder that `fusec MODEL.onnx -o FOLDER` wrote: reads and checks its files, and copies
 * the weights to the GPU if the device is one. All contexts of the program share these weights.
 * device: "cpu", "cuda" (the first GPU), "cuda:1", or NULL, which selects the first GPU if the
 * machine has one and the artifact has a GPU target, and the CPU otherwise. A sharded artifact
 * (`fusec shard`) also takes a list of GPUs, "cuda:0,1,2,3": its parts are distributed over them in
 * turn, and inputs and outputs in device memory belong to the first. An artifact without machine
 * code for this GPU is compiled by NVRTC, which takes seconds the first time. Do not fork after
 * this call: CUDA does not work in the child of a process that has used it, nor do OpenMP threads
 * in the child of a process that has run with several.
 * program: set to NULL on failure. The caller owns it and frees it with fusec_unload. */
FUSEC_API fusec_status fusec_load(const char* artifact_path, const char* device,
                                  fusec_program** program);
/* Checks whether fusec_load can succeed on this machine: the manifest is valid, the device exists,
 * and the artifact has code for it. Returns FUSEC_OK, or the error that fusec_load would return. It
 * reads no weights, so it detects neither damaged weights nor a GPU without enough free memory. */
FUSEC_API fusec_status fusec_can_load(const char* artifact_path, const char* device);
/* Replaces the weights of a program by those of the artifact at this path, which must be the same
 * program with other weights (`fusec refit` writes such artifacts). Contexts, their bindings and
 * captured graphs stay valid, and runs continue meanwhile. Every run sees either all of the old
 * weights or all of the new ones; runs that are enqueued after the call has returned see the new
 * ones. On a GPU the tensors that change need memory for a second copy during the call, and runs
 * wait while this copy is moved into place within the GPU's memory. After an error the program
 * keeps its old weights. */
FUSEC_API fusec_status fusec_update_weights(fusec_program* program, const char* artifact_path);
/* Overwrites rows of a table while runs continue: row ids[i] of the table becomes the i-th of the
 * `count` consecutive rows at `rows`. The rows are converted to the storage type of the table
 * (rounded, or quantized row by row), with the same bits that `fusec refit` would write. If an id
 * occurs more than once, its last row is stored.
 * table: a name from fusec_table_info. ids: FUSEC_I32 or FUSEC_I64, each in 0 .. rows - 1 and
 * never negative. row_dtype: the dtype of the table in the model.
 * A run sees each row either old or new, never a mixture of both. Runs that are enqueued after the
 * call has returned see all new rows; on a CPU every run sees either all of an update or nothing of
 * it. Calls of this function and of fusec_update_weights are executed one after another; the latter
 * overwrites all rows with those of its artifact.
 * Memory: `ids` and `rows` are both host memory (pageable or page-locked) or, if `on_device` is
 * nonzero, memory of the program's GPU. They are aligned to the size of their elements.
 * stream: With NULL, the call returns when the rows are in the table, and the memory may then be
 * reused; device memory is read after the earlier work of CUDA's default stream. Otherwise it is a
 * CUstream of the program's GPU that is not being captured: the update waits on the GPU for earlier
 * work of the stream, and later work of the stream waits for the update. Host memory is checked
 * before the call returns. Page-locked and device memory must not change until the stream has
 * passed the update; pageable memory may be reused when the call returns. Ids in device memory are
 * checked by the GPU; the call waits for this check and therefore for the earlier work of the
 * stream. On a CPU the stream is ignored.
 * FUSEC_BAD_INPUT: there is no such table, its rows cannot be updated (the error says why), a dtype
 * is wrong, an id is outside the table, or the storage type cannot represent an element: NaN and
 * infinities in int8, int4 and fp8, and finite numbers that overflow to infinity in f16, bf16 or
 * f32. Nothing is written in these cases.
 * FUSEC_NO_DEVICE: if memory is insufficient, nothing is written; after a device error some of the
 * rows may have been written. */
FUSEC_API fusec_status fusec_update_rows(fusec_program* program, const char* table, const void* ids,
                                         fusec_dtype id_dtype, const void* rows,
                                         fusec_dtype row_dtype, int64_t count, int on_device,
                                         void* stream);
/* Frees a program, whose contexts must have been destroyed before. NULL is allowed. */
FUSEC_API void fusec_unload(fusec_program* program);

/* The device, such as "cpu (x86-64-v4)" or "cuda:0 NVIDIA H200"; the text lives as long as the
 * program. */
FUSEC_API const char* fusec_device_name(const fusec_program* program);
/* Bytes of device memory that the weights occupy, without the tables that stay in host memory
 * (--table-placement). It is 0 on a CPU, which reads the weights from the mapped file. */
FUSEC_API size_t fusec_weight_bytes(const fusec_program* program);

/* Allocates host memory for inputs and outputs, aligned to 64 bytes. For a program on a GPU it is
 * page-locked: the GPU then copies from and to it directly, without a staging buffer of the
 * context. Page-locked memory is slow to allocate, so allocate it once and reuse it.
 * memory: set to NULL on failure. The caller owns it and frees it with fusec_free_host. */
FUSEC_API fusec_status fusec_allocate_host(fusec_program* program, size_t bytes, void** memory);
/* Frees memory of fusec_allocate_host. Call it before the program is unloaded and after all runs
 * that use the memory have finished (after fusec_synchronize for those of fusec_run_async). NULL is
 * allowed. */
FUSEC_API void fusec_free_host(fusec_program* program, void* memory);

/* ---- the signature; its texts and arrays live as long as the program ---- */

typedef struct fusec_tensor_info {
  const char* name;
  fusec_dtype dtype;
  int rank;
  const char* const* dims; /* `rank` texts: "13", or an expression of symbols such as "batch*27" */
} fusec_tensor_info;

/* A size that each call chooses within the range that the artifact was compiled for. A size of 0 is
   also accepted if it makes all outputs empty: such a call launches nothing. */
typedef struct fusec_symbol {
  const char* name;
  int64_t min, max; /* inclusive */
} fusec_symbol;

/* How many inputs, outputs and symbols there are; 0 for NULL. */
FUSEC_API int fusec_input_count(const fusec_program* program);
FUSEC_API int fusec_output_count(const fusec_program* program);
FUSEC_API int fusec_symbol_count(const fusec_program* program);
/* The description of input, output or symbol i. FUSEC_BAD_USAGE: i is out of range. */
FUSEC_API fusec_status fusec_input_info(const fusec_program* program, int i,
                                        fusec_tensor_info* info);
FUSEC_API fusec_status fusec_output_info(const fusec_program* program, int i,
                                         fusec_tensor_info* info);
/* Nonzero if the size of output i depends on the data of a run, for example because the output
 * holds the positions where a mask is true. Its dims in fusec_tensor_info are then upper bounds. 0
 * for NULL or if i is out of range. */
FUSEC_API int fusec_output_has_run_time_dims(const fusec_program* program, int i);
/* The index of the input in whose memory output i was compiled to lie (--in-place; see
 * fusec_bind_output). -1 if there is none, for NULL, and if i is out of range. */
FUSEC_API int fusec_output_in_place_of(const fusec_program* program, int i);
FUSEC_API fusec_status fusec_symbol_info(const fusec_program* program, int i, fusec_symbol* info);
/* The index of the input or output with this name. FUSEC_BAD_INPUT: there is none; the error lists
 * the existing names. */
FUSEC_API fusec_status fusec_find_input(const fusec_program* program, const char* name, int* i);
FUSEC_API fusec_status fusec_find_output(const fusec_program* program, const char* name, int* i);

/* ---- LoRA adapters, for programs that were compiled with --adapters ---- */

/* How many adapters a program can hold at the same time. Its input "adapter_id" selects a slot
 * for each row of the batch: 0 .. slots - 1, or -1 for no adapter. After loading, slot 0 holds the
 * adapter of the ONNX model and the other slots are empty. 0 for NULL and for programs without
 * adapters. */
FUSEC_API int fusec_adapter_slots(const fusec_program* program);
/* Loads an adapter into a slot while runs continue; contexts, their bindings and captured graphs
 * stay valid. Every run sees either all of the old adapter or all of the new one; runs that are
 * enqueued after the call has returned see the new one. From then on fusec_update_weights does not
 * change the slot.
 * path: adapter_model.safetensors as PEFT saves it, with adapter_config.json beside it, or the
 * folder that holds both. A layer of the file belongs to a layer of the program if the path of one
 * ends with the path of the other. lora_B is multiplied by lora_alpha / rank (with use_rslora by
 * lora_alpha / sqrt(rank)), or, if there is no adapter_config.json, by the scale of the ONNX
 * model's adapter in that layer. lora_A and the scaled lora_B are rounded to the model's type.
 * Layers that the file does not name get no adapter.
 * FUSEC_BAD_USAGE: there is no such slot. FUSEC_BAD_INPUT: the file has a layer that the program
 * has no slots for, a wrong shape, a rank above that of --adapters, DoRA, or biases; the error
 * names the file and the tensor. After an error the slot keeps its old adapter. */
FUSEC_API fusec_status fusec_load_adapter(fusec_program* program, int slot, const char* path);
/* Empties a slot in the same way: rows that select it get the result of the model without an
 * adapter. */
FUSEC_API fusec_status fusec_unload_adapter(fusec_program* program, int slot);

/* ---- tables, for fusec_update_rows ---- */

/* A table: a floating-point initializer of the model whose rows are looked up, or that --updatable
 * named. */
typedef struct fusec_table {
  const char* name; /* in the model */
  fusec_dtype dtype; /* in the model */
  int64_t rows, columns; /* columns: elements of a row */
  const char* storage; /* storage type: "f32", "f16", "bf16", "f64", "int8", "int4" or "fp8" */
  size_t bytes; /* of all rows as they are stored, with their scales and biases */
  const char* fixed; /* why its rows cannot be updated (`storage` is "", `bytes` 0 then), or "" */
} fusec_table;

/* How many tables there are; 0 for NULL. */
FUSEC_API int fusec_table_count(const fusec_program* program);
/* The description of table i. FUSEC_BAD_USAGE: i is out of range. */
FUSEC_API fusec_status fusec_table_info(const fusec_program* program, int i, fusec_table* info);
/* How often the rows of the table were updated: the number of successful calls of fusec_update_rows
 * for this table (with at least one row) and of fusec_update_weights.
 * FUSEC_BAD_INPUT: there is no such table; the error lists the existing names. */
FUSEC_API fusec_status fusec_table_version(const fusec_program* program, const char* table,
                                           uint64_t* version);

/* ---- GPU caches of tables in host memory (--table-cache) ---- */

/* State of a cache: GPU memory with copies of those rows of a table in host memory that runs look
 * up most often. Runs record a sample of their look-ups; rows are replaced between runs. */
typedef struct fusec_cache_info {
  int64_t rows; /* capacity in rows; 0 for a table without a cache, and on a CPU */
  size_t bytes; /* GPU memory of the cache, with scales and biases */
  uint64_t hits, misses; /* of the recorded look-ups since the program was loaded */
  uint64_t loaded; /* rows copied into the cache since the program was loaded */
} fusec_cache_info;

/* The state of a table's cache. FUSEC_BAD_INPUT: there is no such table; the error lists the
 * existing names. */
FUSEC_API fusec_status fusec_table_cache(fusec_program* program, const char* table,
                                         fusec_cache_info* info);
/* Loads the rows that occur most often among `count` ids (of an hour of requests, for example) into
 * a table's cache, and returns when they are loaded. Runs continue meanwhile. ids: host memory,
 * FUSEC_I32 or FUSEC_I64, each in 0 .. rows - 1. The call does nothing if the table has no cache.
 * FUSEC_BAD_INPUT: there is no such table, the dtype is wrong, or an id is outside the table;
 * nothing is loaded then. */
FUSEC_API fusec_status fusec_warm_table(fusec_program* program, const char* table, const void* ids,
                                        fusec_dtype id_dtype, int64_t count);

/* ---- contexts ---- */

/* Creates a context, which holds bindings and scratch memory but no weights; a server keeps one per
 * thread. Scratch memory is allocated by the first run and grows with the largest dims seen.
 * context: set to NULL on failure. The caller owns it and frees it with fusec_destroy_context. */
FUSEC_API fusec_status fusec_create_context(fusec_program* program, fusec_context** context);
/* Waits for the runs of the context to finish, then frees it with the results that it holds. NULL
 * is allowed. */
FUSEC_API void fusec_destroy_context(fusec_context* context);

/* Binds input i for all following runs. `dims` has `rank` entries, which are copied. The data are
 * not copied: `data` points to as many elements as the product of the dims, and must stay valid
 * and unchanged until every run that reads it has finished. It is host memory of any alignment (a
 * program on the CPU reads it in place if it is aligned to 16 bytes, and otherwise copies it), or,
 * if `on_device` is nonzero, memory of the program's GPU that is aligned to 16 bytes and is read in
 * place. `data` may be NULL if there are no elements. Page-locked host memory (from
 * fusec_allocate_host, or allocated or registered by CUDA) is recognised; a GPU reads it until the
 * run has finished.
 * FUSEC_BAD_INPUT: the rank differs from the signature, or device memory is given to a program on
 * the CPU. Whether dims agree with each other and with the ranges of the symbols is checked by the
 * run. */
FUSEC_API fusec_status fusec_bind_input(fusec_context* context, int i, const void* data,
                                        const int64_t* dims, int rank, int on_device);
/* Binds the memory that output i is written to in all following runs: `bytes` bytes of host or
 * device memory, as for fusec_bind_input, and at least as many as the dims of fusec_output_bounds
 * need. NULL with 0 bytes removes the binding; the context then keeps the result for
 * fusec_get_output.
 * An output that was compiled to lie in the memory of an input (--in-place) may be bound to the
 * memory that is bound to this input: a run then only writes the new rows into it. Other memory
 * first gets a copy of the input. After an error of the data (a row behind the end of the memory),
 * some of the new rows may be there.
 * FUSEC_BAD_USAGE: `data` is NULL and `bytes` is not 0. */
FUSEC_API fusec_status fusec_bind_output(fusec_context* context, int i, void* data, size_t bytes,
                                         int on_device);
/* The dims of output i for the inputs that are bound, before or after a run. `dims` has room for
 * the `rank` entries of fusec_output_info.
 * If the output has run-time dims (fusec_output_has_run_time_dims): after fusec_run or
 * fusec_synchronize has succeeded, these are the dims of the result, until an input is bound or
 * another run begins; otherwise they are those of fusec_output_bounds. The result is dense and
 * starts at the beginning of the output's memory; the memory after its last element is not part of
 * it. */
FUSEC_API fusec_status fusec_output_dims(fusec_context* context, int i, int64_t* dims);
/* Upper bounds of the dims of output i for the inputs that are bound; memory for fusec_bind_output
 * must have room for them. They are the dims of fusec_output_dims unless the output has run-time
 * dims. */
FUSEC_API fusec_status fusec_output_bounds(fusec_context* context, int i, int64_t* dims);

/* Runs with the bound tensors and returns when all outputs are written.
 * FUSEC_BAD_INPUT: an input is not bound, dims contradict each other or lie outside their ranges,
 * an output does not fit into the memory bound to it, or an index in the data lies outside its
 * table (do not use the outputs then). FUSEC_NO_DEVICE: out of memory, or a device error. */
FUSEC_API fusec_status fusec_run(fusec_context* context);
/* Enqueues a run on `stream` and returns. Pageable host inputs (malloc, the stack) have been read
 * when the call returns. All other bound memory, including page-locked inputs, is in use until the
 * stream has passed the run, as with CUDA's own asynchronous copies: until then inputs must not
 * change, and no bound memory may be freed. The run waits for earlier work of the stream, and later
 * work of the stream waits for the run. Runs of one context are executed one after another, even on
 * different streams. Host outputs are complete after fusec_synchronize.
 * stream: a CUstream or cudaStream_t of the program's GPU that is not being captured; NULL is
 * CUDA's default stream. It may be destroyed once the run has finished. On the CPU it is ignored,
 * and the call is the same as fusec_run.
 * Errors: those of fusec_run that are detected before anything runs; fusec_synchronize returns the
 * others. */
FUSEC_API fusec_status fusec_run_async(fusec_context* context, void* stream);
/* The context's own stream (a CUstream) for fusec_run_async: with it, runs of several contexts
 * overlap and the caller need not create streams. It lives as long as the context; NULL on the CPU.
 *  */
FUSEC_API void* fusec_stream(const fusec_context* context);
/* Waits for all runs of the context, and returns their first error. */
FUSEC_API fusec_status fusec_synchronize(fusec_context* context);
/* Output i of the last run in host memory, valid until the context runs again or is destroyed.
 * `bytes`, if not NULL, receives its size (with run-time dims, the size of the result). Returns
 * NULL and sets `bytes` to 0 if the output was bound to other memory or no run has succeeded. */
FUSEC_API const void* fusec_get_output(fusec_context* context, int i, size_t* bytes);
/* Bytes of scratch memory that the context holds on the device of its program: the arena, and on a
 * GPU also staging buffers and the workspace of cuBLASLt. */
FUSEC_API size_t fusec_context_bytes(const fusec_context* context);

#ifdef __cplusplus
}
#endif
#endif
