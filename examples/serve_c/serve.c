/* Loads an artifact of models/dlrm_dot.ts.onnx, prints its signature, scores a batch and prints the
 * scores. Plain C99:
 *
 *   build/fusec models/dlrm_dot.ts.onnx -o dlrm_fused
 *   cc -std=c99 -Iruntime/include examples/serve_c/serve.c -o serve -Lbuild/runtime -lfusec_rt
 *   LD_LIBRARY_PATH=build/runtime ./serve dlrm_fused [cpu|cuda]
 */
#include <fusec/fusec.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBatch = 4, kDense = 13, kTables = 26 };

/* Prints the error text and exits if a call of the library has failed. */
static void Check(fusec_status status) {
  if (status == FUSEC_OK) return;
  fprintf(stderr, "error %d: %s\n", (int)status, fusec_last_error());
  exit((int)status);
}

static void PrintTensor(const char* what, const fusec_tensor_info* tensor) {
  printf("%s %s %s[", what, tensor->name, fusec_dtype_name(tensor->dtype));
  for (int axis = 0; axis < tensor->rank; ++axis) {
    printf("%s%s", axis > 0 ? ", " : "", tensor->dims[axis]);
  }
  printf("]\n");
}

static void PrintSignature(const fusec_program* program) {
  printf("fusec %s on %s\n", fusec_version(), fusec_device_name(program));
  for (int i = 0; i < fusec_symbol_count(program); ++i) {
    fusec_symbol symbol;
    Check(fusec_symbol_info(program, i, &symbol));
    printf("symbol %s %" PRId64 "..%" PRId64 "\n", symbol.name, symbol.min, symbol.max);
  }
  for (int i = 0; i < fusec_input_count(program); ++i) {
    fusec_tensor_info tensor;
    Check(fusec_input_info(program, i, &tensor));
    PrintTensor("input", &tensor);
  }
  for (int i = 0; i < fusec_output_count(program); ++i) {
    fusec_tensor_info tensor;
    Check(fusec_output_info(program, i, &tensor));
    PrintTensor("output", &tensor);
  }
}

int main(int count, char** arguments) {
  if (count < 2 || count > 3) {
    fprintf(stderr, "usage: serve ARTIFACT [DEVICE]\n");
    return FUSEC_BAD_USAGE;
  }
  if (fusec_abi_version() != FUSEC_ABI_VERSION) {
    fprintf(stderr, "libfusec_rt.so has another ABI version than fusec.h\n");
    return FUSEC_BAD_USAGE;
  }
  fusec_program* program = NULL;
  fusec_context* context = NULL;
  Check(fusec_load(arguments[1], count == 3 ? arguments[2] : NULL, &program));
  PrintSignature(program);
  Check(fusec_create_context(program, &context));

  static float dense[kBatch][kDense];
  static int64_t ids[kBatch][kTables];
  for (int row = 0; row < kBatch; ++row) {
    for (int i = 0; i < kDense; ++i) dense[row][i] = (float)((row + i) % 5) / 4;
    for (int i = 0; i < kTables; ++i) ids[row][i] = (row + i) % 3;
  }
  const int64_t dense_dims[] = {kBatch, kDense}, ids_dims[] = {kBatch, kTables};
  int dense_input = 0, ids_input = 0, output = 0;
  Check(fusec_find_input(program, "in0", &dense_input));
  Check(fusec_find_input(program, "in1", &ids_input));
  Check(fusec_find_output(program, "out0", &output));
  Check(fusec_bind_input(context, dense_input, dense, dense_dims, 2, 0));
  Check(fusec_bind_input(context, ids_input, ids, ids_dims, 2, 0));
  Check(fusec_run(context));

  size_t bytes = 0;
  const float* scores = fusec_get_output(context, output, &bytes);
  for (size_t i = 0; i < bytes / sizeof(float); ++i) printf("score %.6f\n", (double)scores[i]);
  fusec_destroy_context(context);
  fusec_unload(program);
  return 0;
}
