#include "tests/property/emulated_products.h"

#include "passes/pass_manager.h"
#include "tests/property/random_graph.h"

namespace fusec {
namespace {

constexpr int64_t kDepth = 328, kColumns = 136;
constexpr int64_t kManyColumns = 520;  // columns for which rounding to fp8 pays
constexpr int kCopies = 14;  // tiles of each kind

std::unique_ptr<Graph> Product(Dtype dtype, int64_t columns) {
  auto graph = std::make_unique<Graph>();
  graph->name = "product";
  graph->symbols = {{"batch", 1, 4096}};
  Builder builder(*graph);
  Value* x = graph->AddInput("x", {dtype, {Expr::Symbol("batch"), kDepth}});
  TensorData weights(dtype, {kDepth, columns});
  for (int64_t i = 0; i < kDepth * columns; ++i)
    weights.SetDouble(i, static_cast<double>(i * 2654435761u % 1024) / 512 - 1 + 1e-3);
  TensorData bias(dtype, {columns});
  for (int64_t i = 0; i < columns; ++i) bias.SetDouble(i, static_cast<double>(i) / 16);
  Value* y = builder.Make(OpKind::kMatMul, {x, builder.Constant(std::move(weights), "weights")},
                          {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
  y = builder.Make(OpKind::kAdd, {y, builder.Constant(std::move(bias), "bias")});
  graph->outputs = {builder.Make(OpKind::kRelu, {y}, {}, "y")};
  return graph;
}

}  // namespace

Result<std::unique_ptr<EmulatedProducts>> EmulatedProducts::Make(Tiles tiles, Dtype dtype, const std::string& precision) {
  std::unique_ptr<EmulatedProducts> made(new EmulatedProducts);
  const bool is_float8 = precision == "fp8";
  made->graph_ = Product(dtype, is_float8 ? kManyColumns : kColumns);
  if (is_float8) {  // the reference rounds as well
    PassManager manager;
    manager.options.matmul_precision = precision;
    const std::vector<std::string> passes = {"transpose-weights", "fold-constants", "float8-products", "fold-constants"};
    FUSEC_TRY(manager.Run(*made->graph_, passes));
    const std::vector<Float8Product>& products = manager.report().float8_products;
    if (products.size() != 1 || !products[0].kept.empty()) return Fail(ErrorKind::kInput, "the product is not in fp8");
  }
  made->graphs_.assign(kCopies, made->graph_.get());
  made->relative_ = dtype == Dtype::kF32 && !is_float8 ? (precision == "highest" ? 2e-6 : 1e-3) : 4e-3;
  const size_t first = tiles == Tiles::kOfWarps ? 0 : kCopies;
  FUSEC_ASSIGN(made->compiled_, CompiledGraphs::Make(made->graphs_, RunOn::kEmulatedGpu, {}, precision, first));
  return made;
}

std::string EmulatedProducts::Wrong(int64_t rows) const {
  const auto inputs = RandomInputs(*graph_, 3, {{"batch", rows}});
  const auto expected = Interpret(*graph_, inputs);
  const auto rounded = InterpretRounded(*graph_, inputs);
  if (!expected || !rounded) return "the reference fails";
  const auto found = compiled_->Run(std::vector(kCopies, inputs));
  if (!found) return found.error().message;
  for (const auto& answers : *found) {
    if (std::string wrong = FirstWrong(*expected, *rounded, answers, relative_); !wrong.empty())
      return wrong + " for " + std::to_string(rows) + " rows";
  }
  return "";
}

}  // namespace fusec
