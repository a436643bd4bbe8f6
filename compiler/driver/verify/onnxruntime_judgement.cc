#include "compiler/driver/verify/onnxruntime_judgement.h"

#include <optional>
#include <vector>

#include "compiler/driver/verify/model_inputs.h"
#include "compiler/driver/verify/verify_modes.h"
#include "compiler/support/interrupt.h"

namespace fusec {

namespace {

// The error of onnxruntime's sigmoid and tanh, whatever the magnitude of the result: f32's unit in
// the last place of numbers just above 1, twice.
constexpr double kErrorOfApproximations = 0x1p-22;

// The op that draws the random numbers on which `output` depends; empty for none.
std::string RandomOpBehind(const Value* output) {
  std::vector<const Value*> pending = {output};
  NodeSet seen;
  while (!pending.empty()) {
    const Node* node = pending.back() == nullptr ? nullptr : pending.back()->producer;
    pending.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    for (const Origin& origin : node->provenance) {
      const std::string& op = origin.onnx_op;
      if (op.starts_with("Random") || op == "Bernoulli" || op == "Multinomial") return op;
    }
    pending.insert(pending.end(), node->operands.begin(), node->operands.end());
  }
  return "";
}

// The judgement of one case.
class CaseBesideOnnxruntime {
 public:
  CaseBesideOnnxruntime(const OnnxruntimeJudge& onnxruntime, const Subject& subject,
                        NamedTensors inputs, Interpretation& interpretation)
      : onnxruntime_(onnxruntime),
        subject_(subject),
        inputs_(std::move(inputs)),
        interpretation_(interpretation) {}

  Result<void> Run() {
    FUSEC_ASSIGN(theirs_, onnxruntime_.Run(subject_.model, inputs_));
    return {};
  }
  size_t count() const { return theirs_.size(); }

  // `ours` is the comparison of `found` with the interpreter's output.
  Comparison Judge(size_t output, const TensorData& found, const Comparison& ours) {
    const runtime::Manifest& manifest = subject_.program->manifest();
    tolerance_ =
        ToleranceOf(CoarsestDtype(subject_.graph->outputs[output]), manifest.matmul_precision);
    if (tolerance_.relative_l2 > 0) {
      tolerance_.relative_l2 *= 2;
      tolerance_.reason += ", on both sides";
    }
    const TensorData& theirs = theirs_[output].second;
    Comparison comparison = Compare(manifest.outputs[output].name, found,
                                    ReferenceTensor::FromData(theirs), tolerance_);
    const bool same_type = theirs.dtype() == found.dtype() && theirs.dims() == found.dims();
    if (!comparison.pass && ours.pass && same_type)
      JudgeAgain(output, found, theirs, ours, comparison);
    return comparison;
  }

 private:
  void JudgeAgain(size_t output, const TensorData& found, const TensorData& theirs,
                  const Comparison& ours, Comparison& comparison) {
    const std::string random = RandomOpBehind(subject_.graph->outputs[output]);
    if (!random.empty()) {
      comparison.pass = true;
      comparison.note = "not comparable: onnxruntime draws other random numbers (" + random + ")";
      return;
    }
    const Comparison distance = interpretation_.judge.Judge(output, "", theirs, tolerance_);
    const std::string distances =
        FormatNumber(distance.rel_l2) + " against " + FormatNumber(ours.rel_l2);
    if (distance.pass || (distance.misplaced == 0 && distance.max_abs <= kErrorOfApproximations)) {
      comparison.pass = true;
      comparison.note =
          "rounding explains onnxruntime's distance from the interpreter (" + distances + ")";
    } else if (EqualsAsWritten(output, found)) {
      comparison.pass = true;
      comparison.note = "onnxruntime agrees without its graph optimizations";
    } else {
      comparison.note = "onnxruntime alone differs from the interpreter (" + distances +
                        "): it is wrong, or fusec reads the model in another way";
    }
  }

  // Whether onnxruntime gives this output if it runs every op as the model has it.
  bool EqualsAsWritten(size_t output, const TensorData& found) {
    if (!as_written_) {
      Result<NamedTensors> outputs = onnxruntime_.Run(subject_.model, inputs_, /*as_written=*/true);
      as_written_ = outputs ? *std::move(outputs) : NamedTensors();
    }
    if (output >= as_written_->size()) return false;
    const TensorData& theirs = (*as_written_)[output].second;
    return Compare("", found, ReferenceTensor::FromData(theirs), tolerance_).pass ||
           interpretation_.judge.Judge(output, "", theirs, tolerance_).pass;
  }

  const OnnxruntimeJudge& onnxruntime_;
  const Subject& subject_;
  const NamedTensors inputs_;
  Interpretation& interpretation_;
  NamedTensors theirs_;
  std::optional<NamedTensors> as_written_;  // without graph optimizations; empty if that failed
  Tolerance tolerance_;
};

}  // namespace

bool JudgeByOnnxruntime(const OnnxruntimeJudge& onnxruntime, const Subject& subject,
                        const Inputs& inputs, ArrayRef<TensorData> outputs,
                        Interpretation& interpretation, const DimValues& dims,
                        std::vector<Judgement>& judgements) {
  CaseBesideOnnxruntime judge(onnxruntime, subject, ModelInputs(subject, inputs, dims),
                              interpretation);
  if (const Result<void> ran = judge.Run(); !ran) {
    if (Interrupted()) return false;  // RunVerify reports the interrupt
    PrintNote("not compared with onnxruntime at " + DimsText(dims) +
              " and later sizes: " + ran.error().message);
    return false;
  }
  const size_t first = judgements.size() - outputs.size();  // the interpreter's first judgement
  for (size_t i = 0; i < outputs.size() && i < judge.count(); ++i) {
    const Comparison& ours = judgements[first + i].comparison;
    judgements.push_back({"onnxruntime", dims, judge.Judge(i, outputs[i], ours)});
  }
  return true;
}

}  // namespace fusec
