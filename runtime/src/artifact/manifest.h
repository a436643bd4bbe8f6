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

// The contents of manifest.json as plain data. After ParseManifest every index in it is in range.
// runtime/ARTIFACT.md describes the fields.

struct Symbol {
  std::string name;
  int64_t min = 1, max = 1;  // the range that kernels are compiled for, inclusive
  // Whether 0 is allowed although `min` is 1: all outputs are empty then, and a run executes
  // nothing.
  bool serves_empty = false;

  int64_t lowest() const { return serves_empty ? 0 : min; }
};

struct TensorSignature {
  std::string name;
  fusec_dtype dtype = FUSEC_F32;
  std::vector<DimExpression> shape;
  int buffer = 0;
  // For an input of ids: exclusive upper limits of its values, one for all values or one for each
  // position along `index_axis`. Only the generator of random data uses them.
  std::vector<DimExpression> index_limits;
  int index_axis = 0;
  bool ascending = false;
  std::optional<DimExpression> total = {};  // the sum of lengths, or the last of ascending offsets
  // For an output whose size depends on the data of a run (`shape` is its upper bound): for each
  // axis the index of its actual size in the run-time sizes, or -1. Empty for other tensors.
  std::vector<int> sizes = {};
};

enum class BufferKind { kInput, kOutput, kConstant, kArena };

struct Buffer {
  std::string name;
  BufferKind kind = BufferKind::kArena;
  fusec_dtype dtype = FUSEC_F32;
  DimExpression elements;
  std::string tensor;    // kConstant: its name in weights.safetensors
  bool on_host = false;  // kConstant: it stays in host memory, where a GPU reads it
  // kOutput: the buffer of the input of which steps overwrite a part to make the output, or -1. If
  // both are bound to one memory, nothing else is copied.
  int in_place_of = -1;
};

// The allowed values: -extent..extent-1 (kIndex), 0..extent (kLength), -1..extent-1 (kSlot).
enum class IndexValues { kIndex, kLength, kSlot };

// A place in a kernel that uses an index from the data to read memory.
struct IndexSite {
  std::string node;                  // "tables.3/Gather"
  std::string tensor;                // the tensor of indices
  std::string input;                 // the model's input that holds these indices, or ""
  std::vector<DimExpression> shape;  // of the tensor of indices
  DimExpression extent;
  IndexValues values = IndexValues::kIndex;
};

struct KernelArgument {
  enum class Kind { kBuffer, kBuffers, kInt32, kInt64, kErrors };
  Kind kind = Kind::kBuffer;
  int buffer = 0;            // kBuffer
  std::vector<int> buffers;  // kBuffers: a struct of their addresses, passed by value
  DimExpression dim;         // kInt32 and kInt64
  bool operator==(const KernelArgument&) const = default;
};

struct KernelLaunch {
  std::string function;          // "k03_bias_relu": the step's name, unless several steps share it
  std::string source;            // "kernels/k03_bias_relu.cu"
  std::string module = "cubin";  // GPU: key of the machine code in the target's files
  DimExpression blocks;
  int block_size = 1;
  int shared_bytes = 0;
  bool dependent_launch = false;  // begins by waiting for earlier kernels
  // Its outputs must not be in page-locked host memory, because it loads them again or its stores
  // are small.
  bool outputs_in_device_memory = true;
  std::vector<KernelArgument> arguments;
  bool operator==(const KernelLaunch&) const = default;
};

// An operand of a matmul. Offsets and strides count elements of its dtype.
struct MatmulOperand {
  int buffer = 0;
  fusec_dtype dtype = FUSEC_F32;  // that of the buffer
  DimExpression offset, batch_stride;
  bool operator==(const MatmulOperand&) const = default;
};

enum class Activation { kNone, kRelu, kGeluTanh, kGeluErf, kSigmoid, kTanh };

// d = activation(op(a) * op(b) + bias + addend) for each matrix of the batch, all row-major: a is
// [m, k], or [k, m] if transposed; b is [k, n] or [n, k]; d is [m, n]. All have the same dtype,
// except that 8-bit integers are multiplied into i32: a is then u8 and b i8.
struct Matmul {
  fusec_dtype dtype = FUSEC_F32;  // that of d
  DimExpression m, n, k, batch, bias_stride;
  MatmulOperand a, b, d;
  bool transpose_a = false, transpose_b = false;
  int bias = -1;    // buffer of n elements (per matrix if bias_stride is not 0), or -1
  int addend = -1;  // buffer with the batch stride of d and offset 0, or -1; needs k > 0
  Activation activation = Activation::kNone;
  MatmulAlgorithm algorithm;  // chosen by tuning, if any
  bool HasShortFactors() const { return a.dtype != dtype; }
  bool operator==(const Matmul&) const = default;
};

// The condition of a step that has alternatives: of the steps that compute the same values, the one
// whose range contains the size runs.
struct SizeRange {
  DimExpression size;
  int64_t from = 0, to = 0;  // inclusive
  // Whether `from` - 1 was derived from the number of blocks that all multiprocessors of the target
  // run at the same time (a wave).
  bool by_waves = false;
  bool operator==(const SizeRange&) const = default;
};

struct Step {
  enum class Kind { kKernel, kMatmul, kArtifact };
  Kind kind = Kind::kKernel;
  std::optional<SizeRange> when;  // if empty, the step always runs
  std::string name;               // of a kernel: its symbol in the module or library
  KernelLaunch kernel;            // kKernel
  Matmul matmul;                  // kMatmul
  std::string folder;             // kArtifact: the folder of the artifact that it runs
  std::string edited;  // result of an edited kernel's check: "passed", "failed", "not run"
  std::vector<int> inputs, outputs;  // buffers
  DimExpression bytes_read, bytes_written, flops;
  bool operator==(const Step&) const = default;
};

struct Target {
  std::string name;                          // "cpu", "sm_90a", "shards"
  std::map<std::string, std::string> files;  // "cubin", "cubin_2" or an x86-64 level -> path
  int multiprocessors = 0;  // of the GPU that alternatives were planned for; 0 if unknown
  std::vector<Step> steps;
  bool operator==(const Target&) const = default;
};

struct Manifest {
  std::string model;
  std::string matmul_precision;        // "highest", "high", "medium", "fp8"
  std::string rounding = "stores";     // of f16 and bf16: "stores", "every op"
  std::string index_policy = "error";  // "error", "clamp", "wrap", "zero"; fixed in the kernels
  bool batch_invariant = false;        // no library products: their sums may depend on the rows
  std::vector<Symbol> symbols;
  // Their buffers are of kind input and output, and no buffer is used twice. If there are run-time
  // sizes, the last output is the i64 vector of them, which is no output of the model: contexts
  // read it when a run has ended.
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
  // The number of the input in whose memory an output lies, if both are bound to one; else -1.
  int InputInPlaceOf(size_t output) const;
  size_t output_count() const { return outputs.size() - (has_run_time_sizes ? 1 : 0); }
};

// The beginning of a manifest.json that fusec wrote. It is followed by the 32 digits of the
// XXH3-128 of all that comes after kManifestHashEnd. A manifest written by hand omits this line.
inline constexpr std::string_view kManifestHash = "{\n \"hash\": \"";
inline constexpr std::string_view kManifestHashEnd = "\",\n";

// Parses and checks a manifest. Every error names `file` and the key, for example
// `model_fused/manifest.json: buffers[3].dtype is "f33", expected a dtype`.
StatusOr<Manifest> ParseManifest(std::string_view json, const std::string& file);

}  // namespace fusec::runtime
