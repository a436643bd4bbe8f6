// What passes record about the constants that they make (passes/lineage.h): the weights program, run by the interpreter on the
// initializers, gives each constant bit for bit, also for other initializers.
#include <gtest/gtest.h>

#include <set>

#include "compiler/driver/build/compile.h"
#include "compiler/driver/build/pipeline.h"
#include "compiler/ir/op_def.h"
#include "passes/weights_program.h"
#include "tests/passes/pass_case.h"

namespace fusec {
namespace {

bool IsInitializer(const Node& node) {
  return node.kind == OpKind::kConstant && node.derivation && node.derivation->is_initializer;
}

void SetData(Node& constant, TensorData data) {
  constant.constant_hash = data.Hash();
  constant.constant = std::move(data);
}

// Numbers for constants whose payload is in no file.
void FillPayloads(Graph& graph) {
  int64_t seed = 0;
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kConstant || node->constant.bytes() != nullptr) continue;
    const TensorType& type = node->result()->type;
    TensorData data(type.dtype, *StaticShape(type.shape));
    for (int64_t i = 0; i < data.element_count(); ++i)
      data.SetDouble(i, static_cast<double>((37 * i + 11 * ++seed) % 61 - 30) / 8 + 0.3);
    SetData(*node, std::move(data));
  }
}

// A model before and after passes, with the recorded derivations of its constants.
struct Lineage {
  std::vector<TensorData> initializers;
  std::unique_ptr<Graph> graph, program;
  std::vector<FinalConstant> constants;
  std::vector<Specialization> specializations;
};

Result<Lineage> Follow(std::unique_ptr<Graph> graph, const PassOptions& options, const std::vector<std::string>& passes,
                       const std::map<std::string, std::string>* names = nullptr) {
  Lineage lineage;
  const Derivations initializers = MarkInitializers(*graph, names);
  for (const auto& node : graph->nodes) {
    if (IsInitializer(*node)) lineage.initializers.push_back(node->constant);
  }
  PassManager manager;
  manager.options = options;
  FUSEC_TRY(manager.Run(*graph, passes));
  lineage.graph = std::move(graph);
  lineage.constants = FinalConstants({std::shared_ptr<const Graph>(lineage.graph->Clone())});
  const std::map<std::string, std::string> none;
  lineage.program = WeightsProgram(initializers, lineage.constants, names ? *names : none);
  lineage.specializations = Specializations(initializers, lineage.constants, names ? *names : none);
  return lineage;
}

std::vector<const Node*> ConstantsOf(const Graph& graph) {
  std::vector<const Node*> constants;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kConstant) constants.push_back(node.get());
  }
  return constants;
}

// Whether `program` computes the constants of `graph` from `initializers`.
void Makes(const Graph& program, const std::vector<TensorData>& initializers, const Graph& graph, const std::string& what) {
  const auto made = RunWeightsProgram(program, initializers);
  ASSERT_TRUE(made.has_value()) << what << ": " << made.error().message << "\n" << Print(program);
  const auto constants = ConstantsOf(graph);
  ASSERT_EQ(made->size(), constants.size()) << what;
  for (size_t i = 0; i < constants.size(); ++i) {
    EXPECT_EQ((*made)[i].Hash(), constants[i]->constant_hash)
        << what << ": " << program.output_names[i] << " of\n"
        << Print(program) << "is made of\n"
        << Print(graph);
  }
}

// A graph like any other, whose text says all of it.
void IsText(const Graph& program, const std::string& what) {
  const auto verified = Verify(program);
  EXPECT_TRUE(verified.has_value()) << what << ": " << verified.error().message << "\n" << Print(program);
  const auto again = Parse(Print(program));
  ASSERT_TRUE(again.has_value()) << what << ": " << again.error().message << "\n" << Print(program);
  EXPECT_TRUE(Equal(program, **again)) << what << "\n" << Print(program);
}

TEST(Lineage, MakesTheConstantsOfEveryPassCase) {
  std::map<std::string, int> made_by;
  for (const std::string& path : PassCasePaths()) {
    const PassCase given = ReadPassCase(kPassCases + path);
    auto graph = Parse(given.head);
    if (!graph || !Verify(**graph) || given.expected.starts_with("error: ")) continue;
    FillPayloads(**graph);
    const auto lineage = Follow(*std::move(graph), given.options, given.passes);
    ASSERT_TRUE(lineage.has_value()) << path << ": " << lineage.error().message;
    IsText(*lineage->program, path);
    Makes(*lineage->program, lineage->initializers, *lineage->graph, path);
    for (const auto& node : lineage->program->nodes) {
      if (node->kind != OpKind::kConstant) ++made_by[node->provenance[0].onnx_node];
    }
  }
  for (const char* pass : {"adapter-slots", "canonicalize", "dequantize-after-gather", "drop-dead-columns", "fold-affine", "fold-constants",
                           "fold-scale", "fold-symmetric", "merge-linear", "merge-lora", "pad-depth", "pull-normalization",
                           "quantize-tables", "stack-products"}) {
    EXPECT_GT(made_by[pass], 0) << pass << " makes no constants of others in its cases";
  }
}

