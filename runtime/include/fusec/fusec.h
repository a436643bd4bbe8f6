/* The C face of fusec's runtime: load an artifact, ask for its signature, bind tensors, run.
 *
 *     fusec_program* program;                 one per model and device: kernels, weights
 *     fusec_context* context;                 one per thread or stream: bindings, scratch memory
 *     fusec_load("model_fused", NULL, &program);
 *     fusec_create_context(program, &context);
 *     fusec_bind_input(context, 0, dense, (int64_t[]){64, 13}, 2, 0);
 *     fusec_run(context);
 *     const float* scores = fusec_get_output(context, 0, NULL);
 *
 * Tensors are dense and row-major. Inputs and outputs have names and are counted from 0 in the
 * model's order. Sizes are in elements where they are called dims, else in bytes.
 *
 * Errors: a function that returns fusec_status gives FUSEC_OK or says by the code whose fault it
 * was; fusec_last_error() is then one line that names the place. What failed may be tried again, and
 * left nothing half done, unless the text says that the program is unusable: after a device error
 * such as an illegal address the GPU refuses all further work of the process, and every context there
 * answers FUSEC_NO_DEVICE with the text of the first error.
 *
 * Threads: any function may be called from any thread. A program may be used by many threads at a
 * time, a context by one at a time. The program must outlive its contexts.
 *
 * Version: what is here keeps its meaning and layout while FUSEC_ABI_VERSION stays the same. */
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

/* The numbers are the exit codes of the command line program. */
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

/* FUSEC_ABI_VERSION of the library that is loaded, to be compared with that of this header. */
FUSEC_API int fusec_abi_version(void);
/* FUSEC_VERSION of the library that is loaded. */
FUSEC_API const char* fusec_version(void);
/* What went wrong in this thread's last call that failed: one line without a full stop, valid until
 * the thread's next failure; "" if nothing has failed yet. */
FUSEC_API const char* fusec_last_error(void);

/* "f32", "bf16", "bool"; "" for a number that is no dtype. */
FUSEC_API const char* fusec_dtype_name(fusec_dtype dtype);
/* Bytes of an element, 0 for a number that is no dtype. A bool is a byte of 0 or 1. */
FUSEC_API size_t fusec_dtype_bytes(fusec_dtype dtype);

/* ---- programs ---- */

/* Loads the folder that `fusec MODEL.onnx -o FOLDER` wrote: reads and checks its files, and on a GPU
 * copies the weights there, once however many contexts follow.
 * device: "cpu", "cuda" (the first GPU), "cuda:1", or NULL for a GPU where the artifact and the
 * machine have one, else the CPU. A sharded artifact (`fusec shard`) takes several GPUs, "cuda:0,1,2,3": its parts
 * take turns on them, and memory on the device is that of the first. An artifact without machine code for this GPU is compiled by NVRTC
 * (seconds, the first time). Fork before, not after: CUDA does not work in the child of a process
 * that used it, and threads of OpenMP not once the parent has run with several.
 * program: set to NULL if it fails. The caller owns it: fusec_unload. */
FUSEC_API fusec_status fusec_load(const char* artifact_path, const char* device,
                                  fusec_program** program);
/* FUSEC_OK if fusec_load would find all it needs here: the manifest is good, the device is there and
 * the artifact has code for it. Reads no weights, so damaged ones and a full GPU are not noticed.
 * Otherwise the error that fusec_load would give. */
FUSEC_API fusec_status fusec_can_load(const char* artifact_path, const char* device);
/* Puts other weights into a program: those of the artifact at this path, which is the same program with
 * other weights (`fusec refit`). Contexts, their bindings and captured graphs stay, runs go on
 * meanwhile, and every run sees all of the old weights or all of the new ones: those that are enqueued
 * when it returns see the new ones. A GPU needs room for the tensors that change a second time until
 * then, and its runs wait while these are copied within its memory. After an error the program has its
 * old weights. */
