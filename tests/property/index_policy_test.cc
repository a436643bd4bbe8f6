// Compares --index-policy for out-of-range indices with indices that this test brings into range itself: in the interpreter, on the CPU,
// and with GPU kernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "compiler/driver/build/pipeline.h"
#include "passes/pass_manager.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

constexpr int64_t kBatch = 7;

// `op` reads x, ids and updates; `x` gives its dims, of which e and f are the indexed axes.
struct IndexCase {
  const char *op, *x, *ids, *updates, *result;
  const char* dtype = "f32";
  const char* index_dtype = "i64";
};
constexpr IndexCase kCases[] = {
    {"gather(%x, %ids) {axis = 0}", "e, 3", "batch, 2", "", "batch, 2, 3"},
    {"gather(%x, %ids) {axis = 1}", "2, e, 3", "batch", "", "2, batch, 3", "f32", "i32"},
    {"gather(%x, %ids) {axis = 0}", "e", "", "", "", "bool"},
    {"gather(%x, %ids) {axis = 1}", "2, e", "batch", "", "2, batch", "i64"},
    {"gather_elements(%x, %ids) {axis = 1}", "4, e", "4, 5", "", "4, 5"},
    {"gather_nd(%x, %ids) {batch_dims = 0}", "e, f, 2", "batch, 2", "", "batch, 2"},
    {"gather_nd(%x, %ids) {batch_dims = 0}", "e, f", "batch, 3, 2", "", "batch, 3"},
    {"gather_nd(%x, %ids) {batch_dims = 1}", "3, e, 2", "3, 4, 1", "", "3, 4, 2"},
    {"scatter_elements(%x, %ids, %updates) {axis = 0, reduction = \"none\"}", "e, 3", "4, 3", "4, 3", "e, 3"},
    {"scatter_elements(%x, %ids, %updates) {axis = 1, reduction = \"add\"}", "2, e", "2, 6", "2, 6", "2, e"},
    {"scatter_nd(%x, %ids, %updates) {reduction = \"add\"}", "e, f", "batch, 2", "batch", "e, f"},
    {"scatter_nd(%x, %ids, %updates) {reduction = \"none\"}", "e, 3", "5, 1", "5, 3", "e, 3"},
};

struct Extents {
  int64_t e = 5, f = 4;
};

std::string Dims(std::string dims, Extents extents, bool symbolic) {
  const auto replace = [&](const char* letter, int64_t extent) {
    for (size_t i = 0; i < dims.size(); ++i) {
      const bool alone = dims[i] == letter[0] && (i + 1 == dims.size() || dims[i + 1] == ',') && (i == 0 || dims[i - 1] == ' ');
      if (alone) dims.replace(i, 1, symbolic && letter[0] == 'e' ? "rows" : std::to_string(extent));
    }
  };
  replace("e", extents.e);
  replace("f", extents.f);
  return dims;
}

std::unique_ptr<Graph> MakeGraph(const IndexCase& c, Extents extents, bool symbolic) {
  const auto dims = [&](const char* text) { return Dims(text, extents, symbolic); };
  std::string inputs = fmt::format("%x: {}[{}], %ids: {}[{}]", c.dtype, dims(c.x), c.index_dtype, c.ids);
  if (*c.updates) inputs += fmt::format(", %updates: {}[{}]", c.dtype, c.updates);
  std::string symbols;
  for (const char* symbol : {"rows", "batch"}) {  // those that inputs tell
    if (inputs.find(symbol) == std::string::npos) continue;
    symbols += fmt::format("{}{} in 0..64", symbols.empty() ? " symbols(" : ", ", symbol);
  }
  if (!symbols.empty()) symbols += ")";
  const std::string text = fmt::format("graph @g({}){} {{\n  %y = {} : {}[{}]\n  return %y\n}}\n", inputs, symbols, c.op,
                                       c.dtype, dims(c.result));
  auto graph = Parse(text);
  EXPECT_TRUE(graph.has_value()) << text << graph.error().message;
  EXPECT_TRUE(Verify(**graph).has_value()) << text;
  return *std::move(graph);
}

std::vector<int64_t> Concrete(ShapeRef shape, Extents extents) {
  std::vector<int64_t> dims;
  for (const Expr& dim : shape) {
    const auto constant = dim.AsConstant();
    dims.push_back(constant ? *constant : dim.ToString() == "batch" ? kBatch : extents.e);
  }
  return dims;
}

ReferenceTensor Numbers(const Value& value, Extents extents, std::mt19937& random) {
  ReferenceTensor tensor(value.type.dtype, Concrete(value.type.shape, extents));
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    const int64_t number = value.type.dtype == Dtype::kBool ? 1 : static_cast<int64_t>(random() % 1000) + 1;
    if (IsFloat(tensor.dtype)) tensor.reals[i] = static_cast<double>(number);
    else tensor.ints[i] = number;
  }
  return tensor;
}

// Indices around the limits of the axis, and as far away as the dtype allows.
ReferenceTensor Indices(const Value& value, Extents extents, std::mt19937& random) {
  ReferenceTensor tensor(value.type.dtype, Concrete(value.type.shape, extents));
  const bool narrow = value.type.dtype == Dtype::kI32;
  for (int64_t& index : tensor.ints) {
    index = static_cast<int64_t>(random() % (5 * extents.e)) - 2 * extents.e;
    const auto far = random() % 8;
    if (far == 0) index = narrow ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
    if (far == 1) index = narrow ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max();
  }
  return tensor;
}

