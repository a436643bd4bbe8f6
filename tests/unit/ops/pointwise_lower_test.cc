// The C text to which each pointwise op lowers, compiled for the CPU, gives the same results as the op's Reference, for every dtype of the
// op and for operands that include zeros of both signs, infinities, NaN and the largest integers.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "codegen_templates/templates.h"
#include "compiler/ir/infer.h"
#include "compiler/reference/reference_context.h"
#include "tests/unit/ops/text_recorder.h"

namespace fusec {
namespace {

// Pointwise ops that compute elements from indices instead of operands.
bool MakesElementsOfOperands(const OpDef& op) {
  return op.op_class == OpClass::kPointwise && op.kind != OpKind::kEyeLike &&
         op.kind != OpKind::kOneHot && op.kind != OpKind::kRange &&
         op.kind != OpKind::kSymbolicDims;
}

std::vector<Attributes> AttributeChoices(OpKind kind) {
  std::vector<Attributes> choices;
  switch (kind) {
    case OpKind::kBitShift: return {{{"direction", "LEFT"}}, {{"direction", "RIGHT"}}};
    case OpKind::kCelu:
    case OpKind::kElu:
    case OpKind::kLeakyRelu:
    case OpKind::kThresholdedRelu: return {{{"alpha", 0.75}}};
    case OpKind::kSwish: return {{{"alpha", 1.0}}, {{"alpha", -0.5}}};
    case OpKind::kSelu: return {{{"alpha", 1.5}, {"gamma", 2.0}}};
    case OpKind::kHardSigmoid: return {{{"alpha", 0.25}, {"beta", 0.5}}};
    case OpKind::kShrink: return {{{"bias", 1.5}, {"lambd", 2.0}}};
    case OpKind::kGelu: return {{{"approximate", "none"}}, {{"approximate", "tanh"}}};
    case OpKind::kMod: return {{{"fmod", int64_t{0}}}, {{"fmod", int64_t{1}}}};
    case OpKind::kIsInf:
      for (const int64_t negative : {0, 1}) {
        for (const int64_t positive : {0, 1}) {
          choices.push_back({{"detect_negative", negative}, {"detect_positive", positive}});
        }
      }
      return choices;
    case OpKind::kBitCast:
    case OpKind::kCast:
      for (int i = 0; i < kDtypeCount; ++i) choices.push_back({{"to", static_cast<Dtype>(i)}});
      return choices;
    default: return {{}};
  }
}

// Values that floats of every width hold exactly.
const std::vector<double> kReals = {0.0,  -0.0, 0.5,   -0.5,  1,      -1,    1.5,   -1.5,     2.5,
                                    -2.5, 3,    -7,    20,    -20,    88.5,  -88.5, 0.015625, 300,
                                    -300, 1024, HUGE_VAL, -HUGE_VAL, std::nan("")};
// Wrapped to each width, these are also the extremes of every integer dtype.
const std::vector<int64_t> kIntegers = {
    0, 1, -1, 2, -2, 3, 7, -7, 31, 100, 127, -128, 32767, -32768, std::numeric_limits<int32_t>::max(),
    std::numeric_limits<int32_t>::min(), std::numeric_limits<int64_t>::max(),
    std::numeric_limits<int64_t>::min()};

// Doubles slightly beyond the midpoint of two neighboring shorter floats. Rounding to f32 first would move them onto the midpoint, and then
// to the wrong neighbor or to infinity. Also numbers that f32 cannot represent.
const std::vector<double> kRealsToCast = {
    1 + 0x1p-11 + 0x1p-40, -(1 + 0x1p-8 + 0x1p-40), 65519.9999999, 3 + 0x1p-10 - 0x1p-40,
    0x1p-25 + 0x1p-60, 1e-50, -1e300};

const std::vector<double>& RealsFor(OpKind op, Dtype dtype) {
  static const std::vector<double> kAll = [] {
    std::vector<double> all = kReals;
    all.insert(all.end(), kRealsToCast.begin(), kRealsToCast.end());
    return all;
  }();
  return op == OpKind::kCast && dtype == Dtype::kF64 ? kAll : kReals;
}

int64_t ChoiceCount(OpKind op, Dtype dtype) {
  return static_cast<int64_t>(IsFloat(dtype) ? RealsFor(op, dtype).size() : kIntegers.size());
}

struct Case {
  Graph graph;
  Node* node = nullptr;
  std::string text;
  std::vector<ReferenceTensor> operands;
  ReferenceTensor expected;
};

// Operand tensors that hold every combination of the values above.
void FillOperands(Case& test) {
  int64_t count = 1;
  for (const auto& input : test.graph.inputs) {
    if (input->type.rank() == 1) count *= ChoiceCount(test.node->kind, input->type.dtype);
  }
  int64_t repeat = 1;
  for (const auto& input : test.graph.inputs) {
    const bool single = input->type.rank() == 0;  // a bound of Clip
    ReferenceTensor tensor(input->type.dtype,
                           single ? std::vector<int64_t>{} : std::vector<int64_t>{count});
    const int64_t choices = ChoiceCount(test.node->kind, tensor.dtype);
    for (int64_t i = 0; i < tensor.element_count(); ++i) {
      const int64_t choice = single ? 4 + static_cast<int64_t>(test.operands.size()) : i / repeat % choices;
      if (IsFloat(tensor.dtype)) tensor.reals[i] = RealsFor(test.node->kind, tensor.dtype)[choice];
      else tensor.ints[i] = kIntegers[choice];
    }
    if (!single) repeat *= choices;
    tensor.WrapInts();
    test.operands.push_back(std::move(tensor));
  }
}

void AddCase(std::vector<std::unique_ptr<Case>>& cases, const OpDef& op,
             ArrayRef<Dtype> dtypes, const Attributes& attributes) {
  auto test = std::make_unique<Case>();
  ValueList operands;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const bool single = op.kind == OpKind::kClip && i > 0;
    operands.push_back(test->graph.AddInput("x" + std::to_string(i),
                                            {dtypes[i], single ? Shape{} : Shape{Expr(1000)}}));
  }
  if (!InferTypes(op.kind, operands, attributes, Ranges())) return;
  test->node = *Builder(test->graph).Add(op.kind, operands, attributes);
  FillOperands(*test);
  std::vector<ReferenceTensor> results = {
      ReferenceTensor(test->node->result()->type.dtype, test->operands[0].dims)};
  std::vector<const ReferenceTensor*> pointers;
  for (const ReferenceTensor& operand : test->operands) pointers.push_back(&operand);
  ReferenceContext context(*test->node, pointers, results, {});
  ASSERT_TRUE(op.functions.reference(context));
  test->expected = std::move(results[0]);
  cases.push_back(std::move(test));
}

std::vector<std::unique_ptr<Case>> AllCases() {
  std::vector<std::unique_ptr<Case>> cases;
  for (const OpDef& op : AllOps()) {
    if (!MakesElementsOfOperands(op)) continue;
    const size_t before = cases.size();
    for (int i = 0; i < kDtypeCount; ++i) {
      const Dtype dtype = static_cast<Dtype>(i);
      for (const Attributes& attributes : AttributeChoices(op.kind)) {
        AddCase(cases, op, {dtype}, attributes);
        AddCase(cases, op, {dtype, dtype}, attributes);
        if (op.kind != OpKind::kMax && op.kind != OpKind::kMin) {
          AddCase(cases, op, {dtype, dtype, dtype}, attributes);
        }
        if (op.kind == OpKind::kWhere && dtype != Dtype::kBool) {
          AddCase(cases, op, {Dtype::kBool, dtype, dtype}, attributes);
        }
        for (const Dtype other : {Dtype::kF32, Dtype::kI64}) {
          if (op.kind == OpKind::kPow && other != dtype) AddCase(cases, op, {dtype, other}, {});
        }
      }
    }
    EXPECT_GT(cases.size(), before) << op.text << " takes no dtype";
  }
  return cases;
}

std::string FunctionText(const Case& test, const TextRecorder& lowered, size_t number) {
  std::string text = "// " + PrintNode(*test.node) + "\nextern \"C\" void case_" +
                     std::to_string(number) +
                     "(const void* const* operands, void* results, long long count) {\n"
                     "  for (long long i = 0; i < count; ++i) {\n";
  for (size_t i = 0; i < test.operands.size(); ++i) {
    const std::string type = CTypeName(test.operands[i].dtype);
    const std::string number_text = std::to_string(i);
    text += "    [[maybe_unused]] const " + type + " x" + number_text + " = ((const " + type +
            "*)operands[" + number_text + "])[" + (test.operands[i].dims.empty() ? "0" : "i") + "];\n";
  }
  for (const std::string& statement : lowered.statements) text += "    " + statement + "\n";
  return text + "    ((" + CTypeName(lowered.result.dtype) + "*)results)[i] = " + lowered.result.text() +
         ";\n  }\n}\n";
}

// An array of the locals' C type.
std::vector<std::byte> ToMemory(const ReferenceTensor& tensor) {
  const bool as_float = CTypeName(tensor.dtype) == "float";
  TensorData data(as_float ? Dtype::kF32 : tensor.dtype, {tensor.element_count()});
  for (size_t i = 0; i < tensor.reals.size(); ++i) data.SetDouble(i, tensor.reals[i]);
  for (size_t i = 0; i < tensor.ints.size(); ++i) data.SetInt(i, tensor.ints[i]);
  return {data.bytes(), data.bytes() + data.byte_count()};
}

// f32: a few units in the last place of the functions, and cancellation in gelu; f64: the rounding of libm.
void ExpectClose(double expected, double actual, Dtype dtype, const std::string& what) {
  if (dtype != Dtype::kF64) expected = static_cast<float>(expected);
  if (std::isnan(expected) || std::isinf(expected)) {
    EXPECT_TRUE(std::isnan(expected) ? std::isnan(actual) : actual == expected)
        << what << ": expected " << expected << ", found " << actual;
    return;
  }
  const double tolerance = dtype == Dtype::kF64 ? 1e-14 : 1e-6;
  EXPECT_LE(std::fabs(actual - expected), tolerance * (1 + std::fabs(expected)))
      << what << ": expected " << expected << ", found " << actual;
}

void Compare(const Case& test, ArrayRef<std::byte> memory) {
  const Dtype dtype = test.expected.dtype;
  TensorData actual(CTypeName(dtype) == "float" ? Dtype::kF32 : dtype, test.expected.dims);
  std::memcpy(actual.mutable_bytes(), memory.data(), memory.size());
  for (int64_t i = 0; i < test.expected.element_count() && !testing::Test::HasFailure(); ++i) {
    std::string what = PrintNode(*test.node) + " of";
    for (const ReferenceTensor& operand : test.operands) {
      const int64_t at = operand.dims.empty() ? 0 : i;
      what += " " + (IsFloat(operand.dtype) ? std::to_string(operand.reals[at])
                                            : std::to_string(operand.ints[at]));
    }
    if (IsFloat(dtype)) ExpectClose(test.expected.reals[i], actual.GetDouble(i), dtype, what);
    else EXPECT_EQ(test.expected.ints[i], actual.GetInt(i)) << what;
  }
}

TEST(PointwiseLowerTest, CompiledTextAgreesWithReference) {
  const std::vector<std::unique_ptr<Case>> cases = AllCases();
  std::string functions;
  std::vector<std::string> files;  // in order of first use, as a kernel holds them
  for (size_t i = 0; i < cases.size(); ++i) {
    const TextRecorder lowered(*cases[i]->node);
    EXPECT_EQ(lowered.result.dtype, cases[i]->expected.dtype) << PrintNode(*cases[i]->node);
    functions += FunctionText(*cases[i], lowered, i);
    for (const std::string& file : lowered.files) {
      if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
    }
  }
  std::string text(TemplateText("host/cuda_on_cpu.h").value());
  text += "namespace fusec_kernels {\n";
  for (const std::string& file : files) text += TemplateText("device/" + file).value();
  text += functions + "}\n";

  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("pointwise_lower_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "cases.cc") << text;
  const std::string library = folder / "cases.so";
  const std::string command = "g++ -std=c++20 -O1 -march=x86-64-v3 -fno-math-errno -fwrapv -fPIC -shared "
                              "-w -o " + library + " " + std::string(folder / "cases.cc");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  void* handle = dlopen(library.c_str(), RTLD_NOW);
  ASSERT_NE(handle, nullptr) << dlerror();
  for (size_t i = 0; i < cases.size() && !HasFailure(); ++i) {
    using Function = void (*)(const void* const*, void*, long long);
    const auto function =
        reinterpret_cast<Function>(dlsym(handle, ("case_" + std::to_string(i)).c_str()));
    std::vector<std::vector<std::byte>> memory;
    std::vector<const void*> operands;
    for (const ReferenceTensor& operand : cases[i]->operands) memory.push_back(ToMemory(operand));
    for (const auto& bytes : memory) operands.push_back(bytes.data());
    std::vector<std::byte> result = ToMemory(cases[i]->expected);
    std::fill(result.begin(), result.end(), std::byte{0x55});
    function(operands.data(), result.data(), cases[i]->expected.element_count());
    Compare(*cases[i], result);
  }
  dlclose(handle);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace fusec
