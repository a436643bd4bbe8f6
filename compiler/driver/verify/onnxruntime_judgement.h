#pragma once

#include <vector>

#include "compiler/driver/verify/onnxruntime_judge.h"
#include "compiler/driver/verify/verify_subject.h"
#include "compiler/support/adt.h"

namespace fusec {

// Appends the comparisons of a case's outputs with onnxruntime's, and returns whether onnxruntime
// could run the model. If it could not, a note says why: the interpreter has judged the outputs
// already, and onnxruntime need not be asked at further sizes.
//
// An output that differs from onnxruntime's although it equals the interpreter's is judged again.
// It passes, with a note, if rounding explains onnxruntime's distance from the interpreter, if
// onnxruntime gives the same output without its graph optimizations, or if the output depends on
// random numbers, of which each program draws its own. Otherwise it fails: fusec and the
// interpreter share the import of the model, so that onnxruntime is the only judge of that.
bool JudgeByOnnxruntime(const OnnxruntimeJudge& onnxruntime, const Subject& subject,
                        const Inputs& inputs, ArrayRef<TensorData> outputs,
                        Interpretation& interpretation, const DimValues& dims,
                        std::vector<Judgement>& judgements);

}  // namespace fusec