int64_t Inside(int64_t index, int64_t extent, const std::string& policy) {
  if (index >= -extent && index < extent) return index < 0 ? index + extent : index;
  if (policy == "clamp") return index < 0 ? 0 : extent - 1;
  if (policy == "wrap") return (index % extent + extent) % extent;
  return extent;  // the additional element of zeros
}

// x with zeros after the end of the indexed axes.
ReferenceTensor Padded(const ReferenceTensor& x, const Value& wider) {
  ReferenceTensor result(x.dtype, Concrete(wider.type.shape, {}));
  ForEachIndex(x.dims, [&](ArrayRef<int64_t> index) {
    const int64_t from = x.Position(index), to = result.Position(index);
    if (IsFloat(x.dtype)) result.reals[to] = x.reals[from];
    else result.ints[to] = x.ints[from];
  });
  return result;
}
ReferenceTensor Cropped(const ReferenceTensor& wide, ArrayRef<int64_t> dims) {
  ReferenceTensor result(wide.dtype, dims);
  ForEachIndex(dims, [&](ArrayRef<int64_t> index) {
    const int64_t from = wide.Position(index), to = result.Position(index);
    if (IsFloat(wide.dtype)) result.reals[to] = wide.reals[from];
    else result.ints[to] = wide.ints[from];
  });
  return result;
}

ReferenceTensor Expected(const IndexCase& c, ArrayRef<ReferenceTensor> inputs, const Graph& graph,
                         const std::string& policy) {
  const Extents extents;
  const auto wide = MakeGraph(c, {extents.e + 1, extents.f + 1}, false);
  std::vector<ReferenceTensor> wide_inputs = inputs;
  wide_inputs[0] = Padded(inputs[0], *wide->inputs[0]);
  std::vector<int64_t>& ids = wide_inputs[1].ints;
  const bool tuples = std::string(c.op).find("_nd") != std::string::npos;
  const auto coordinates = tuples ? static_cast<size_t>(wide_inputs[1].dims.back()) : 1;
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = Inside(ids[i], i % coordinates == 1 ? extents.f : extents.e, policy);
  const auto answer = Interpret(*wide, wide_inputs);
  EXPECT_TRUE(answer.has_value()) << answer.error().message;
  return Cropped((*answer)[0], Concrete(graph.outputs[0]->type.shape, extents));
}

class IndexPolicy : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const IndexCase& c : kCases) {
      for (const bool symbolic : {false, true}) {
        graphs_.push_back(MakeGraph(c, {}, symbolic));
        PassManager manager;
        manager.options.index_policy = GetParam();
        ASSERT_TRUE(manager.Run(*graphs_.back(), {"index-policy"}).has_value());
      }
    }
  }

  // Inputs of every graph, and what they must give.
  void Draw(uint64_t seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    inputs_.clear(), expected_.clear();
    for (size_t i = 0; i < graphs_.size(); ++i) {
      const Graph& graph = *graphs_[i];
      inputs_.push_back({Numbers(*graph.inputs[0], {}, random), Indices(*graph.inputs[1], {}, random)});
      if (graph.inputs.size() > 2) inputs_.back().push_back(Numbers(*graph.inputs[2], {}, random));
      expected_.push_back({Expected(kCases[i / 2], inputs_.back(), graph, GetParam())});
    }
  }

  void ExpectCompiled(RunOn where) {
    std::vector<const Graph*> graphs;
    for (const auto& graph : graphs_) graphs.push_back(graph.get());
    const auto compiled = CompiledGraphs::Make(graphs, where);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    for (const uint64_t seed : SeedsToRun(10)) {
      Draw(seed);
      const auto found = (*compiled)->Run(inputs_);
      ASSERT_TRUE(found.has_value()) << "seed " << seed << ": " << found.error().message;
      for (size_t i = 0; i < graphs_.size(); ++i) {
        const NowTrying trying(seed, *graphs_[i]);
        EXPECT_EQ(FirstWrong(expected_[i], expected_[i], (*found)[i], 0), "");
      }
    }
  }

  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<std::vector<ReferenceTensor>> inputs_, expected_;
};

TEST_P(IndexPolicy, IsObeyedByTheInterpreter) {
  for (const uint64_t seed : SeedsToRun(50)) {
    Draw(seed);
    for (size_t i = 0; i < graphs_.size(); ++i) {
      const NowTrying trying(seed, *graphs_[i]);
      const auto found = Interpret(*graphs_[i], inputs_[i]);
      ASSERT_TRUE(found.has_value()) << found.error().message;
      EXPECT_EQ(FirstWrong(expected_[i], expected_[i], *found, 0), "");
    }
  }
}
TEST_P(IndexPolicy, IsObeyedOnTheCpu) { ExpectCompiled(RunOn::kCpu); }
TEST_P(IndexPolicy, IsObeyedByKernelsForAGpu) { ExpectCompiled(GpuOrItsText()); }

INSTANTIATE_TEST_SUITE_P(Of, IndexPolicy, testing::Values("clamp", "wrap", "zero"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace fusec
