#pragma once

#include <fusec/fusec.h>

#include <string>
#include <vector>

namespace fusec::runtime {

// A matmul step that is run on a GPU and compared with a naive product in double precision.
struct MatmulCase {
  std::string name;
  fusec_dtype dtype = FUSEC_F32;
  std::string precision = "highest", activation = "none";
  int64_t m = 1, n = 1, k = 1, batch = 1;
  bool transpose_a = false, transpose_b = false, has_bias = false;
  bool shared_b = false;    // one b for the whole batch (stride 0)
  bool own_biases = false;  // a bias for each matrix of the batch
  int64_t padding = 0;      // number of elements before the first matrix and after each matrix
};

std::vector<MatmulCase> MatmulCases();

// Returns "" if the GPU's result is right, and otherwise what is wrong.
std::string RunMatmulCase(const MatmulCase& c, const std::string& target);

}  // namespace fusec::runtime
