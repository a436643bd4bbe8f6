#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/src/artifact/adapters.h"
#include "runtime/src/artifact/dim_expression.h"
#include "runtime/src/artifact/matmul_algorithm.h"
#include "runtime/src/artifact/row_cache.h"
#include "runtime/src/artifact/table.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// The target whose steps are runs of other artifacts.
inline constexpr const char* kShardsTarget = "shards";

// manifest.json as plain data. After ParseManifest every index in it is in range;
// runtime/ARTIFACT.md says what the fields mean.

struct Symbol {
  std::string name;
  int64_t min = 1, max = 1;  // what kernels are made for, inclusive
  // Whether all outputs are empty where it is 0, although kernels are made for 1 and more: a run
  // has nothing to do then.
  bool serves_empty = false;

  int64_t lowest() const { return serves_empty ? 0 : min; }
};

struct TensorSignature {
  std::string name;
  fusec_dtype dtype = FUSEC_F32;
  std::vector<DimExpression> shape;
  int buffer = 0;
  // Of an input that chooses rows: what its values should be below, one limit for all or one for
  // each place of `index_axis`. Nothing but random data asks.
  std::vector<DimExpression> index_limits;
  int index_axis = 0;
  bool ascending = false;
  std::optional<DimExpression> total = {};  // of lengths; of offsets, which ascend: the last one
  // Of an output with sizes that run-time data tell, which `shape` has room for: by axis the
  // element of the run-time sizes that is the true one, or -1. Empty for other tensors.
  std::vector<int> sizes = {};
};

enum class BufferKind { kInput, kOutput, kConstant, kArena };

struct Buffer {
  std::string name;
  BufferKind kind = BufferKind::kArena;
  fusec_dtype dtype = FUSEC_F32;
  DimExpression elements;
  std::string tensor;    // of kConstant: its name in weights.safetensors
  bool on_host = false;  // of kConstant: a GPU reads it in host memory
};

// What the values may be: -extent..extent-1, 0..extent, -1..extent-1.
enum class IndexValues { kIndex, kLength, kSlot };

// A place where a kernel reads through an index from the data.
struct IndexSite {
  std::string node;                  // "tables.3/Gather"
  std::string tensor;                // the tensor of indices
  std::string input;                 // the input that it comes from unchanged, or ""
  std::vector<DimExpression> shape;  // of the tensor of indices
  DimExpression extent;
  IndexValues values = IndexValues::kIndex;
};

struct KernelArgument {
  enum class Kind { kBuffer, kBuffers, kInt32, kInt64, kErrors };
  Kind kind = Kind::kBuffer;
  int buffer = 0;            // of kBuffer
  std::vector<int> buffers;  // of kBuffers: a struct of their addresses, passed by value
  DimExpression dim;         // of kInt32 and kInt64
  bool operator==(const KernelArgument&) const = default;
};

struct KernelLaunch {
  std::string function;          // "k03_bias_relu", which is the step's name unless steps share one
  std::string source;            // "kernels/k03_bias_relu.cu"
  std::string module = "cubin";  // the key in the target's files of the machine code for a GPU
  DimExpression blocks;
  int block_size = 1;
  int shared_bytes = 0;
  bool dependent_launch = false;  // begins by waiting for earlier kernels
  // Its outputs may not lie in page-locked memory: it loads them again, or its stores are too
  // small.
  bool outputs_in_device_memory = true;
  std::vector<KernelArgument> arguments;
  bool operator==(const KernelLaunch&) const = default;
};

// Offsets and strides count elements of the matmul's dtype.
struct MatmulOperand {
  int buffer = 0;
  DimExpression offset, batch_stride;
  bool operator==(const MatmulOperand&) const = default;
};

enum class Activation { kNone, kRelu, kGeluTanh, kGeluErf, kSigmoid, kTanh };

// d = activation(op(a) * op(b) + bias + addend) for each matrix of the batch, all row-major: a is
// [m, k], or [k, m] if transposed; b is [k, n] or [n, k]; d is [m, n].
struct Matmul {
  fusec_dtype dtype = FUSEC_F32;
  DimExpression m, n, k, batch, bias_stride;
  MatmulOperand a, b, d;
  bool transpose_a = false, transpose_b = false;
  int bias = -1;    // buffer of n elements, for each matrix if bias_stride is not 0, or -1
  int addend = -1;  // buffer whose matrices lie as those of d, from 0 on, or -1; k > 0
  Activation activation = Activation::kNone;
  MatmulAlgorithm algorithm;  // measured to be fast, if any
  bool operator==(const Matmul&) const = default;
};

// Of several steps that make the same values, the one runs whose range holds the size.
struct SizeRange {
  DimExpression size;
  int64_t from = 0, to = 0;  // inclusive
  // `from` - 1 follows from how many blocks the target's multiprocessors run at once.
  bool by_waves = false;
  bool operator==(const SizeRange&) const = default;
};

struct Step {
  enum class Kind { kKernel, kMatmul, kArtifact };
  Kind kind = Kind::kKernel;
  std::optional<SizeRange> when;  // always, if empty
  std::string name;               // of a kernel: its symbol in the module or library
  KernelLaunch kernel;            // of kKernel
  Matmul matmul;                  // of kMatmul
  std::string folder;             // of kArtifact: the folder of the artifact that it runs
  std::string edited;  // of an edited kernel what its check said: "passed", "failed", "not run"
  std::vector<int> inputs, outputs;  // buffers
  DimExpression bytes_read, bytes_written, flops;
  bool operator==(const Step&) const = default;
};

struct Target {
  std::string name;                          // "cpu", "sm_90a", "shards"
  std::map<std::string, std::string> files;  // "cubin", "cubin_2" or an x86-64 level -> path
  int multiprocessors = 0;  // of the GPU that alternatives were planned for; 0 if it is not told
  std::vector<Step> steps;
  bool operator==(const Target&) const = default;
};

struct Manifest {
  std::string model;
  std::string matmul_precision;        // "highest", "high", "medium", "fp8"
  std::string rounding = "stores";     // of f16 and bf16: "stores", "every op"
  std::string index_policy = "error";  // "error", "clamp", "wrap", "zero"; kernels obey it
  bool batch_invariant = false;        // no product by a library: its sums may depend on the rows
  std::vector<Symbol> symbols;
  // Their buffers are of kind input and output, each used once. With run-time sizes, the last
  // output is their i64 vector, which is no output of the model: contexts read it when a run has
  // ended.
  std::vector<TensorSignature> inputs, outputs;
  bool has_run_time_sizes = false;
  std::vector<Buffer> buffers;
  std::vector<Table> tables;         // by name
  std::vector<RowCache> row_caches;  // of tables in host memory
  std::vector<IndexSite> index_sites;
  Adapters adapters;
  std::map<std::string, Target> targets;
  std::map<std::string, std::string> hashes;  // relative path -> XXH3-128, lower case hexadecimal

  std::vector<std::string> SymbolNames() const;
  size_t output_count() const { return outputs.size() - (has_run_time_sizes ? 1 : 0); }
};

// How a manifest.json that fusec wrote begins: 32 digits follow, the end of the line, and what they
// are the XXH3-128 of. One written by hand leaves the line out.
inline constexpr std::string_view kManifestHash = "{\n \"hash\": \"";
inline constexpr std::string_view kManifestHashEnd = "\",\n";

// Every error names `file` and the key: `model_fused/manifest.json: buffers[3].dtype is "f33",
// expected a dtype`.
StatusOr<Manifest> ParseManifest(std::string_view json, const std::string& file);

}  // namespace fusec::runtime
