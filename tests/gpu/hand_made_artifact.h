#pragma once

#include <fusec/fusec.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fusec::runtime {

// An artifact written by hand, for tests of the runtime without the compiler. Each call that names
// a tensor returns the index of its buffer. Dims are texts of the manifest's grammar.
class HandMadeArtifact {
 public:
  struct Operand {
    int buffer = 0;
    std::string offset = "0", batch_stride = "0";
  };
  struct MatmulStep {
    fusec_dtype dtype = FUSEC_F32;
    std::string m, n, k, batch = "1";
    Operand a, b, d;
    bool transpose_a = false, transpose_b = false;
    int bias = -1;
    std::string activation = "none";
  };
  struct KernelStep {
    std::string name, source;  // the CUDA text
    std::string blocks;
    int block_size = 128, shared_bytes = 0;
    // "b3" is buffer 3, "i:batch" and "l:batch*4" are i32 and i64 dims, "e" is the error argument.
    std::vector<std::string> arguments;
    std::vector<int> inputs, outputs;
  };

  HandMadeArtifact();
  ~HandMadeArtifact();
  HandMadeArtifact(const HandMadeArtifact&) = delete;
  HandMadeArtifact& operator=(const HandMadeArtifact&) = delete;

  void Precision(const std::string& precision);
  void Symbol(const std::string& name, int64_t min, int64_t max);
  int Input(const std::string& name, fusec_dtype dtype, const std::vector<std::string>& shape);
  int Output(const std::string& name, fusec_dtype dtype, const std::vector<std::string>& shape);
  int Arena(const std::string& name, fusec_dtype dtype, const std::string& elements);
  int Constant(const std::string& name, fusec_dtype dtype, int64_t elements, const void* data);
  // Returns the number that kernels report, 1 for the first.
  int IndexSite(const std::string& node, const std::string& tensor,
                const std::vector<std::string>& shape, int64_t extent);
  void Kernel(const KernelStep& kernel);
  void Matmul(const MatmulStep& matmul);

  // Writes it with one target, such as "sm_90a", and returns its folder. With machine code, the
  // kernels are compiled for that target by NVRTC, else only their text is there. An error is
  // printed and ends the program.
  std::string Write(const std::string& target, bool with_machine_code);
  const std::string& path() const { return path_; }

 private:
  struct Contents;
  int Buffer(const char* kind, const std::string& name, fusec_dtype dtype,
             const std::string& elements);
  void WriteFile(const std::string& relative_path, const std::string& bytes);
  std::unique_ptr<Contents> contents_;
  std::string path_;
};

}  // namespace fusec::runtime
