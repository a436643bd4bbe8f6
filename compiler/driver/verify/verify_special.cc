#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "compiler/driver/verify/judgement_json.h"
#include "compiler/driver/verify/verify_modes.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/adt.h"
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

enum class Planted { kNotHuge, kHuge };

const char* Words(Planted planted) {
  return planted == Planted::kHuge ? "infinities, greatest" : "NaN, zeros, denormals";
}

double LeastDenormal(Dtype dtype) {
  if (dtype == Dtype::kF16) return 0x1p-24;
  if (dtype == Dtype::kBF16) return 0x1p-133;
  return dtype == Dtype::kF64 ? 0x1p-1074 : 0x1p-149;
}

double GreatestFinite(Dtype dtype) {
  if (dtype == Dtype::kF16) return 65504;
  if (dtype == Dtype::kBF16) return 0x1.fep127;
  return dtype == Dtype::kF64 ? std::numeric_limits<double>::max()
                              : std::numeric_limits<float>::max();
}

// Copies of a TensorData share their memory.
TensorData OwnCopy(const TensorData& data) {
  TensorData copy(data.dtype(), data.dims());
  if (data.byte_count() > 0) std::memcpy(copy.mutable_bytes(), data.bytes(), data.byte_count());
  return copy;
}

// Puts one special value into about every second row of the float inputs; a row is the part of a
// tensor at one index of the first axis. The other rows show whether special values affect them.
void Plant(Planted planted, std::mt19937_64& random, Inputs& inputs) {
  using Limits = std::numeric_limits<double>;
  for (TensorData& data : inputs) {
    if (!IsFloat(data.dtype()) || data.element_count() == 0) continue;
    const double least = LeastDenormal(data.dtype()), greatest = GreatestFinite(data.dtype());
    std::vector<double> values = {Limits::quiet_NaN(), 0.0, -0.0, least, -least};
    if (planted == Planted::kHuge)
      values = {Limits::infinity(), -Limits::infinity(), greatest, -greatest};
    const int64_t rows = data.dims().empty() ? 1 : data.dims()[0];
    const int64_t length = data.element_count() / rows;
    for (int64_t row = 0; row < rows; ++row) {
      if (random() % 2 == 0) continue;
      const auto at = row * length + static_cast<int64_t>(random() % static_cast<uint64_t>(length));
      data.SetDouble(at, values[random() % values.size()]);
    }
  }
}

struct SpecialJudgement {
  Planted planted;
  DimValues dims;
  Comparison comparison;
  int64_t left_out = 0;  // number of elements that are not compared, as they depend on huge values
};

// Counts the elements that depend on planted values, and sets them in `found` to their reference,
// so that they compare as equal. An element depends on planted values if the reference changes with
// them.
int64_t LeaveOutDependent(const ReferenceTensor& planted, const ReferenceTensor& plain,
                          TensorData& found) {
  int64_t count = 0;
  for (int64_t i = 0; i < plain.element_count(); ++i) {
    if (planted.Real(i) == plain.Real(i)) continue;
    ++count;
    if (IsFloat(plain.dtype))
      found.SetDouble(i, plain.reals[i]);
    else
      found.SetInt(i, plain.ints[i]);
  }
  return count;
}

