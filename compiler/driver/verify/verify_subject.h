#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/build/compile.h"
#include "compiler/driver/verify/verify_flags.h"
#include "compiler/reference/conditioning.h"
#include "compiler/support/adt.h"
#include "compiler/support/terminal.h"

namespace fusec {

// Declarations that the modes of `fusec verify` share.

struct Judgement {
  std::string against;  // "interpreter", "onnxruntime"
  DimValues dims;
  Comparison comparison;
};

// The subject of a comparison: a program, the graph from which it was made, and the options, which
// have the inputs that were frozen in both.
struct Subject {
  std::string model, device;
  std::string artifact;    // its folder
  ModelFlags model_flags;  // the flags with which it was compiled
  CompileOptions options;
  std::unique_ptr<runtime::Program> program;
  std::unique_ptr<Graph> graph;  // null without a model
  // The graph with the model's own tables if the program stores some in fewer bits; else null.
  std::unique_ptr<Graph> with_own_tables;
};

// Opens the artifact, or compiles the model into `folder` first. If `needs_model`, an artifact
// without --model is a usage error.
Result<Subject> LoadSubject(const VerifyFlags& flags, ProgressLine& progress,
                            const std::string& folder, bool needs_model);

// The sizes and inputs of every comparison. If neither --dim nor --inputs is given, the model may
// refuse the default sizes or random data, because an index is outside its table. They are then
// replaced by milder ones, with a note: first, integers that index no table become masks of 0 and
// 1, because positions may be counted from them; then all sizes are halved, within their ranges,
// for example until a length of 64 fits a table of 32 positions.
using VerifyCase = std::pair<DimValues, Inputs>;
Result<std::vector<VerifyCase>> VerifyCases(const VerifyFlags& flags, const Subject& subject);

// The tensors for the inputs of `graph`, found by name. A missing one is an error: it is another
// model, or other inputs were frozen.
Result<std::vector<ReferenceTensor>> ReferenceInputs(const Subject& subject, const Graph& graph,
                                                     const Inputs& inputs);

// The interpreter's outputs for one case. `judge` refers to the other members.
struct Interpretation {
  Interpretation(const Graph& graph, std::vector<ReferenceTensor> inputs,
                 std::vector<ReferenceTensor> outputs)
      : inputs(std::move(inputs)),
        outputs(std::move(outputs)),
        judge(graph, this->inputs, this->outputs) {}

  const std::vector<ReferenceTensor> inputs, outputs;
  OutputJudge judge;
};

// Appends the comparison of every output, and returns what the interpreter computed.
Result<std::unique_ptr<Interpretation>> JudgeByInterpreter(const Subject& subject,
                                                           const Inputs& inputs,
                                                           ArrayRef<TensorData> outputs,
                                                           const DimValues& dims,
                                                           std::vector<Judgement>& judgements);

}  // namespace fusec