FUSEC_API fusec_status fusec_update_weights(fusec_program* program, const char* artifact_path);
/* Puts rows into a table while runs go on: the `count` rows at `rows`, one behind the other, become the
 * rows of that many ids, and are stored as the table is (rounded, or quantized row by row), with the
 * bits that `fusec refit` would give them. Of an id that is there twice, the last row counts.
 * table: a name of fusec_table_info. ids: FUSEC_I32 or FUSEC_I64, each in 0 .. rows - 1, with no
 * counting from the end. row_dtype: that of the table in the model.
 * A run sees each row either old or new, never a part of one. Runs that are enqueued when this returns
 * see all of the new ones; on a CPU every run sees all of an update or nothing of it. Updates, and those
 * of fusec_update_weights, come one behind the other; after the latter, the rows of its file count.
 * Memory: host memory, pageable or page-locked, or, when `on_device` is nonzero, of the program's GPU.
 * It starts at a multiple of the size of its elements.
 * stream: NULL to return when the rows are in the table; the memory is then free. Device memory is read
 * behind what CUDA's default stream does before. Otherwise a CUstream of the program's GPU, not one that is being
 * captured: work that was put there before is waited for on the GPU, and work that is put there later
 * waits for the update. Host memory is checked at once, and if it is page-locked, or device memory, must
 * not change until the stream gets past the update; pageable memory is free when this returns. The ids
 * of device memory are checked by the GPU, for which the call waits, and so for the work before it. On
 * a CPU the stream is ignored.
 * FUSEC_BAD_INPUT: no such table, or one whose rows cannot be updated (the error says why), another
 * dtype, an id outside the table, or an element that the stored form has no code for: NaN and infinities
 * in int8, int4 and fp8, and numbers that f16, bf16 or f32 would make infinite. Nothing is written then.
 * FUSEC_NO_DEVICE: without memory for it nothing is written either; after an error of the device some
 * of the rows may be. */
FUSEC_API fusec_status fusec_update_rows(fusec_program* program, const char* table, const void* ids,
                                         fusec_dtype id_dtype, const void* rows,
                                         fusec_dtype row_dtype, int64_t count, int on_device,
                                         void* stream);
/* Frees a program without contexts; NULL is allowed. */
FUSEC_API void fusec_unload(fusec_program* program);

/* "cpu (x86-64-v4)", "cuda:0 NVIDIA H200"; lives as long as the program. */
FUSEC_API const char* fusec_device_name(const fusec_program* program);
/* Bytes of device memory for the weights, without tables in host memory (--table-placement); 0 on the
 * CPU, where they are used in the mapped file. */
FUSEC_API size_t fusec_weight_bytes(const fusec_program* program);

/* Host memory for inputs and outputs, at a multiple of 64 bytes: page-locked for a program on a GPU,
 * which then copies from and to it by itself, without a detour through memory of the context.
 * Allocating is slow, so it is kept and used again.
 * memory: set to NULL if it fails. The caller owns it: fusec_free_host. */
FUSEC_API fusec_status fusec_allocate_host(fusec_program* program, size_t bytes, void** memory);
/* Frees it, before the program is unloaded and when no run uses it any more: those of fusec_run_async
 * until fusec_synchronize. NULL is allowed. */
FUSEC_API void fusec_free_host(fusec_program* program, void* memory);

/* ---- the signature; all that is pointed to lives as long as the program ---- */

typedef struct fusec_tensor_info {
  const char* name;
  fusec_dtype dtype;
  int rank;
  const char* const* dims; /* `rank` texts: "13", or an expression of symbols such as "batch*27" */
} fusec_tensor_info;

/* A size that each call chooses, within what the artifact was compiled for. 0 is taken as well where
   it makes all outputs empty: such a call launches nothing. */
typedef struct fusec_symbol {
  const char* name;
  int64_t min, max; /* inclusive */
} fusec_symbol;

/* 0 for NULL. */
FUSEC_API int fusec_input_count(const fusec_program* program);
FUSEC_API int fusec_output_count(const fusec_program* program);
FUSEC_API int fusec_symbol_count(const fusec_program* program);
/* FUSEC_BAD_USAGE if there is no such number. */
FUSEC_API fusec_status fusec_input_info(const fusec_program* program, int i,
                                        fusec_tensor_info* info);
FUSEC_API fusec_status fusec_output_info(const fusec_program* program, int i,
                                         fusec_tensor_info* info);
/* Nonzero if only the data of a run tell how large output i is, as where it holds the places that a
 * mask chooses. Its dims in fusec_tensor_info are the most that they can be then. 0 for NULL or a
 * number out of range. */
FUSEC_API int fusec_output_has_run_time_dims(const fusec_program* program, int i);
FUSEC_API fusec_status fusec_symbol_info(const fusec_program* program, int i, fusec_symbol* info);
/* The number of the input or output of that name. FUSEC_BAD_INPUT, with the names there are, if no
 * tensor is called so. */
FUSEC_API fusec_status fusec_find_input(const fusec_program* program, const char* name, int* i);
FUSEC_API fusec_status fusec_find_output(const fusec_program* program, const char* name, int* i);

