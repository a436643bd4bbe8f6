// Which tensor of a checkpoint replaces an initializer: by name, behind the name of a wrapper
// module, and by the values that the model was exported with.
#include "compiler/import/weight_match.h"

#include <gtest/gtest.h>

namespace fusec {
namespace {

using Tensors = std::map<std::string, TensorData>;

TensorData Matrix(std::vector<int64_t> dims, std::vector<float> values, Dtype dtype = Dtype::kF32) {
  return TensorData::From(dtype, std::move(dims), std::move(values));
}

// Matches the tensors of a checkpoint with the initializers of a model.
struct Matched {
  Matched(const Tensors& model, const Tensors& fresh, const Tensors& exported_with = {}) {
    ImportOptions options;
    options.weights = fresh;
    options.exported_with = exported_with;
    std::vector<std::string> names;
    for (const auto& [name, data] : model) names.push_back(name);
    WeightMatch match(options, names);
    for (const auto& [name, data] : model) {
      Result<TensorData> found = match.Replacement(name, data);
      if (found)
        replaced[name] = *found;
      else
        error = name + ": " + found.error().message;
    }
    const auto ignored = match.Finish();
    if (ignored)
      warnings = *ignored;
    else if (error.empty())
      error = ignored.error().message;
  }

  std::vector<double> Values(const std::string& name) const {
    const TensorData& data = replaced.at(name);
    std::vector<double> values;
    for (int64_t i = 0; i < data.element_count(); ++i) values.push_back(data.GetDouble(i));
    return values;
  }

