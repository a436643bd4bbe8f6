#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/c_expr.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/region_class.h"

namespace fusec {

// The target of a kernel. The same planner and emitter serve both: on the CPU a block has one
// thread, so that its work consists of plain loops, and blocks have more elements.
enum class TargetKind { kCpu, kGpu };

// A statement of a kernel, perhaps with nested statements, before it is written as text.
struct Statement {
  enum class Kind {
    kComment,  // `text`
    kBlank,
    kLet,      // const `type` `place` = `value`;
    kDeclare,  // `type` `place` = `value`;  (not const; without `value` uninitialized)
    kAssign,   // `place` = `value`;  a local, or a place in memory
    kUsing,    // using `place` = `value`;
    kCall,     // `value`;  or a word alone, such as break
    kReturn,   // return `value`;
    kPragma,   // `text`: a hint for the next loop
    kFor,    // for (`type` `place` = `value`; `condition`; ++`place`) `body`, or `place` += `step`
    kIf,     // if (`condition`) `body` else `otherwise`
    kAwait,  // a dependent launch waits for earlier kernels here
    kAwaitPrevious,  // or here, if it reads no result of the previous kernel before
    kLambda,         // const auto `place` = [&](`text`) { `body` };
  };
  Kind kind = Kind::kComment;
  std::string text = {};
  CExpr type = {}, place = {}, value = {}, condition = {}, step = {};
  std::vector<Statement> body = {}, otherwise = {};

  static Statement Comment(std::string text) { return {.kind = Kind::kComment, .text = text}; }
  static Statement Pragma(std::string text) {
    return {.kind = Kind::kPragma, .text = std::move(text)};
  }
  static Statement Let(const CExpr& type, const CExpr& name, const CExpr& value) {
    return {.kind = Kind::kLet, .type = type, .place = name, .value = value};
  }
  static Statement Declare(const CExpr& type, const CExpr& place, const CExpr& value = {}) {
    return {.kind = Kind::kDeclare, .type = type, .place = place, .value = value};
  }
  static Statement Assign(const CExpr& place, const CExpr& value) {
    return {.kind = Kind::kAssign, .place = place, .value = value};
  }
  static Statement Using(const CExpr& name, const CExpr& type) {
    return {.kind = Kind::kUsing, .place = name, .value = type};
  }
  static Statement Call(const CExpr& call) { return {.kind = Kind::kCall, .value = call}; }
  static Statement Return(const CExpr& value) { return {.kind = Kind::kReturn, .value = value}; }
  static Statement Await() { return {.kind = Kind::kAwait}; }
  static Statement AwaitPrevious() { return {.kind = Kind::kAwaitPrevious}; }
  static Statement If(const CExpr& condition, std::vector<Statement> body) {
    return {.kind = Kind::kIf, .condition = condition, .body = std::move(body)};
  }
};

// `constexpr int kColumns = 432;  // last axis of "hidden"`
struct NamedConstant {
  std::string type = "int";
  std::string name;
  CExpr value;  // a list for an array, which is static: all threads share it
  std::string comment;

  bool is_array() const { return value.kind() == CExpr::Kind::kList; }
};

// The layout of a constant in memory: plain, plain with floats rounded to TF32, or in panels
// (weight_panels.h) of unchanged numbers, of floats rounded to TF32, of floats split into two
// halves, or of fp8 numbers.
enum class WeightLayout {
  kPlain,
  kTf32,
  kPanels,
  kTf32Panels,
  kSplitHalfPanels,
  kFloat8Panels,
};

// One parameter of a kernel, in the order of the signature.
struct KernelParameter {
  enum class Kind { kBuffer, kTables, kDim, kErrors };
  Kind kind = Kind::kBuffer;
  const Value* value = nullptr;                // for kBuffer: an operand or result of the region
  WeightLayout layout = WeightLayout::kPlain;  // if it is a constant
  bool written = false;
  std::vector<const Value*>
      tables;  // for kTables: values of one dtype, passed as one struct of pointers
  std::string name;
  Expr dim;             // for kDim: a symbol, or a size in which kernels of equal text differ
  std::string comment;  // the comment on such a size
};

// One of the kernels (or library calls) that compute the same values, and the sizes for which it is
// used.
struct KernelVariant {
  std::string name;
  int64_t from = 0, to = INT64_MAX;  // inclusive
};

struct KernelPlan {
  std::string name;  // k03_bias_relu
  // The earlier kernel whose function this one launches, because their functions would be equal; ""
  // if it launches its own.
  std::string same_as;
  std::vector<std::string> also_as;  // the later kernels that launch this function
  RegionClass region_class = RegionClass::kPointwise;  // of its region; only printed
  std::vector<std::string> ops;
  Provenance provenance;
  std::vector<KernelParameter> parameters;
  std::vector<NamedConstant> constants;
  std::vector<std::string> device_files;  // of codegen_templates/device, in order of first use
  std::string launch_in_words;
  // Lines of the header comment that show who computes which part of a tile, the layout of shared
  // memory, and the sequence of its stages; printed verbatim.
  std::vector<std::string> drawing;
  // All kernels that compute its region, including itself, in ascending order of `variant_size`;
  // empty if it is the only one.
  std::vector<KernelVariant> variants;
  Expr variant_size;
  Expr blocks;
  int block_size = 1;
  int cluster_blocks = 1;   // blocks per cluster
  int blocks_together = 0;  // blocks per multiprocessor that registers must allow; 0: any
  int shared_bytes = 0;     // of dynamic shared memory
  // The kernel may be launched while earlier kernels run (dependent_launch.cuh): it waits for them
  // before it accesses memory that they may write or read. The body says where (kAwait, or
  // kAwaitPrevious if the previous kernel lets it start only after it has waited itself); otherwise
  // it waits at the beginning.
  bool dependent_launch = false;
  bool has_small_blocks = false;  // blocks of the next kernel fit beside them
  // The kernel reads its outputs again, or stores them element by element, so that they must not be
  // in page-locked host memory.
  bool outputs_in_device_memory = false;
  std::string index_type = "int";  // of loop variables, positions and dims
  std::vector<Statement> body;
  Expr bytes_read, bytes_written, flops;
  Expr bytes_kept;  // intermediate results, which one kernel per op would write and read

  const std::string& function() const { return same_as.empty() ? name : same_as; }
};

// The valid values of data that select one of `extent` things.
enum class IndexValues {
  kIndex,   // -extent..extent-1: negative ones count from the end
  kLength,  // 0..extent: how many steps a sequence has
  kSlot,    // -1..extent-1: -1 selects nothing
};

const char* WordFor(IndexValues values);

// A place where data selects an index, for the run-time error message.
struct IndexSite {
  std::string node;    // the ONNX node, or the IR op
  std::string tensor;  // the tensor that holds the index
  std::string input;   // the model input that it equals, or ""
  Shape shape;         // of that tensor
  Expr extent;
  IndexValues values = IndexValues::kIndex;
  bool operator==(const IndexSite&) const = default;
};

}  // namespace fusec
