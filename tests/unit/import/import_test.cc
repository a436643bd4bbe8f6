#include "tests/unit/import/import_fixture.h"

namespace fusec {
namespace {

TEST_F(Import, NamesTypesAndMetadata) {
  const auto model = Load(
      "g (float[batch, 2] \"x/in:0\", float[batch, 2] y) => (float[batch, 2] \"9\") "
      "{ \"9\" = Add(\"x/in:0\", y) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  const Graph& graph = *model->graph;
  EXPECT_EQ(graph.input_names, (std::vector<std::string>{"x/in:0", "y"}));
  EXPECT_EQ(graph.inputs[0]->name, "x_in_0");
  EXPECT_EQ(graph.outputs[0]->name, "t9");
  EXPECT_EQ(graph.output_names, (std::vector<std::string>{"9"}));
  EXPECT_EQ(graph.outputs[0]->type.ToString(), "f32[batch, 2]");
  EXPECT_EQ(graph.symbols, (std::vector<DimSymbol>{{"batch", 1, 65536}}));
  EXPECT_EQ(graph.metadata.at("file"), "m.onnxtxt");
  EXPECT_EQ(graph.metadata.at("opset"), "20");
  EXPECT_EQ(graph.metadata.at("ir_version"), "10");
  EXPECT_TRUE(Verify(graph));
}

// Names are allowed whatever they mean in C++ or in kernels; `min` is a function in the text of a size.
TEST_F(Import, DimsKeepTheirNames) {
  const auto model = Load("g (float[k, min] x, float[int, true] y) => (float[k, min] z) { z = Relu(x) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->inputs[0]->type.ToString(), "f32[k, min_]");
  EXPECT_EQ(model->graph->inputs[1]->type.ToString(), "f32[int, true]");
  EXPECT_EQ(model->warnings, std::vector<std::string>{"input \"x\" axis 1 has the size \"min\"; it is called min_"});
  const auto again = Parse(Print(*model->graph));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(Equal(**again, *model->graph));
}

// The warning gives the symbol's name, which is the only name that the artifact has.
TEST_F(Import, RenamedDimsTakeRangesByEitherName) {
  for (const std::string name : {"min", "min_"}) {
    const auto model = Load("g (float[min, 2] x) => (float[min, 2] z) { z = Relu(x) }",
                            {.dim_ranges = {{name, {2, 9}}}});
    ASSERT_TRUE(model) << ErrorOf(model);
    EXPECT_EQ(model->graph->symbols, std::vector{(DimSymbol{"min_", 2, 9})}) << name;
  }
}

// A dim along which a Concat appends to an input may be 0, as in the first call of a model with a cache.
TEST_F(Import, DimsThatGrowMayBeZero) {
  const auto low = [this](const std::string& concat) {
    const auto model = Load("g (float[2, rows] x, float[2, 1] new) => (float[2, n] y) { y = " + concat + " }");
    EXPECT_TRUE(model) << ErrorOf(model);
    return model ? model->graph->symbols[0].low : -1;
  };
  EXPECT_EQ(low("Concat<axis = 1>(x, new)"), 0);
  EXPECT_EQ(low("Concat<axis = 1>(x)"), 1);
}

// 2^40 nodes in 2 KB.
TEST_F(Import, FunctionsThatGrowWithoutEndAreRefused) {
  std::string functions = "\n<domain: \"f\", opset_import: [\"\": 20, \"f\": 1]> f0 (a) => (b) { b = Relu(a) }";
  for (int i = 1; i <= 40; ++i) {
    const std::string name = "f" + std::to_string(i), before = "f.f" + std::to_string(i - 1);
    functions += "\n<domain: \"f\", opset_import: [\"\": 20, \"f\": 1]> " + name + " (a) => (b) { c = " + before + "(a) b = " + before +
                 "(c) }";
  }
  EXPECT_EQ(ErrorOf(Load("g (float[n] x) => (float[n] z) { z = f.f40(x) }", {},
                         "ir_version: 10, opset_import: [\"\": 20, \"f\": 1]", functions)),
            "m.onnxtxt: its functions make a graph of 1000000 nodes or more, or call each other 1000 deep");
}

TEST_F(Import, DimsWithoutNamesGetTheirOwn) {
  const auto model = Load("g (float[?, 2] x, float[d0] y) => (float[?, 2] z) { z = Relu(x) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->inputs[0]->type.ToString(), "f32[d1, 2]");
  EXPECT_EQ(
      model->warnings,
      (std::vector<std::string>{"input \"x\" axis 0 has no size and no name; it is called d1"}));
}

TEST_F(Import, DimRangesAndFixedDims) {
  const std::string graph = "g (float[n, k] x) => (float[n, k] z) { z = Relu(x) }";
  const auto model = Load(graph, {.dim_ranges = {{"n", {0, 7}}, {"k", {3, 3}}}});
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->symbols, (std::vector<DimSymbol>{{"n", 0, 7}}));
  EXPECT_EQ(model->graph->outputs[0]->type.ToString(), "f32[n, 3]");

  const auto unknown = Load(graph, {.dim_ranges = {{"rows", {1, 2}}}});
  EXPECT_EQ(ErrorOf(unknown),
            "m.onnxtxt: --dim rows: the model has no such dimension, expected n or k");
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(ErrorOf(Load(graph, {.dim_ranges = {{"n", {5, 2}}}})),
            "m.onnxtxt: --dim n=5..2: expected 0 <= low <= high");
}

TEST_F(Import, DimExpressionsOfOtherDims) {
  const auto model = Load(
      "g (float[\"2*s0 + 1\"] x, float[s0] y, float[\"s0 // 2\"] z) => (float[?] o) "
      "{ o = Concat<axis = 0>(x, y, z) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->inputs[0]->type.ToString(), "f32[s0*2 + 1]");
  EXPECT_EQ(model->graph->inputs[2]->type.ToString(), "f32[s0_2]");
  EXPECT_EQ(model->warnings.size(), 1u);
}

TEST_F(Import, FrozenInputsBecomeConstantsAndFixTheirDims) {
  ImportOptions options;
  options.frozen_inputs["w"] = TensorData::From<double>(Dtype::kF32, {2}, {10, 20});
  const std::string graph = "g (float[n] x, float[n] w) => (float[n] z) { z = Mul(x, w) }";
  const auto model = Load(graph, options);
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->inputs.size(), 1u);
  EXPECT_EQ(model->graph->inputs[0]->type.ToString(), "f32[2]");
  EXPECT_EQ(Answer(*model->graph, {F32({2}, {1, 2})}), (std::vector<double>{10, 40}));

  options.frozen_inputs["v"] = TensorData(Dtype::kF32, {});
  EXPECT_EQ(ErrorOf(Load(graph, options)),
            "m.onnxtxt: a value is given for input \"v\", but the inputs are \"x\", \"w\"");
  options.frozen_inputs = {{"w", TensorData(Dtype::kI64, {2})}};
  EXPECT_EQ(ErrorOf(Load(graph, options)),
            "m.onnxtxt: the value given for input \"w\" is i64, expected f32");
}

TEST_F(Import, ConstantNodesInEveryForm) {
  const auto model = Load(
      "g (float[n] x) => (float[n] z) {\n"
      "  a = Constant<value_float = 2.0>()\n  b = Constant<value_floats = [3.0]>()\n"
      "  c = Constant<value = float[1] {0.5}>()\n  i = Constant<value_ints = [0]>()\n"
      "  d = Mul(x, a)\n  e = Mul(d, b)\n  f = Mul(e, c)\n  u = Unsqueeze(f, i)\n"
      "  z = Squeeze(u, i)\n}");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(Answer(*model->graph, {F32({2}, {1, -2})}), (std::vector<double>{3, -6}));
  EXPECT_EQ(ErrorOf(Load("g () => (string s) { s = Constant<value_string = \"a\">() }")),
            "m.onnxtxt: node producing \"s\" (Constant): attribute value_string is not supported, "
            "expected one of value, value_float, value_floats, value_int, value_ints");
}

TEST_F(Import, InitializersOfEveryDtype) {
  for (const auto& [onnx, ours] : std::map<std::string, std::string>{{"float", "f32"},
                                                                     {"double", "f64"},
                                                                     {"float16", "f16"},
                                                                     {"bfloat16", "bf16"},
                                                                     {"int8", "i8"},
                                                                     {"int16", "i16"},
                                                                     {"int32", "i32"},
                                                                     {"int64", "i64"},
                                                                     {"uint8", "u8"},
                                                                     {"uint16", "u16"},
                                                                     {"uint32", "u32"},
                                                                     {"uint64", "u64"},
                                                                     {"bool", "bool"}}) {
    const auto model = Load("g () => (" + onnx + "[3] z) <" + onnx + "[3] w = {1, 0, 1}> " +
                            "{ z = Identity(w) }");
    ASSERT_TRUE(model) << onnx << ": " << ErrorOf(model);
    EXPECT_EQ(model->graph->outputs[0]->type.ToString(), ours + "[3]");
  }
}

TEST_F(Import, EmptyInitializer) {
  const auto model =
      Load("g (float[n] x) => (float[n] z) <float[0] w = {}> { z = Concat<axis = 0>(x, w) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(Answer(*model->graph, {F32({1}, {5})}), (std::vector<double>{5}));
}

TEST_F(Import, InputsWithDefaultsBecomeConstants) {
  const auto model = Load("g (float[n] x, float[1] w = {4}) => (float[n] z) { z = Mul(x, w) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->inputs.size(), 1u);
  EXPECT_EQ(
      model->warnings,
      (std::vector<std::string>{"1 input has a default value and becomes a constant: \"w\""}));
}

TEST_F(Import, ExternalDataIsAView) {
  Write("w.bin", std::string("\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 12));
  const std::string graph =
      "g (float[n, 2] x) => (float[n, 2] z) "
      "<float[2] w = [\"location\": \"w.bin\", \"offset\": \"4\", \"length\": \"8\"]> "
      "{ z = Mul(x, w) }";
  const auto model = Load(graph);
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(Answer(*model->graph, {F32({1, 2}, {3, 3})}), (std::vector<double>{3, 6}));
}

TEST_F(Import, NodesOutOfOrderAreSortedAndDeadOnesDropped) {
  const auto model =
      Load("g (float[n] x) => (float[n] z) { z = Relu(y)\n dead = Foo(x)\n y = Neg(x) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->nodes.size(), 2u);
  EXPECT_EQ(Answer(*model->graph, {F32({2}, {-1, 1})}), (std::vector<double>{1, 0}));
}

TEST_F(Import, FunctionsAreInlined) {
  const auto model =
      Load("g (float[n] x) => (float[n] z) { z = mine.Twice(x) }", {},
           "ir_version: 10, opset_import: [\"\": 20, \"mine\": 1]",
           "\n<domain: \"mine\", opset_import: [\"\": 20]> Twice (a) => (b) { b = Add(a, a) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(Answer(*model->graph, {F32({1}, {4})}), (std::vector<double>{8}));

  EXPECT_EQ(
      ErrorOf(Load(
          "g (float[n] x) => (float[n] z) { z = mine.Twice(x) }", {},
          "ir_version: 10, opset_import: [\"\": 20, \"mine\": 1]",
          "\n<domain: \"mine\", opset_import: [\"\": 18]> Twice (a) => (b) { b = Add(a, a) }")),
      "m.onnxtxt: 1 unsupported op: Twice (mine 1): node \"z\"\n"
      "m.onnxtxt: function mine.Twice is written for opset 18 of ai.onnx, the model for 20");
}

TEST_F(Import, ConstantIfTakesItsBranchAndSeesOuterTensors) {
  for (const std::string condition : {"0", "1"}) {
    const auto model = Load("g (float[n] x) => (float[n] z) <bool c = {" + condition +
                            "}, float[1] k = {3}> {\n"
                            "  y = Neg(x)\n"
                            "  z = If (c) <then_branch = t () => (float[n] a) { a = Mul(y, k) },\n"
                            "              else_branch = e () => (float[n] b) { b = Foo(y) }>\n}");
    if (condition == "0") {
      EXPECT_EQ(ErrorOf(model), "m.onnxtxt: 1 unsupported op: Foo (ai.onnx, opset 20): node \"b\"");
    } else {
      ASSERT_TRUE(model) << ErrorOf(model);
      EXPECT_EQ(Answer(*model->graph, {F32({1}, {2})}), (std::vector<double>{-6}));
    }
  }
}

TEST_F(Import, ProblemsAreCollectedAndCut) {
  std::string nodes;
  for (int i = 0; i < 30; ++i) {
    const std::string n = std::to_string(i);
    nodes += "  a" + n + " = Transpose<perm = [7]>(x)\n";
  }
  nodes += "  [\"/c/STFT\"] u = STFT(x, x)\n  v = STFT(u, u)\n  w = com.example.Foo(v)\n z = Sum(w";
  for (int i = 0; i < 30; ++i) nodes += ", a" + std::to_string(i);
  const std::string message =
      ErrorOf(Load("g (float[n, 2] x) => (float[n, 2] z) {\n" + nodes + ") }"));
  EXPECT_EQ(message.substr(0, message.find('\n')),
            "m.onnxtxt: 2 unsupported ops: STFT (ai.onnx, opset 20): nodes \"/c/STFT\", \"v\"; "
            "Foo (com.example): node \"w\"");
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 20);
  EXPECT_EQ(message.substr(message.rfind('\n') + 1), "and 11 more");
}

TEST_F(Import, SizesThatNoRunCanHaveAreGivenUpWithAWarning) {
  const std::string positions =
      "g (float[batch, seq, 2] x) => (float[batch, seq, 2] z)\n"
      "<float[50, 2] table = {1}, int64[1] start = {0}, int64[1] axis = {0}> {\n"
      "  shape = Shape(x)\n  length = Slice(shape, one, two)\n"
      "  rows = Slice(table, start, length, axis)\n  z = Add(x, rows) }";
  std::string model = positions;
  model.replace(model.find("{1}"), 3, "{" + [] {
    std::string zeros = "0";
    for (int i = 1; i < 100; ++i) zeros += ", 0";
    return zeros;
  }() + "}");
  model.replace(model.find("int64[1] axis"), 0, "int64[1] one = {1}, int64[1] two = {2}, ");
  const auto narrowed = Load(model);
  ASSERT_TRUE(narrowed) << ErrorOf(narrowed);
  ASSERT_EQ(narrowed->graph->symbols.size(), 2u);
  EXPECT_EQ(narrowed->graph->symbols[1], (DimSymbol{"seq", 1, 50}));
  ASSERT_EQ(narrowed->warnings.size(), 1u);
  EXPECT_TRUE(narrowed->warnings[0].starts_with("compiled for seq=1..50 only: node "))
      << narrowed->warnings[0];
  // A promise by --dim stays valid.
  ImportOptions options;
  options.dim_ranges["seq"] = {1, 100};
  const std::string message = ErrorOf(Load(model, options));
  EXPECT_EQ(message.substr(message.rfind('\n') + 1),
            "m.onnxtxt: it would fit with --dim seq=1..50");
}

TEST_F(Import, ASliceByADimIsNarrowedBehindExpand) {
  const auto model = Load(
      "g (int64[batch, seq] ids) => (int64[batch, seq] e)\n"
      "<int64[1, 3] positions = {0, 1, 2}, int64[1] start = {0}, int64[1] one = {1}, int64[1] two = {2}> {\n"
      "  shape = Shape(ids)\n  length = Slice(shape, one, two)\n"
      "  rows = Slice(positions, start, length, one)\n  e = Expand(rows, shape) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->symbols[1], (DimSymbol{"seq", 1, 3}));
  EXPECT_TRUE(model->warnings[0].starts_with("compiled for seq=1..3 only: node producing \"e\" (Expand)"))
      << model->warnings[0];
}

// A dim under its own name that is a multiple of another one: 9 items of each request.
TEST_F(Import, DimsThatAreMultiplesAreSolved) {
  const std::string text =
      "g (float[items, 4] k, float[batch, 4] q) => (float[batch, 9, 4] p) <int64[3] shape = {-1, 9, 4}, int64[1] one = {1}> {\n"
      "  k3 = Reshape(k, shape)\n  q3 = Unsqueeze(q, one)\n  p = Mul(k3, q3) }";
  const auto model = Load(text);
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->inputs[0]->type.ToString(), "f32[batch*9, 4]");
  ASSERT_EQ(model->graph->symbols.size(), 1u);
  EXPECT_EQ(model->graph->symbols[0], (DimSymbol{"batch", 1, 65536}));
  ASSERT_EQ(model->warnings.size(), 1u);
  EXPECT_TRUE(model->warnings[0].starts_with("compiled for items=batch*9 only: node producing \"k3\" (Reshape)"))
      << model->warnings[0];
  // --dim for the multiple limits the other dim; two promises are either both kept or rejected.
  ImportOptions options;
  options.dim_ranges["items"] = {5, 90};
  const auto ranged = Load(text, options);
  ASSERT_TRUE(ranged) << ErrorOf(ranged);
  EXPECT_EQ(ranged->graph->symbols[0], (DimSymbol{"batch", 1, 10}));
  options.dim_ranges["batch"] = {1, 100};
  const std::string message = ErrorOf(Load(text, options));
  EXPECT_EQ(message.substr(message.rfind('\n') + 1), "m.onnxtxt: it would fit with --dim items=9..900");
}

// The lengths of the bags of three features, where no input has the batch as a dim of its own.
TEST_F(Import, AMultipleOfNoOtherDimGetsOneOfItsOwn) {
  const auto model = Load("g (int64[lengths] x) => (int64[a] z) { z, y, u = Split(x) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->inputs[0]->type.ToString(), "i64[lengths_per_3*3]");
  EXPECT_EQ(model->graph->outputs[0]->type.ToString(), "i64[lengths_per_3]");
}

TEST_F(Import, DimsThatAreOneInEveryRunBecomeOneWithAWarning) {
  const std::string inputs = "g (float[na, 2] x, float[nb, 2] y, float[nc, 2] w) => ";
  const std::string text = inputs + "(float[a, 2] z, float[b, 4] v) { v = Concat<axis = 1>(y, w)\n u = Add(x, y)\n z = Add(u, w) }";
  const auto model = Load(text);
  ASSERT_TRUE(model) << ErrorOf(model);
  ASSERT_EQ(model->graph->symbols.size(), 1u);
  EXPECT_EQ(model->graph->symbols[0], (DimSymbol{"na", 1, 65536}));
  for (const auto& input : model->graph->inputs)
    EXPECT_EQ(input->type.ToString(), "f32[na, 2]") << input->name;
  ASSERT_EQ(model->warnings.size(), 2u);
  EXPECT_TRUE(model->warnings[0].starts_with("compiled for nc=nb only: node producing \"v\" (Concat)"))
      << model->warnings[0];
  EXPECT_TRUE(model->warnings[1].starts_with("compiled for nb=na only: ")) << model->warnings[1];
  // --dim for one name applies to both, and two promises are either both kept or rejected.
  ImportOptions options;
  options.dim_ranges["nc"] = {2, 9};
  const auto ranged = Load(text, options);
  ASSERT_TRUE(ranged) << ErrorOf(ranged);
  EXPECT_EQ(ranged->graph->symbols[0], (DimSymbol{"na", 2, 9}));
  options.dim_ranges["na"] = {1, 9};
  const std::string message = ErrorOf(Load(text, options));
  EXPECT_EQ(message.substr(message.rfind('\n') + 1), "m.onnxtxt: it would fit with --dim nb=1..9");
  // Kernels call the dim `first` otherwise; --dim does not.
  options.dim_ranges = {{"first", {3, 5}}};
  const auto renamed =
      Load("g (float[na, 2] x, float[first, 2] y) => (float[a, 2] z) { z = Add(x, y) }", options);
  ASSERT_TRUE(renamed) << ErrorOf(renamed);
  EXPECT_EQ(renamed->graph->symbols, std::vector{(DimSymbol{"na", 3, 5})});
}

TEST_F(Import, ASizeThatTheExporterTracedWithStaysTheOnlyOne) {
  const auto model = Load(
      "g (float[batch, seq] x) => (float[a, b] z) "
      "<float[6, 2] w = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}> { z = MatMul(x, w) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  ASSERT_EQ(model->graph->symbols.size(), 1u);
  EXPECT_EQ(model->graph->symbols[0].name, "batch");
  EXPECT_EQ(model->graph->inputs[0]->type.ToString(), "f32[batch, 6]");
}

TEST_F(Import, SchemaViolationsNameTheNode) {
  EXPECT_EQ(ErrorOf(Load("g (float[n] x) => (float[n] z) { z = Relu(x, x) }")),
            "m.onnxtxt: node producing \"z\" (Relu): has 2 inputs, expected 1");
  EXPECT_EQ(ErrorOf(Load("g (float[n] x) => (float[n] z) { z = Relu<slope = 1.0>(x) }")),
            "m.onnxtxt: node producing \"z\" (Relu): unrecognized attribute: slope for operator "
            "Relu");
  EXPECT_EQ(ErrorOf(Load("g (float[n] x) => (float[n] z) { z = Gelu(x) }", {},
                         "ir_version: 8, opset_import: [\"\": 17]")),
            "m.onnxtxt: node producing \"z\" (Gelu): opset 17 of ai.onnx has no such op");
}

TEST_F(Import, DamagedFilesAreErrorsOrModelsButNeverCrash) {
  std::ifstream file(FUSEC_SOURCE_DIR "/models/lora_mlp.ts.onnx", std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_TRUE(ImportOnnx(Write("m.onnx", good), {}));
  for (size_t size = 0; size < good.size(); size += 101) {
    EXPECT_FALSE(ImportOnnx(Write("m.onnx", good.substr(0, size)), {})) << size;
  }
  int errors = 0;
  for (size_t at = 0; at < good.size(); at += 23) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (at % 2 == 0 ? 0x01 : 0x80));
    errors += !ImportOnnx(Write("m.onnx", bad), {});
  }
  EXPECT_GT(errors, 10);
}

TEST_F(Import, Provenance) {
  const auto model =
      Load("g (float[n] x) => (float[n] z) { [\"/top/top.0/act/Relu\"] y = Relu(x)\n z = Neg(y) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->nodes[0]->provenance,
            (Provenance{{"/top/top.0/act/Relu", "Relu", "top.0.act", ""}}));
  EXPECT_EQ(model->graph->nodes[1]->provenance, (Provenance{{"z", "Neg", "", ""}}));
}

int CountOf(const Graph& graph, OpKind kind) {
  int count = 0;
  for (const auto& node : graph.nodes) count += node->kind == kind;
  return count;
}

TEST_F(Import, DirectionsWithFunctionsOfTheirOwnAreApart) {
  const auto rnn = [&](const std::string& activations) {
    return Load(
        "g (float[seq, batch, 1] x) => (float[seq, 2, batch, 1] y)\n"
        "<float[2, 1, 1] w = {1, 1}, float[2, 1, 1] r = {0.5, 0.5}> {\n"
        "  y = RNN <hidden_size = 1, direction = \"bidirectional\"" +
        activations + "> (x, w, r) }");
  };
  const auto model =
      rnn(", activations = [\"Relu\", \"Affine\"], activation_alpha = [2.0], "
          "activation_beta = [1.0]");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(CountOf(*model->graph, OpKind::kRecurrence), 2);
  EXPECT_EQ(Answer(*model->graph, {F32({3, 1, 1}, {1, 2, 3})}),
            (std::vector<double>{1, 15, 2.5, 12, 4.25, 7}));
  EXPECT_EQ(CountOf(*(rnn("")->graph), OpKind::kRecurrence), 1);
}

// The graph that torch writes for batch_first: no transposition is left before the recurrence.
TEST_F(Import, RecurrencesTakeTheBatchFirst) {
  const auto model = Load(
      "g (float[batch, seq, 1] x) => (float[batch, seq, 1] y)\n"
      "<float[1, 1, 1] w = {1}, float[1, 1, 1] r = {0.5}, int64[1] one = {1}> {\n"
      "  by_step = Transpose <perm = [1, 0, 2]> (x)\n"
      "  first = RNN <hidden_size = 1, activations = [\"Relu\"]> (by_step, w, r)\n"
      "  between = Squeeze(first, one)\n"
      "  second = RNN <hidden_size = 1, activations = [\"Relu\"]> (between, w, r)\n"
      "  squeezed = Squeeze(second, one)\n"
      "  y = Transpose <perm = [1, 0, 2]> (squeezed) }");
  ASSERT_TRUE(model) << ErrorOf(model);
  for (const auto& node : model->graph->nodes) {
    EXPECT_TRUE(node->kind != OpKind::kRecurrence || node->Int("batch_first") == 1);
  }
  EXPECT_EQ(Answer(*model->graph, {F32({2, 2, 1}, {1, 2, 3, 4})}),
            (std::vector<double>{1, 3, 3, 7}));
}

}  // namespace
}  // namespace fusec