/* ---- LoRA adapters, of programs that were compiled with --adapters ---- */

/* How many adapters a program holds at a time. Its input "adapter_id" says for each row of the batch
 * which slot it takes: 0 .. slots - 1, or -1 for none. Slot 0 holds the model's own adapter at first,
 * the others nothing. 0 for NULL, and without --adapters. */
FUSEC_API int fusec_adapter_slots(const fusec_program* program);
/* Puts an adapter into a slot while runs go on: contexts, their bindings and captured graphs stay.
 * Every run sees all of the old one or all of the new one; those that are enqueued when this returns
 * see the new one. fusec_update_weights leaves the slot alone from then on.
 * path: adapter_model.safetensors as PEFT saves it, with adapter_config.json beside it, or the folder
 * of both. Layers mean each other where one path ends with the other. lora_B is multiplied by
 * lora_alpha / rank (lora_alpha / sqrt(rank) with use_rslora), and both are rounded to the model's
 * type; without a config, by the scale that the model's own adapter has there. Layers that the file
 * does not name get nothing.
 * FUSEC_BAD_USAGE: no such slot. FUSEC_BAD_INPUT names the file and the tensor: a layer that the
 * program has no slots for, another shape, a rank above that of --adapters, DoRA, biases. The slot
 * keeps what it had after an error. */
FUSEC_API fusec_status fusec_load_adapter(fusec_program* program, int slot, const char* path);
/* Empties a slot in the same way: rows that choose it get what the model is without an adapter. */
FUSEC_API fusec_status fusec_unload_adapter(fusec_program* program, int slot);

/* ---- tables, for fusec_update_rows ---- */

/* A float initializer of the model that look-ups read rows of, or that --updatable named. */
typedef struct fusec_table {
  const char* name; /* in the model */
  fusec_dtype dtype; /* in the model */
  int64_t rows, columns; /* columns: elements of a row */
  const char* storage; /* of its rows: "f32", "f16", "bf16", "f64", "int8", "int4", "fp8" */
  size_t bytes; /* of all rows as they are stored, with their scales and biases */
  const char* fixed; /* "", or why its rows cannot be updated; `storage` is "" and `bytes` 0 then */
} fusec_table;

/* 0 for NULL. */
FUSEC_API int fusec_table_count(const fusec_program* program);
/* Table i, by name. FUSEC_BAD_USAGE if there is no such number. */
FUSEC_API fusec_status fusec_table_info(const fusec_program* program, int i, fusec_table* info);
/* How often the rows of a table have been updated, by fusec_update_rows or fusec_update_weights.
 * FUSEC_BAD_INPUT, with the names there are, if no table is called so. */
FUSEC_API fusec_status fusec_table_version(const fusec_program* program, const char* table,
                                           uint64_t* version);

/* ---- caches of tables in host memory (--table-cache) ---- */

/* Copies of a table's rows in the memory of the GPU. They come and go between runs: those of the rows
 * that the runs look up most often, as they note it of one look-up in some. */
typedef struct fusec_cache_info {
  int64_t rows; /* that have room; 0 for a table without a cache, and on a CPU */
  size_t bytes; /* of the GPU's memory, with those for scales and biases */
  uint64_t hits, misses; /* of the look-ups that were noted since the program was loaded */
  uint64_t loaded; /* rows that were copied into it since then */
} fusec_cache_info;

/* FUSEC_BAD_INPUT, with the names there are, if no table is called so. */
FUSEC_API fusec_status fusec_table_cache(fusec_program* program, const char* table,
                                         fusec_cache_info* info);
/* Loads into a table's cache the rows that come most often among `count` ids, such as those of an hour's
 * requests, and returns when they are there. Runs go on meanwhile. ids: host memory, FUSEC_I32 or
 * FUSEC_I64, each in 0 .. rows - 1. Nothing happens where the table has no cache.
 * FUSEC_BAD_INPUT: no such table, another dtype, or an id outside the table; nothing is loaded then. */
FUSEC_API fusec_status fusec_warm_table(fusec_program* program, const char* table, const void* ids,
                                        fusec_dtype id_dtype, int64_t count);

/* ---- contexts ---- */

/* Cheap beside the program, which owns the weights; a server keeps one per thread. Scratch memory
 * comes with the first run and grows with the largest dims seen.
 * context: set to NULL if it fails. The caller owns it: fusec_destroy_context. */
