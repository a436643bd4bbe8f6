#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/artifact/dim_flags.h"
#include "compiler/driver/artifact/random_flags.h"
#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/adt.h"
#include "compiler/support/result.h"
#include "runtime/src/context.h"
#include "runtime/src/program.h"

namespace fusec {

// Functions that run, verify and bench share: they load and run an artifact with the runtime, but
// use the compiler's types for tensors and errors.

tl::unexpected<Error> FromRuntime(const runtime::RuntimeError& error);

// `T x = F()` for a function of the runtime; its error becomes an Error of the compiler.
#define FUSEC_RUNTIME_ASSIGN(target, expression)                                \
  auto FUSEC_CONCAT(fusec_status_, __LINE__) = (expression);                    \
  if (!FUSEC_CONCAT(fusec_status_, __LINE__))                                   \
    return ::fusec::FromRuntime(FUSEC_CONCAT(fusec_status_, __LINE__).error()); \
  target = *std::move(FUSEC_CONCAT(fusec_status_, __LINE__))

#define FUSEC_RUNTIME_TRY(expression)                                     \
  do {                                                                    \
    auto&& fusec_status = (expression);                                   \
    if (!fusec_status) return ::fusec::FromRuntime(fusec_status.error()); \
  } while (false)

// Checks that `path` is a folder that can be an artifact. The error says what it is instead.
Result<void> CheckArtifact(const std::string& path);
// `device` is as in fusec_load; "" is the default.
Result<std::unique_ptr<runtime::Program>> LoadProgram(const std::string& path,
                                                      const std::string& device);

// Prints on stderr which of the kernels that the program launches were edited, if any.
void NoteEdits(const runtime::Program& program);

// The sizes of each symbol for which kernels are made, and those that runs accept. Runs also accept
// an empty batch if its outputs are empty.
std::vector<DimRange> DimRanges(const runtime::Manifest& manifest);
std::vector<DimRange> ServedDimRanges(const runtime::Manifest& manifest);
// The sizes in `dims`, in the order of Manifest::symbols.
std::vector<int64_t> SymbolValues(const runtime::Manifest& manifest, const DimValues& dims);

Dtype ToDtype(fusec_dtype dtype);
std::string TypeText(const runtime::TensorSignature& tensor);  // "f32[batch, 0..50]"
std::string TypeText(const TensorData& data);                  // "f32[64, 13]"
// "the model has inputs dense f32[batch, 13], ids i64[26, batch]", for messages; `what` is "inputs"
// or "outputs".
std::string SignatureText(ArrayRef<runtime::TensorSignature> tensors, const std::string& what);

// One tensor per input, in the manifest's order.
using Inputs = std::vector<TensorData>;

// Random inputs. The same flags and sizes give the same bytes on every machine (Zipf ids only if
// its exp and log round in the same way). Floats are uniform in [-1, 1). Ids are drawn from all
// rows of their table, where each column of an input may index a table of its own; other integers
// are uniform in 0..1000.
Result<TensorData> RandomInput(const runtime::Manifest& manifest, int input, const DimValues& dims,
                               const RandomFlags& flags);
Result<Inputs> RandomInputs(const runtime::Manifest& manifest, const DimValues& dims,
                            const RandomFlags& flags);

// Checks that dtype and rank are as declared; the runtime checks the dims. `origin` is the file
// that the error names.
Result<void> CheckInput(const runtime::TensorSignature& input, const TensorData& data,
                        const std::string& origin);

Result<void> BindInputs(runtime::Context& context,
                        const Inputs& inputs);  // `inputs` must outlive the runs
// A copy of every output of the last run.
Result<std::vector<TensorData>> CopyOutputs(runtime::Context& context);
// The outputs of a run in a given context, or in a new one.
Result<std::vector<TensorData>> RunIn(runtime::Context& context, const Inputs& inputs);
Result<std::vector<TensorData>> RunOnce(const runtime::Program& program, const Inputs& inputs);

}  // namespace fusec
