// Search in a list that is known at compile time.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/define_op.h"
#include "compiler/ops/view_support.h"

namespace fusec {

// result[i..] = values[j] as i64 for the j with keys[j] == key[i..]; `absent` if there is no such
// j. The keys ascend without duplicates. The pass recognize-lookup creates it.
struct LookupOp {
  static constexpr AttributeSpec kAttributes[] = {{"absent", "int"}};
  static InferResult Infer(const InferContext& context) {
    const TensorType& keys = context.operand(0);
    const TensorType& key = context.operand(1);
    const TensorType& values = context.operand(2);
    if (keys.rank() != 1 || values.rank() != 1 || keys.shape != values.shape ||
        !IsInteger(values.dtype)) {
      return ModelError(fmt::format("keys are {} and values {}, expected equally many integers",
                                    keys.ToString(), values.ToString()));
    }
    if (!IsInteger(keys.dtype) || keys.dtype != key.dtype) {
      return ModelError(
          fmt::format("{} is looked up in keys that are {}, expected the same integers",
                      key.ToString(), keys.ToString()));
    }
    return std::vector<TensorType>{{Dtype::kI64, key.shape}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const std::vector<int64_t>& keys = context.input(0).ints;
    ReferenceTensor& output = context.output();
    for (int64_t i = 0; i < output.element_count(); ++i) {
      const int64_t key = context.input(1).ints[i];
      const auto found = std::find(keys.begin(), keys.end(), key);
      output.ints[i] = found == keys.end() ? context.node.Int("absent")
                                           : context.input(2).ints[found - keys.begin()];
    }
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    context.Use("lookup.cuh");
    const Scalar key = context.Load(1, context.index());
    const Scalar count =
        context.DataFromIndex(context.node().operand(0)->type.shape[0], Dtype::kI64);
    return context.Let(
        fmt::format("Lookup({}, {}, {}, {}, {}LL)", context.Array(0), context.Array(2),
                    count.text(), key.text(), context.node().Int("absent")),
        Dtype::kI64);
  }
};
FUSEC_DEFINE_OP(Lookup)

}  // namespace fusec
