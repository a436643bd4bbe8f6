// constant and region. Their types come from the payload and the body, which Infer does not see.
#include "compiler/import/import_context.h"
#include "compiler/ir/host_table.h"
#include "compiler/ir/region_class.h"
#include "compiler/ops/define_op.h"

namespace fusec {
namespace {

// The value of an ONNX Constant node, from whichever attribute holds it.
Result<TensorData> ConstantValue(const ImportContext& context) {
  if (context.Has("value")) {
    std::optional<TensorData> value = context.Tensor("value");
    if (!value) return context.Fail("the element type of its value is not supported");
    return *std::move(value);
  }
  if (context.Has("value_float")) {
    return TensorData::From<double>(Dtype::kF32, {}, {context.Float("value_float", 0)});
  }
  if (context.Has("value_int")) {
    return TensorData::From<int64_t>(Dtype::kI64, {}, {context.Int("value_int", 0)});
  }
  if (context.Has("value_floats")) {
    const std::vector<double> values = context.Floats("value_floats");
    return TensorData::From(Dtype::kF32, {static_cast<int64_t>(values.size())}, values);
  }
  if (context.Has("value_ints")) {
    const std::vector<int64_t> values = context.Ints("value_ints");
    return TensorData::From(Dtype::kI64, {static_cast<int64_t>(values.size())}, values);
  }
  return context.Fail(
      "its value is a string or a sparse tensor, expected a dense tensor of numbers");
}

struct ConstantOp {
  static constexpr AttributeSpec kAttributes[] = {{kUpdatable, "text", true},
                                                  {kHostTable, "text", true},
                                                  {kCachedTable, "text", true},
                                                  {kCachedRows, "int", true}};
  static Result<void> Import(ImportContext& context) {
    FUSEC_ASSIGN(TensorData value, ConstantValue(context));
    context.SetOutput(0, context.builder().Constant(std::move(value)));
    return {};
  }
  static InferResult Infer(const InferContext&) {
    return ModelError("the type of a constant comes from its payload");
  }
};

struct RegionOp {
  static constexpr AttributeSpec kAttributes[] = {{"class", kRegionClassWords},
                                                  {"rows", "dims", true},   // of a block program
                                                  {"dense", "int", true}};  // of a product
  static InferResult Infer(const InferContext&) {
    return ModelError("the types of a region's results come from its body");
  }
};

}  // namespace

FUSEC_DEFINE_OP(Constant)
FUSEC_DEFINE_OP(Region)

}  // namespace fusec
