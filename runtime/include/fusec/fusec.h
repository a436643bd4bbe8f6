/* The C face of fusec's runtime: load an artifact, ask for its signature, bind tensors, run.
 *
 * Every function returns FUSEC_OK or an error code; fusec_last_error() then gives one line of text, per thread. Handles are opaque
 * and freed by their owner. A program may be used from any number of threads; a context by one at a time. */
#ifndef FUSEC_FUSEC_H_
#define FUSEC_FUSEC_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FUSEC_ABI_VERSION 1
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
  FUSEC_BAD_USAGE = 2,     /* a null handle, an unknown device name */
  FUSEC_NO_DEVICE = 4,     /* no driver, no GPU, no host library; a device error */
  FUSEC_BAD_ARTIFACT = 5,  /* a file is missing, damaged or of another version */
  FUSEC_BAD_INPUT = 6      /* wrong name, dtype, shape, size, or an index out of range */
} fusec_status;

typedef enum fusec_dtype {
  FUSEC_F32, FUSEC_F16, FUSEC_BF16, FUSEC_F64, FUSEC_I8, FUSEC_I16, FUSEC_I32, FUSEC_I64,
  FUSEC_U8, FUSEC_U16, FUSEC_U32, FUSEC_U64, FUSEC_BOOL
} fusec_dtype;

typedef struct fusec_tensor_info {
  const char* name;        /* lives as long as the program */
  fusec_dtype dtype;
  int rank;
  const char* const* dims; /* each "13" or an expression of symbols such as "batch*27" */
} fusec_tensor_info;

FUSEC_API int fusec_abi_version(void);
FUSEC_API const char* fusec_last_error(void);

/* device: "cpu", "cuda", "cuda:1", or NULL for a GPU where the artifact and the machine have one, else the CPU. */
FUSEC_API fusec_status fusec_load(const char* artifact_path, const char* device,
                                  fusec_program** program);
FUSEC_API void fusec_unload(fusec_program* program);
FUSEC_API const char* fusec_device_name(const fusec_program* program);

FUSEC_API int fusec_input_count(const fusec_program* program);
FUSEC_API int fusec_output_count(const fusec_program* program);
FUSEC_API fusec_status fusec_input_info(const fusec_program* program, int i,
                                        fusec_tensor_info* info);
FUSEC_API fusec_status fusec_output_info(const fusec_program* program, int i,
                                         fusec_tensor_info* info);

/* A context owns the scratch memory of one call at a time; cheap beside the program, which owns the weights. */
FUSEC_API fusec_status fusec_create_context(fusec_program* program, fusec_context** context);
FUSEC_API void fusec_destroy_context(fusec_context* context);

/* Gives input i for the next runs: `dims` has `rank` entries. The memory is host memory, or device memory of the program's GPU when
 * `on_device` is nonzero; it must stay valid until the run has finished. The dims of all inputs together set the symbols. */
FUSEC_API fusec_status fusec_bind_input(fusec_context* context, int i, const void* data,
                                        const int64_t* dims, int rank, int on_device);
/* Where output i goes. Without a call the context keeps the result; read it with fusec_get_output. */
FUSEC_API fusec_status fusec_bind_output(fusec_context* context, int i, void* data, size_t bytes,
                                         int on_device);
/* The dims of output i for the inputs bound now. `dims` has room for `rank` entries of fusec_output_info. */
FUSEC_API fusec_status fusec_output_dims(fusec_context* context, int i, int64_t* dims);
FUSEC_API fusec_status fusec_run(fusec_context* context);
/* Enqueues on `stream` (a CUstream) and returns; errors of the data show at fusec_synchronize. On the CPU the same as fusec_run. */
FUSEC_API fusec_status fusec_run_async(fusec_context* context, void* stream);
FUSEC_API fusec_status fusec_synchronize(fusec_context* context);
/* Host memory holding output i of the last run, valid until the next; NULL if it was bound elsewhere. */
FUSEC_API const void* fusec_get_output(fusec_context* context, int i, size_t* bytes);

#ifdef __cplusplus
}
#endif
#endif
