#include <fusec/fusec.h>

#include <cstring>

#include "compiler/driver/build/compile.h"
#include "tests/conformance/backend.h"

namespace fusec {
namespace {

// fusec_dtype and Dtype list the same types in the same order.
static_assert(static_cast<int>(Dtype::kBool) == FUSEC_BOOL &&
              static_cast<int>(Dtype::kI64) == FUSEC_I64);

Result<void> Check(fusec_status status) {
  if (status == FUSEC_OK) return {};
  return Fail(static_cast<ErrorKind>(status), fusec_last_error());
}

class CompiledBackend : public Backend {
 public:
  ~CompiledBackend() override {
    if (context_ != nullptr) fusec_destroy_context(context_);
    if (program_ != nullptr) fusec_unload(program_);
  }

  Result<void> Load(const std::string& folder, const std::string& device) {
    FUSEC_TRY(Check(fusec_load(folder.c_str(), device.c_str(), &program_)));
    return Check(fusec_create_context(program_, &context_));
  }

  Result<std::vector<TensorData>> Run(const std::vector<TensorData>& inputs) override {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorData& input = inputs[i];
      FUSEC_TRY(Check(fusec_bind_input(context_, static_cast<int>(i), input.bytes(),
                                       input.dims().data(), static_cast<int>(input.dims().size()),
                                       /*on_device=*/0)));
    }
    FUSEC_TRY(Check(fusec_run(context_)));
    std::vector<TensorData> outputs;
    for (int i = 0; i < fusec_output_count(program_); ++i) {
      FUSEC_ASSIGN(TensorData output, Output(i));
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

 private:
  Result<TensorData> Output(int i) {
    fusec_tensor_info info;
    FUSEC_TRY(Check(fusec_output_info(program_, i, &info)));
    std::vector<int64_t> dims(info.rank);
    FUSEC_TRY(Check(fusec_output_dims(context_, i, dims.data())));
    TensorData output(static_cast<Dtype>(info.dtype), std::move(dims));
    size_t bytes = 0;
    const void* data = fusec_get_output(context_, i, &bytes);
    if (bytes != output.byte_count()) {
      return Fail(ErrorKind::kArtifact, "output " + std::to_string(i) + " has " +
                                            std::to_string(bytes) + " bytes, expected " +
                                            std::to_string(output.byte_count()));
    }
    if (bytes != 0) std::memcpy(output.mutable_bytes(), data, bytes);
    return output;
  }

  fusec_program* program_ = nullptr;
  fusec_context* context_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Backend>> OpenCompiled(const std::string& model_path,
                                              const FrozenInputs& frozen,
                                              const std::string& folder,
                                              const std::string& device) {
  CompileOptions options;
  options.model_path = model_path;
  options.output_path = folder;
  options.targets = {device == "cpu" ? "cpu" : "sm_90a"};
  options.frozen_inputs = frozen;
  options.cpu_level = "native";
  FUSEC_TRY(CompileModel(options));
  auto backend = std::make_unique<CompiledBackend>();
  FUSEC_TRY(backend->Load(folder, device));
  return backend;
}

}  // namespace fusec
