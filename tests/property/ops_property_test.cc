// Every op with every dtype, compiled for the CPU and run on difficult inputs, gives the interpreter's answers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "compiler/driver/build/pipeline.h"
#include "compiler/emit/emit_kernel.h"
#include "compiler/emit/equal_kernels.h"
#include "compiler/plan/plan_program.h"
#include "passes/pass_manager.h"
#include "runtime/src/cuda/nvrtc.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/op_cases.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

// f32: 1e-5, for functions of large arguments and sums of up to 600 terms; 16-bit floats: one unit of their last place.
double Tolerance(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64: return 1e-12;
    case Dtype::kF16: return 1e-3;
    case Dtype::kBF16: return 8e-3;
    default: return 1e-5;
  }
}

bool Near(double want, double have, double tolerance) {
  if (std::isnan(want) || std::isnan(have)) return std::isnan(want) && std::isnan(have);
  return want == have || std::abs(want - have) <= tolerance * std::max(1.0, std::abs(want));
}

std::string FirstWrongElement(ArrayRef<ReferenceTensor> expected,
                              ArrayRef<ReferenceTensor> found, double tolerance) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const ReferenceTensor want = ReferenceTensor::FromData(expected[i].ToData());
    const ReferenceTensor& have = found[i];
    if (want.dims != have.dims) return "the dims differ";
    const double allowed = std::max(tolerance, IsFloat(want.dtype) ? Tolerance(want.dtype) : 0.0);
    for (int64_t j = 0; j < want.element_count(); ++j) {
      const bool good = IsFloat(want.dtype) ? Near(want.reals[j], have.reals[j], allowed)
                                            : want.ints[j] == have.ints[j];
      if (good) continue;
      return "result " + std::to_string(i) + " at " + std::to_string(j) + " is " +
             std::to_string(have.Real(j)) + ", expected " + std::to_string(want.Real(j));
    }
  }
  return "";
}

void Compare(ArrayRef<OpCase> cases, Dtype dtype, RunOn where = RunOn::kCpu,
             ArrayRef<int64_t> batches = {1, 2, 7}) {
  std::vector<const Graph*> graphs;
  for (const OpCase& one : cases) graphs.push_back(one.graph.get());
  const auto compiled = CompiledGraphs::Make(graphs, where);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  for (const int64_t batch : batches) {
    std::vector<std::vector<ReferenceTensor>> inputs;
    for (const OpCase& one : cases) inputs.push_back(one.Inputs(batch));
    const auto found = (*compiled)->Run(inputs);
    ASSERT_TRUE(found.has_value()) << found.error().message;
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto expected = Interpret(*graphs[i], inputs[i]);
      if (!expected) {
        ADD_FAILURE() << expected.error().message << "\n" << Print(*graphs[i]);
        continue;
      }
      EXPECT_EQ(FirstWrongElement(*expected, (*found)[i], Tolerance(dtype)), "")
          << "batch " << batch << "\n" << Print(*graphs[i]);
    }
  }
}

std::vector<Dtype> AllDtypes() {
  std::vector<Dtype> dtypes;
  for (int i = 0; i < kDtypeCount; ++i) dtypes.push_back(static_cast<Dtype>(i));
  return dtypes;
}

// Skipped dtypes differ from tested ones only in width; $FUSEC_PROPERTY_RUNS includes them.
std::vector<Dtype> Some(std::vector<Dtype> dtypes) {
  return std::getenv("FUSEC_PROPERTY_RUNS") != nullptr ? AllDtypes() : dtypes;
}

std::string NameOf(const testing::TestParamInfo<Dtype>& info) {
  return std::string(DtypeName(info.param));
}

class PointwiseOps : public testing::TestWithParam<Dtype> {};
TEST_P(PointwiseOps, AnswersMatch) { Compare(PointwiseCases(GetParam()), GetParam()); }
INSTANTIATE_TEST_SUITE_P(Of, PointwiseOps, testing::ValuesIn(AllDtypes()), NameOf);

class StructuralOps : public testing::TestWithParam<Dtype> {};
TEST_P(StructuralOps, AnswersMatch) { Compare(StructuralCases(GetParam()), GetParam()); }
INSTANTIATE_TEST_SUITE_P(Of, StructuralOps,
                         testing::ValuesIn(Some({Dtype::kF32, Dtype::kF16, Dtype::kBF16, Dtype::kI8,
                                                 Dtype::kI64, Dtype::kU8, Dtype::kBool})),
                         NameOf);

// A batch of 16 is for the kernels of many rows.
class Recurrences : public testing::TestWithParam<Dtype> {};
TEST_P(Recurrences, AnswersMatch) {
  Compare(RecurrenceCases(GetParam()), GetParam(), RunOn::kCpu, {1, 3, 16});
}
TEST_P(Recurrences, AnswersOnGpuMatch) {
  Compare(RecurrenceCases(GetParam()), GetParam(), GpuOrItsText(), {1, 3});
}
INSTANTIATE_TEST_SUITE_P(Of, Recurrences,
                         testing::Values(Dtype::kF32, Dtype::kF16, Dtype::kBF16, Dtype::kF64), NameOf);

class OpsOnGpu : public testing::TestWithParam<Dtype> {};
TEST_P(OpsOnGpu, PointwiseAnswersMatch) {
  Compare(PointwiseCases(GetParam()), GetParam(), GpuOrItsText());
}
TEST_P(OpsOnGpu, StructuralAnswersMatch) {
  Compare(StructuralCases(GetParam()), GetParam(), GpuOrItsText());
}
INSTANTIATE_TEST_SUITE_P(Of, OpsOnGpu,
                         testing::ValuesIn(Some({Dtype::kF32, Dtype::kF16, Dtype::kI64, Dtype::kI8})), NameOf);

// CUDA overloads for fewer types than C++ converts between.
TEST(OpsForGpu, NvrtcTakesSmallTypes) {
  const auto nvrtc = runtime::Nvrtc::Get();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  for (const Dtype dtype : {Dtype::kI8, Dtype::kBool, Dtype::kBF16}) {
    std::vector<OpCase> cases = StructuralCases(dtype);
    std::vector<const Graph*> graphs;
    for (OpCase& one : cases) {
      PassManager manager;
      ASSERT_TRUE(manager.Run(*one.graph, PipelinePasses(TargetKind::kGpu)).has_value());
      graphs.push_back(one.graph.get());
    }
    const auto all = SideBySide(graphs);
    std::vector<IndexSite> sites;
    const auto plan = PlanProgram(*all, {TargetKind::kGpu, "highest", &GpuFor("sm_90a")}, sites);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const auto cubin = runtime::CompileCached("ops.cu", EmitGpuModule(FunctionsOf(*plan), {}), "sm_90a");
    EXPECT_TRUE(cubin) << cubin.error().message;
  }
}

}  // namespace
}  // namespace fusec
