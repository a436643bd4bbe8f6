#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/c_expr.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/region_class.h"

namespace fusec {

// What a kernel is planned for. The same planner and the same printer serve both: on the CPU a
// block has one thread, so that its loops are plain loops, and blocks are larger.
enum class TargetKind { kCpu, kGpu };

// One line or one nested block of a kernel, decided but not yet spelled.
struct Statement {
  enum class Kind {
    kComment,  // `text`
    kBlank,
    kLet,      // const `type` `place` = `value`;
    kDeclare,  // `type` `place` = `value`;  (assigned later; no `value`: uninitialised)
    kAssign,   // `place` = `value`;  a local, or a place in memory
    kUsing,    // using `place` = `value`;
    kCall,     // `value`;  or a word alone, such as break
    kReturn,   // return `value`;
    kPragma,   // `text`: a hint for the next loop
    kFor,     // for (`type` `place` = `value`; `condition`; ++`place`) `body`, or `place` += `step`
    kIf,      // if (`condition`) `body` else `otherwise`
    kAwait,   // nothing; a dependent launch waits for earlier kernels here
    kLambda,  // const auto `place` = [&](`text`) { `body` };
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
  static Statement If(const CExpr& condition, std::vector<Statement> body) {
    return {.kind = Kind::kIf, .condition = condition, .body = std::move(body)};
  }
};

// `constexpr int kColumns = 432;  // last axis of "hidden"`
struct NamedConstant {
  std::string type = "int";
  std::string name;
  CExpr value;  // a list of an array, which is `static`: one for all threads, not one for each
  std::string comment;

  bool is_array() const { return value.kind() == CExpr::Kind::kList; }
};

// How a constant lies in memory: as it is, its floats rounded to TF32 or not, or in panels
// (weight_panels.h), of floats rounded to TF32 or as two halves each, or of numbers in fp8.
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
  const Value* value = nullptr;  // of kBuffer: an operand or result of the region node
  WeightLayout layout = WeightLayout::kPlain;  // of a constant
  bool written = false;
  std::vector<const Value*>
      tables;  // of kTables: values of one dtype, passed as one struct of pointers
  std::string name;
  Expr dim;             // of kDim: a symbol, or a size that kernels of one text may differ in
  std::string comment;  // on such a size
};

// One of the kernels (or library calls) that make the same values, and the sizes for which it does.
struct KernelVariant {
  std::string name;
  int64_t from = 0, to = INT64_MAX;  // inclusive
};

struct KernelPlan {
  std::string name;  // k03_bias_relu
  // The kernel before it whose function it launches, as its own would be equal; "" for its own.
  std::string same_as;
  std::vector<std::string> also_as;  // the kernels behind it that launch this one's
  RegionClass region_class = RegionClass::kPointwise;  // of the region it computes; only printed
  std::vector<std::string> ops;
  Provenance provenance;
  std::vector<KernelParameter> parameters;
  std::vector<NamedConstant> constants;
  std::vector<std::string> device_files;  // of codegen_templates/device, in order of first use
  std::string launch_in_words;
  // Lines of the header comment that show who makes what of a tile, what lies in shared memory, and
  // how its stages follow each other; printed as they are.
  std::vector<std::string> drawing;
  // All that make its region, in ascending order of `variant_size`, itself among them; empty where
  // it is alone.
  std::vector<KernelVariant> variants;
  Expr variant_size;
  Expr blocks;
  int block_size = 1;
  int cluster_blocks = 1;   // neighbours that run together and read each other's shared memory
  int blocks_together = 0;  // on one multiprocessor, which registers must not prevent; 0: any
  int shared_bytes = 0;     // chosen at launch, beside what the kernel declares
  // Waits for earlier kernels before it touches what they may, so that it may be launched while
  // they run (dependent_launch.cuh): where the body says, or else first of all.
  bool dependent_launch = false;
  bool has_small_blocks = false;  // beside which those of the next kernel find room
  // It loads its outputs again, or stores them element by element, so that page-locked memory is no
  // place for them.
  bool outputs_in_device_memory = false;
  std::string index_type = "int";  // of loop variables, positions and dims
  std::vector<Statement> body;
  Expr bytes_read, bytes_written, flops;
  Expr bytes_kept;  // of results between its ops, which a kernel per op would write and read again

  const std::string& function() const { return same_as.empty() ? name : same_as; }
};

// What data that choose something may be, of `extent` things.
enum class IndexValues {
  kIndex,   // -extent..extent-1: negative ones count from the end
  kLength,  // 0..extent: how many steps a sequence has
  kSlot,    // -1..extent-1: -1 chooses nothing
};

const char* WordFor(IndexValues values);

// A place where data chooses an index, for the run-time error message.
struct IndexSite {
  std::string node;    // ONNX node, or the IR op
  std::string tensor;  // the tensor that holds the index
  std::string input;   // the model input it came from unchanged, or ""
  Shape shape;         // of that tensor
  Expr extent;
  IndexValues values = IndexValues::kIndex;
  bool operator==(const IndexSite&) const = default;
};

}  // namespace fusec
