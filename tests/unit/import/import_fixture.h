#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/reference/interpreter.h"

namespace fusec {

// Imports models that a test writes in ONNX's text syntax.
class Import : public testing::Test {
 protected:
  Import() : folder_(testing::TempDir() + "fusec_import_test/") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Import() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + name, std::ios::binary) << bytes;
    return folder_ + name;
  }

  // A model with one graph in ONNX's text syntax.
  Result<ImportedModel> Load(const std::string& graph, const ImportOptions& options = {},
                             const std::string& header = "ir_version: 10, opset_import: [\"\": 20]",
                             const std::string& functions = "") const {
    return ImportOnnx(Write("m.onnxtxt", "<" + header + ">\n" + graph + functions), options);
  }

  // The error's message without the temporary folder.
  std::string ErrorOf(const Result<ImportedModel>& model) const {
    if (model) return "no error:\n" + Print(*model->graph);
    std::string message = model.error().message;
    for (size_t at; (at = message.find(folder_)) != std::string::npos;) {
      message.erase(at, folder_.size());
    }
    return message;
  }

  std::string folder_;
};

inline std::vector<double> Answer(const Graph& graph, ArrayRef<ReferenceTensor> inputs) {
  const auto outputs = Interpret(graph, inputs);
  if (!outputs) return {};
  std::vector<double> values;
  for (int64_t i = 0; i < outputs->front().element_count(); ++i) {
    values.push_back(outputs->front().Real(i));
  }
  return values;
}

inline ReferenceTensor F32(std::vector<int64_t> dims, ArrayRef<double> values) {
  return ReferenceTensor::FromData(TensorData::From(Dtype::kF32, std::move(dims), values.vec()));
}
inline ReferenceTensor I64(std::vector<int64_t> dims, ArrayRef<int64_t> values) {
  return ReferenceTensor::FromData(TensorData::From(Dtype::kI64, std::move(dims), values.vec()));
}

}  // namespace fusec