// Scales the initializers whose elements vary. Constants such as scales of one stay, since passes may decide by them.
void Perturb(Graph& graph, const std::map<std::string, std::string>& names) {
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kConstant || names.count(node->result()->name) == 0) continue;
    const TensorData& old = node->constant;
    if (!IsFloat(old.dtype()) || old.element_count() < 2) continue;
    std::set<double> distinct;
    TensorData data(old.dtype(), old.dims());
    for (int64_t i = 0; i < old.element_count(); ++i) {
      distinct.insert(old.GetDouble(i));
      data.SetDouble(i, old.GetDouble(i) * (1.25 + static_cast<double>(i % 7) / 16));
    }
    if (distinct.size() > 1) SetData(*node, std::move(data));
  }
}

// Follows the model as it is and with other initializers: the programs are the same, and make the constants of both.
void MakesConstantsOf(const std::string& path, TargetKind target, const std::string& storage) {
  const std::string what = path + (target == TargetKind::kGpu ? " gpu " : " cpu ") + storage;
  CompileOptions options;
  options.model_path = path;
  PassOptions pass_options;
  if (!storage.empty()) pass_options.table_storage = {{"*", ParseRowStorage(storage).value()}};
  std::vector<Lineage> versions;
  for (const bool is_perturbed : {false, true}) {
    auto loaded = LoadModel(options);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    pass_options.constant_names = loaded->constant_names;
    if (is_perturbed) Perturb(*loaded->imported, pass_options.constant_names);
    auto lineage = Follow(std::move(loaded->imported), pass_options, PipelinePasses(target), &pass_options.constant_names);
    ASSERT_TRUE(lineage.has_value()) << what << ": " << lineage.error().message;
    versions.push_back(*std::move(lineage));
  }
  IsText(*versions[0].program, what);
  EXPECT_EQ(Print(*versions[0].program), Print(*versions[1].program)) << what;
  for (const Lineage& version : versions) Makes(*versions[0].program, version.initializers, *version.graph, what);
}

class LineageOfModels : public testing::TestWithParam<std::string> {};

TEST_P(LineageOfModels, MakesTheConstantsOfOtherInitializersToo) {
  const std::string path = FUSEC_SOURCE_DIR "/" + GetParam();
  for (const TargetKind target : {TargetKind::kCpu, TargetKind::kGpu}) MakesConstantsOf(path, target, "");
}

TEST(Lineage, MakesTheRowsOfStoredTables) {
  for (const std::string& storage : RowStorageNames())
    MakesConstantsOf(FUSEC_SOURCE_DIR "/models/dlrm_dot.ts.onnx", TargetKind::kCpu, storage);
}

std::vector<std::string> Models() {
  std::vector<std::string> models;
  for (const std::string folder : {"models/", "tests/end_to_end/models/"}) {
    for (const auto& entry : std::filesystem::directory_iterator(FUSEC_SOURCE_DIR "/" + folder)) {
      if (entry.path().extension() == ".onnx") models.push_back(folder + entry.path().filename().string());
    }
  }
  std::sort(models.begin(), models.end());
  return models;
}

INSTANTIATE_TEST_SUITE_P(All, LineageOfModels, testing::ValuesIn(Models()), [](const auto& info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

Lineage FollowText(const std::string& text, const std::vector<std::string>& passes) {
  auto graph = Parse(text);
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  auto lineage = Follow(*std::move(graph), {}, passes);
  EXPECT_TRUE(lineage.has_value()) << lineage.error().message;
  return *std::move(lineage);
}

TEST(Lineage, SaysWhatPassesDecidedBy) {
  const Lineage lineage = FollowText(R"(graph @powers(%x: f32[4]) {
  %two = constant() [2.0] : f32[]
  %half = constant() [0.5] : f32[]
  %square = pow(%x, %two) : f32[4]
  %scaled = mul(%square, %half) : f32[4]
  return %scaled
}
)",
                                     {"canonicalize"});
  ASSERT_EQ(lineage.specializations.size(), 1u);
  EXPECT_EQ(lineage.specializations[0].tensor, "two");
  EXPECT_EQ(lineage.specializations[0].pass, "canonicalize");
  EXPECT_EQ(lineage.specializations[0].kind, Specialization::Kind::kDecided);
}

TEST(Lineage, SaysWhatIsStoredAsOne) {
  const Lineage lineage = FollowText(R"(graph @equals(%x: f32[2]) {
  %a = constant() [2.0, 3.0] : f32[2]
  %b = constant() [2.0, 3.0] : f32[2]
  %y = add(%x, %a) : f32[2]
  %z = mul(%y, %b) : f32[2]
  return %z
}
)",
                                     {"eliminate-common"});
  ASSERT_EQ(lineage.specializations.size(), 1u);
  EXPECT_EQ(lineage.specializations[0].tensor, "b");
  EXPECT_EQ(lineage.specializations[0].constant, "a");
  EXPECT_EQ(lineage.specializations[0].kind, Specialization::Kind::kEqual);
}

TEST(Lineage, SaysWhatIsFrozen) {
  const PassCase given = ReadPassCase(kPassCases + "recognize-lookup/arg_max.ir");
  const Lineage lineage = FollowText(given.head, given.passes);
  ASSERT_FALSE(lineage.specializations.empty());
  EXPECT_EQ(lineage.specializations[0].pass, "recognize-lookup");
  EXPECT_EQ(lineage.specializations[0].kind, Specialization::Kind::kFrozen);
}

}  // namespace
}  // namespace fusec