// Appends the judgements of one case with special values in it.
Result<void> Judge(const Subject& subject, runtime::Context& context, const VerifyCase& one,
                   Planted planted, uint64_t seed, std::vector<SpecialJudgement>& judgements) {
  const auto& [dims, plain] = one;
  Inputs special;
  for (const TensorData& data : plain) special.push_back(OwnCopy(data));
  const bool is_huge = planted == Planted::kHuge;
  std::mt19937_64 random(2 * seed + (is_huge ? 1 : 0));
  Plant(planted, random, special);
  const Graph& graph = *subject.graph;
  FUSEC_ASSIGN(std::vector<TensorData> found, RunIn(context, special));
  FUSEC_ASSIGN(const auto inputs, ReferenceInputs(subject, graph, is_huge ? plain : special));
  FUSEC_ASSIGN(const auto expected, Interpret(graph, inputs));
  std::vector<ReferenceTensor> with;  // the reference with huge values
  if (is_huge) {
    FUSEC_ASSIGN(const auto special_inputs, ReferenceInputs(subject, graph, special));
    FUSEC_ASSIGN(with, Interpret(graph, special_inputs));
  }
  OutputJudge judge(graph, inputs, expected);
  const runtime::Manifest& manifest = subject.program->manifest();
  for (size_t i = 0; i < found.size(); ++i) {
    int64_t left_out = 0;
    if (is_huge && found[i].dims() == expected[i].dims && with[i].dims == expected[i].dims)
      left_out = LeaveOutDependent(with[i], expected[i], found[i]);
    const Tolerance tolerance =
        ToleranceOf(CoarsestDtype(graph.outputs[i]), manifest.matmul_precision);
    judgements.push_back(
        {planted, dims, judge.Judge(i, manifest.outputs[i].name, found[i], tolerance), left_out});
  }
  return {};
}

void PrintJson(const Subject& subject, ArrayRef<SpecialJudgement> judgements, bool pass) {
  Json outputs = Json::array();
  for (const SpecialJudgement& one : judgements) {
    Json output = ComparisonJson(one.comparison);
    output["against"] = "interpreter";
    output["dims"] = DimsJson(one.dims);
    output["planted"] = Words(one.planted);
    output["left_out"] = one.left_out;
    outputs.push_back(std::move(output));
  }
  const Json json =
      VerificationJson(subject, Json::array({"interpreter"}), std::move(outputs), pass);
  std::printf("%s\n", json.dump(1).c_str());
}

void PrintTable(ArrayRef<SpecialJudgement> judgements, bool pass) {
  std::vector<std::vector<std::string>> rows = {
      {"output", "dims", "planted", "elements", "left out", "relative L2", "tolerance", "", ""}};
  for (const SpecialJudgement& one : judgements) {
    const Comparison& c = one.comparison;
    rows.push_back({c.name, DimsText(one.dims), Words(one.planted), std::to_string(c.elements),
                    std::to_string(one.left_out), FormatNumber(c.rel_l2),
                    FormatNumber(c.tolerance.relative_l2), c.pass ? "pass" : "FAIL", c.note});
  }
  std::fputs(FormatTable(rows, "lllrrrrll").c_str(), stdout);
  std::puts(pass ? Green("pass").c_str() : Red("FAIL").c_str());
}

}  // namespace

Result<int> RunVerifySpecialValues(const VerifyFlags& flags) {
  CatchInterrupts();
  FUSEC_ASSIGN(const std::string folder, MakeTemporaryFolder());
  const TemporaryFolder cleanup(folder);
  Subject subject;
  std::vector<SpecialJudgement> judgements;
  {
    ProgressLine progress;
    FUSEC_ASSIGN(subject, LoadSubject(flags, progress, folder, true));
    FUSEC_ASSIGN(const auto cases, VerifyCases(flags, subject));
    FUSEC_RUNTIME_ASSIGN(const auto context, runtime::Context::Create(*subject.program));
    for (size_t i = 0; i < cases.size(); ++i) {
      progress.Update("comparing " + DimsText(cases[i].first),
                      static_cast<double>(i) / static_cast<double>(cases.size()));
      for (const Planted planted : {Planted::kNotHuge, Planted::kHuge}) {
        FUSEC_TRY(Judge(subject, *context, cases[i], planted, flags.random_flags.seed, judgements));
      }
      if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
    }
  }
  const bool pass = std::all_of(judgements.begin(), judgements.end(),
                                [](const auto& one) { return one.comparison.pass; });
  if (flags.json)
    PrintJson(subject, judgements, pass);
  else
    PrintTable(judgements, pass);
  PrintNote("ran on " + subject.program->device().name());
  return pass ? 0 : 1;
}

}  // namespace fusec