FUSEC_API fusec_status fusec_create_context(fusec_program* program, fusec_context** context);
/* Waits for what still runs; its results are lost with it. NULL is allowed. */
FUSEC_API void fusec_destroy_context(fusec_context* context);

/* Gives input i for all runs from now on. `dims` has `rank` entries, which are copied; the memory is
 * not: it has the product of dims elements, and must stay valid and unchanged until a run that reads
 * it has finished. It is host memory, which may start anywhere (at a multiple of 16 bytes a program
 * on the CPU reads it in place, else a copy), or, when `on_device` is nonzero, memory of the
 * program's GPU that starts at a multiple of 16 bytes and is read in place. `data` may be NULL for no
 * elements. Page-locked host memory (fusec_allocate_host, or what CUDA allocated or registered) is
 * recognised; a GPU reads it until the run has finished.
 * FUSEC_BAD_INPUT: the rank is not the signature's, or device memory for a program on the CPU. That
 * dims fit each other, the symbols' ranges and the memory is checked by the run. */
FUSEC_API fusec_status fusec_bind_input(fusec_context* context, int i, const void* data,
                                        const int64_t* dims, int rank, int on_device);
/* Where output i goes in all runs from now on: room for `bytes` or more than it needs (the most of
 * fusec_output_bounds), host or device memory as above. NULL and 0 undo it: the context keeps the
 * result for fusec_get_output. FUSEC_BAD_USAGE: NULL and more than 0. */
FUSEC_API fusec_status fusec_bind_output(fusec_context* context, int i, void* data, size_t bytes,
                                         int on_device);
/* The dims of output i for the inputs bound now, before or after a run. `dims` has room for the
 * `rank` entries of fusec_output_info.
 * With run-time dims (fusec_output_has_run_time_dims): once a run has ended well, by fusec_run or
 * fusec_synchronize, the dims of its result, until an input is bound or another run begins; before,
 * those of fusec_output_bounds. The result is dense, and begins where the output's memory does; what
 * is behind its last element is not part of it. */
FUSEC_API fusec_status fusec_output_dims(fusec_context* context, int i, int64_t* dims);
/* The most that the dims of output i can be for the inputs bound now: what memory for
 * fusec_bind_output must have room for. Those of fusec_output_dims, unless it has run-time dims. */
FUSEC_API fusec_status fusec_output_bounds(fusec_context* context, int i, int64_t* dims);

/* Runs with what is bound and returns when all outputs are written.
 * FUSEC_BAD_INPUT: an input is not bound, dims contradict each other or lie outside their ranges, an
 * output does not fit where it was bound, or an index of the data lies outside its table (the
 * outputs are then not to be used). FUSEC_NO_DEVICE: out of memory, or a device error. */
FUSEC_API fusec_status fusec_run(fusec_context* context);
/* Enqueues a run on `stream` and returns. Pageable host inputs (malloc, the stack) have been read by
 * then. All other bound memory, page-locked inputs too, is in use until the stream gets past the run,
 * as with CUDA's own asynchronous copies: inputs must not change before, and nothing may be freed.
 * Work that was put on the stream before is waited for, work that is put there later waits for the
 * run. Runs of one context follow each other, on whatever streams. Host outputs are there after
 * fusec_synchronize.
 * stream: a CUstream or cudaStream_t of the program's GPU; NULL is CUDA's default stream. It may be
 * destroyed once the run has finished. Not one that is being captured. On the CPU it is ignored, and
 * the call is the same as fusec_run.
 * Errors: those of fusec_run that show before anything runs; others wait for fusec_synchronize. */
FUSEC_API fusec_status fusec_run_async(fusec_context* context, void* stream);
/* A stream (CUstream) of the context's own for fusec_run_async, so that runs of several contexts
 * overlap without a call of CUDA; lives as long as the context. NULL on the CPU. */
FUSEC_API void* fusec_stream(const fusec_context* context);
/* Waits for all runs of the context, and gives the first error that they met. */
FUSEC_API fusec_status fusec_synchronize(fusec_context* context);
/* Host memory with output i of the last run, valid until the context runs or is destroyed; `bytes`,
 * if not NULL, is its size, of run-time dims the size of the result. NULL and 0 if the output was
 * bound elsewhere or nothing has run well. */
FUSEC_API const void* fusec_get_output(fusec_context* context, int i, size_t* bytes);
/* Bytes of scratch memory that the context holds now, on the device of its program: the arena, and
 * on a GPU staging copies and the library's workspace too. */
FUSEC_API size_t fusec_context_bytes(const fusec_context* context);

#ifdef __cplusplus
}
#endif
#endif
