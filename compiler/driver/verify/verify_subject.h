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

// What is compared: a program, the graph it was made from, and the inputs that were frozen in both.
struct Subject {
  std::string model, device;
  std::string artifact;    // its folder
  ModelFlags model_flags;  // the flags that it was compiled with
  CompileOptions options;
  std::unique_ptr<runtime::Program> program;
  std::unique_ptr<Graph> graph;  // null without a model
  // The graph with the model's own tables, where the program stores them in fewer bits; else null.
  std::unique_ptr<Graph> with_own_tables;
};

// Opens the artifact, or compiles the model into `folder` first. `needs_model`: an artifact without
// a model is a usage error.
Result<Subject> LoadSubject(const VerifyFlags& flags, ProgressLine& progress,
                            const std::string& folder, bool needs_model);

// Sizes and inputs of every comparison. Random data that nobody asked for (--dim, --inputs) and
// that the model refuses, because an index lies outside its table, give way to milder ones, with a
// note: first integers that reach no table become masks of 0 and 1, as positions may be counted
// from them; then all sizes are halved, within their ranges, as for a table of 32 positions at a
// length of 64.
using VerifyCase = std::pair<DimValues, Inputs>;
Result<std::vector<VerifyCase>> VerifyCases(const VerifyFlags& flags, const Subject& subject);

// The tensors for the inputs of `graph`, found by name; a mismatch means another model, or other
// frozen inputs.
Result<std::vector<ReferenceTensor>> ReferenceInputs(const Subject& subject, const Graph& graph,
                                                     const Inputs& inputs);

// Appends the comparison of every output, and returns the interpreter's outputs.
Result<std::vector<ReferenceTensor>> JudgeByInterpreter(const Subject& subject,
                                                        const Inputs& inputs,
                                                        ArrayRef<TensorData> outputs,
                                                        const DimValues& dims,
                                                        std::vector<Judgement>& judgements);

}  // namespace fusec