  Tensors replaced;
  std::vector<std::string> warnings;
  std::string error;
};

using Values = std::vector<double>;

const TensorData kOld = Matrix({2, 3}, {1, 2, 3, 4, 5, 6});
const TensorData kTransposed = Matrix({3, 2}, {1, 4, 2, 5, 3, 6});
const TensorData kNew = Matrix({2, 3}, {10, 20, 30, 40, 50, 60});

TEST(WeightMatch, NamesOfAWrapperModule) {
  const Matched by_model({{"m.net.w", kOld}, {"k", kOld}}, {{"net.w", kNew}});
  EXPECT_EQ(by_model.error, "");
  EXPECT_EQ(by_model.Values("m.net.w"), (Values{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(by_model.Values("k"), (Values{1, 2, 3, 4, 5, 6}));
  const Matched by_file({{"net.w", kOld}}, {{"module.net.w", kNew}});
  EXPECT_EQ(by_file.Values("net.w"), (Values{10, 20, 30, 40, 50, 60}));
}

TEST(WeightMatch, ATransposedTensorIsFoundByItsValues) {
  const Tensors model = {{"val_3", kTransposed}, {"b", Matrix({2}, {1, 2})}};
  const Tensors fresh = {{"w", kNew}, {"b", Matrix({2}, {3, 4})}};
  const Matched known(model, fresh, {{"w", kOld}, {"b", Matrix({2}, {1, 2})}});
  EXPECT_EQ(known.error, "");
  EXPECT_EQ(known.Values("val_3"), (Values{10, 40, 20, 50, 30, 60}));
  EXPECT_EQ(known.Values("b"), (Values{3, 4}));
  EXPECT_EQ(Matched(model, fresh).error,
            "no initializer has the name of the new tensor \"w\", but \"val_3\" has its shape: "
            "exporters rename tensors that they transpose or share; give the weights that the "
            "model was exported with as --exported-with FILE.safetensors, to find tensors by their "
            "values");
}

TEST(WeightMatch, ARoundedTensorIsFoundByItsValues) {
  const TensorData old = Matrix({2}, {1.0001f, 3}), half = Matrix({2}, {1.0001f, 3}, Dtype::kF16);
  const Matched found({{"val", half}}, {{"w", Matrix({2}, {2.0001f, 5})}}, {{"w", old}});
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(found.replaced.at("val").dtype(), Dtype::kF16);
  EXPECT_EQ(found.Values("val"), (Values{2, 5}));
  const Matched named({{"w", half}}, {{"w", Matrix({2}, {2.0001f, 5})}}, {{"w", old}});
  EXPECT_EQ(named.Values("w"), (Values{2, 5}));
}

TEST(WeightMatch, TensorsOfEqualValues) {
  const TensorData zeros = Matrix({2}, {0, 0}), ones = Matrix({2}, {1, 1});
  const Tensors old = {{"a", zeros}, {"b", zeros}};
  EXPECT_EQ(Matched({{"val", zeros}}, {{"a", ones}, {"b", ones}}, old).Values("val"),
            (Values{1, 1}));
  const Tensors different = {{"a", ones}, {"b", zeros}};
  EXPECT_EQ(Matched({{"val", zeros}}, different, old).error,
            "val: \"a\" and \"b\" had the same values, and have different ones now; give the model "
            "of the new weights as --weights MODEL.onnx");
  // The exporter kept one of the names.
  const Matched kept({{"b", zeros}, {"val", Matrix({2}, {7, 8})}}, {{"a", ones}, {"b", ones}}, old);
  EXPECT_EQ(kept.error, "");
  EXPECT_EQ(kept.Values("b"), (Values{1, 1}));
  EXPECT_TRUE(kept.warnings.empty());
  EXPECT_EQ(Matched({{"b", zeros}}, different, old).error,
            "initializer \"b\" holds both \"b\" and \"a\", which had the same values and have "
            "different ones now; give the model of the new weights as --weights MODEL.onnx");
}

TEST(WeightMatch, ASymmetricMatrix) {
  const TensorData old = Matrix({2, 2}, {1, 0, 0, 1});
  const TensorData symmetric = Matrix({2, 2}, {2, 5, 5, 2}), other = Matrix({2, 2}, {2, 5, 6, 2});
  EXPECT_EQ(Matched({{"val", old}}, {{"w", symmetric}}, {{"w", old}}).Values("val"),
            (Values{2, 5, 5, 2}));
  EXPECT_EQ(Matched({{"val", old}}, {{"w", other}}, {{"w", old}}).error,
            "val: \"w\" was symmetric, and is no longer; give the model of the new weights as "
            "--weights MODEL.onnx");
  EXPECT_EQ(Matched({{"w", old}}, {{"w", other}}, {{"w", old}}).Values("w"), (Values{2, 5, 6, 2}));
}

TEST(WeightMatch, ValuesThatTheExporterComputed) {
  const Matched scaled({{"val", Matrix({2, 3}, {2, 4, 6, 8, 10, 12})}, {"b", Matrix({2}, {1, 2})}},
                       {{"w", kNew}, {"b", Matrix({2}, {3, 4})}},
                       {{"w", kOld}, {"b", Matrix({2}, {1, 2})}});
  EXPECT_EQ(scaled.error,
            "no initializer has the values of \"w\" that the model was exported with, and \"val\", "
            "which has its shape, may have been computed from them; give the model of the new "
            "weights as --weights MODEL.onnx");
}

TEST(WeightMatch, OldWeightsOfAnotherModel) {
  EXPECT_EQ(Matched({{"w", kOld}}, {{"w", kNew}}, {{"w", kNew}}).error,
            "w: the model was not exported with the given weights: \"w\" has other values there");
}

TEST(WeightMatch, TensorsOfLayersThatWereNotExported) {
  const TensorData vector = Matrix({4}, {1, 2, 3, 4});
  const Matched matched({{"w", kOld}}, {{"w", kNew}, {"head", vector}});
  EXPECT_EQ(matched.error, "");
  EXPECT_EQ(matched.warnings, std::vector<std::string>{
                                  "ignored 1 new tensor that the model does not have: \"head\""});
  // It is known to be elsewhere although an initializer has its shape.
  const Matched known({{"w", kOld}}, {{"w", kNew}, {"head", kOld}}, {{"w", kOld}, {"head", kNew}});
  EXPECT_EQ(known.error, "");
  EXPECT_EQ(known.warnings.size(), 1u);
  // It has not changed.
  EXPECT_TRUE(
      Matched({{"w", kOld}}, {{"w", kNew}, {"head", vector}}, {{"w", kOld}, {"head", vector}})
          .warnings.empty());
}

}  // namespace
}  // namespace fusec
