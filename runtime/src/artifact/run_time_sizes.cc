#include "runtime/src/artifact/run_time_sizes.h"

namespace fusec::runtime {

StatusOr<std::vector<int>> ReadSizeNumbers(const JsonValue& output) {
  if (!output.Has("sizes")) return std::vector<int>();
  return ReadList(output, "sizes", [](const JsonValue& item) -> StatusOr<int> {
    FUSEC_RT_ASSIGN(const int64_t number, item.AsInt(-1, INT32_MAX));
    return static_cast<int>(number);
  });
}

Status CheckRunTimeSizes(const Manifest& manifest, const std::string& where) {
  int count = 0;
  if (manifest.has_run_time_sizes) {
    const TensorSignature& vector = manifest.outputs.back();
    const bool is_vector = vector.dtype == FUSEC_I64 && vector.shape.size() == 1 &&
                           vector.shape[0].IsConstant() && vector.sizes.empty();
    if (is_vector) {
      FUSEC_RT_ASSIGN(const int64_t elements, vector.shape[0].Evaluate({}));
      count = static_cast<int>(elements);
    }
    if (count < 1) {
      return Fail(FUSEC_BAD_ARTIFACT, where, "run_time_sizes is no i64 vector of a fixed length");
    }
  }
  for (const auto* tensors : {&manifest.inputs, &manifest.outputs}) {
    for (const TensorSignature& tensor : *tensors) {
      if (tensor.sizes.empty()) continue;
      bool is_good = tensors == &manifest.outputs && tensor.sizes.size() == tensor.shape.size();
      for (const int number : tensor.sizes) is_good = is_good && number < count;
      if (is_good) continue;
      return Fail(FUSEC_BAD_ARTIFACT, where, "sizes of \"", tensor.name,
                  "\" do not name one of the ", count, " run-time sizes for each axis");
    }
  }
  return {};
}

StatusOr<std::vector<int64_t>> TrueDims(const TensorSignature& output,
                                        std::span<const int64_t> bounds, const int64_t* sizes) {
  std::vector<int64_t> dims(bounds.begin(), bounds.end());
  for (size_t axis = 0; axis < output.sizes.size(); ++axis) {
    if (output.sizes[axis] < 0) continue;
    const int64_t size = sizes[output.sizes[axis]];
    if (size < 0 || size > dims[axis]) {
      return Fail(FUSEC_BAD_INPUT, "axis ", axis, " of output \"", output.name,
                  "\" gets a size of ", size, " from the data, expected 0 to ", dims[axis]);
    }
    dims[axis] = size;
  }
  return dims;
}

}  // namespace fusec::runtime
