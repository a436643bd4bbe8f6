#include <cmath>

#include "tests/unit/ops/run_graph.h"
#include "tests/unit/ops/view_harness.h"

namespace fusec {
namespace {

using Numbers = std::vector<double>;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A layer of one unit over the inputs %x of its gates; `more` are the operands after its weights %r.
struct Layer {
  std::string cell = "rnn", gates = "1", steps = "3", batch = "1", directions = "1";
  std::string inputs, more, direction = "forward", activations = "Relu", options;
  int64_t batch_first = 0, linear_before_reset = 0, input_forget = 0;
  double clip = 0;

  std::string Text() const {
    const std::string lead = batch_first ? batch + ", " + steps : steps + ", " + batch;
    const std::string state = ", f32[" + directions + ", " + batch + ", 1]";
    const auto count = std::count(activations.begin(), activations.end(), ' ') + 1;
    const std::string zeros = count == 1 ? "[0.5]" : count == 2 ? "[0.5, 0.5]" : "[0.5, 0.5, 0.5]";
    const std::string columns =
        std::to_string(std::stoi(gates) * std::stoi(directions));
    return "graph @g(%x: f32[" + lead + ", " + columns + "], %r: f32[" + directions + ", 1, " +
           gates + "]" + inputs + ") {\n  %y, %h" + (cell == "lstm" ? ", %c" : "") +
           " = recurrence(%x, %r" + more + ") {activations = \"" + activations +
           "\", alphas = " + zeros + ", batch_first = " + std::to_string(batch_first) +
           ", betas = " + zeros + ", cell = \"" + cell + "\", clip = " + std::to_string(clip) +
           ", direction = \"" + direction + "\", input_forget = " + std::to_string(input_forget) +
           ", linear_before_reset = " + std::to_string(linear_before_reset) + "} : f32[" + lead +
           ", " + directions + "]" + state + (cell == "lstm" ? state : "") +
           "\n  return %y, %h" + (cell == "lstm" ? ", %c" : "") + "\n}\n";
  }
};

TEST(Recurrence, WalksInEachDirection) {
  Layer layer;
  const ReferenceTensor x = Reals({3, 1, 1}, {1, 2, 3}), r = Reals({1, 1, 1}, {0.5});
  auto results = RunText(layer.Text(), {x, r});
  EXPECT_EQ(results[0].reals, (Numbers{1, 2.5, 4.25}));
  EXPECT_EQ(results[1].reals, (Numbers{4.25}));
  layer.direction = "reverse";
  results = RunText(layer.Text(), {x, r});
  EXPECT_EQ(results[0].reals, (Numbers{2.75, 3.5, 3}));
  EXPECT_EQ(results[1].reals, (Numbers{2.75}));
  layer.direction = "bidirectional";
  layer.directions = "2";
  results = RunText(layer.Text(),
                    {Reals({3, 1, 2}, {1, 1, 2, 2, 3, 3}), Reals({2, 1, 1}, {0.5, 0.5})});
  EXPECT_EQ(results[0].reals, (Numbers{1, 2.75, 2.5, 3.5, 4.25, 3}));
  EXPECT_EQ(results[1].reals, (Numbers{4.25, 2.75}));
}

TEST(Recurrence, StopsAtTheEndOfASequence) {
  Layer layer;
  layer.batch = "3";
  layer.inputs = ", %n: i32[3], %h0: f32[1, 3, 1]";
  layer.more = ", _, %n, %h0";
  layer.batch_first = 1;
  const ReferenceTensor x = Reals({3, 3, 1}, {1, 2, 3, 1, 2, 3, 1, 2, 3});
  const ReferenceTensor r = Reals({1, 1, 1}, {0.5}), h = Reals({1, 3, 1}, {8, 8, 8});
  const ReferenceTensor lengths = Integers({3}, {3, 2, 0}, Dtype::kI32);
  auto results = RunText(layer.Text(), {x, r, lengths, h});
  EXPECT_EQ(results[0].reals, (Numbers{5, 4.5, 5.25, 5, 4.5, 0, 0, 0, 0}));
  EXPECT_EQ(results[1].reals, (Numbers{5.25, 4.5, 0}));
  layer.direction = "reverse";
  results = RunText(layer.Text(), {x, r, lengths, h});
  EXPECT_EQ(results[0].reals, (Numbers{3.75, 5.5, 7, 4, 6, 0, 0, 0, 0}));
  EXPECT_EQ(results[1].reals, (Numbers{3.75, 4, 0}));
  const auto wrong = [&](int64_t length) {
    const auto graph = ParseGraph(layer.Text());
    return Interpret(*graph, {x, r, Integers({3}, {3, length, 0}, Dtype::kI32), h})
        .error()
        .message;
  };
  EXPECT_EQ(wrong(4), "node \"%y\": length 4 at [1] of \"n\" is outside 0..3");
  EXPECT_EQ(wrong(-1), "node \"%y\": length -1 at [1] of \"n\" is outside 0..3");
}

TEST(Recurrence, StepsAsOnnxSays) {
  const double h = 0.5, c = -0.25;
  Layer gru{.cell = "gru", .gates = "3", .steps = "1"};
  gru.activations = "Sigmoid Tanh";
  gru.inputs = ", %b: f32[1, 1], %h0: f32[1, 1, 1]";
  gru.more = ", %b, _, %h0";
  gru.linear_before_reset = 1;
  const ReferenceTensor x = Reals({1, 1, 3}, {0.1, 0.2, 0.3}), r = Reals({1, 1, 3}, {1, 2, 3});
  const double z = Sigmoid(0.1 + h), reset = Sigmoid(0.2 + 2 * h);
  const auto blend = [&](double n) { return (1 - z) * n + z * h; };
  ExpectClose(RunText(gru.Text(), {x, r, Reals({1, 1}, {4}), Reals({1, 1, 1}, {h})})[0],
              Reals({1, 1, 1}, {blend(std::tanh(0.3 + reset * (3 * h + 4)))}));
  gru.linear_before_reset = 0;
  gru.inputs = ", %h0: f32[1, 1, 1]";
  gru.more = ", _, _, %h0";
  ExpectClose(RunText(gru.Text(), {x, r, Reals({1, 1, 1}, {h})})[0],
              Reals({1, 1, 1}, {blend(std::tanh(0.3 + 3 * (reset * h)))}));

  Layer lstm{.cell = "lstm", .gates = "4", .steps = "1"};
  lstm.activations = "Sigmoid Tanh Softsign";
  lstm.inputs = ", %h0: f32[1, 1, 1], %c0: f32[1, 1, 1], %p: f32[1, 3]";
  lstm.more = ", _, _, %h0, %c0, %p";
  for (const double clip : {0.0, 0.75}) {
    for (const int64_t input_forget : {0, 1}) {
      lstm.clip = clip;
      lstm.input_forget = input_forget;
      const auto cut = [&](double sum) {
        return clip == 0 ? sum : std::max(-clip, std::min(clip, sum));
      };
      const double i = Sigmoid(cut(0.1 + h + 5 * c));
      const double f = input_forget ? 1 - i : Sigmoid(cut(0.3 + 3 * h + 7 * c));
      const double cell = f * c + i * std::tanh(cut(0.4 + 4 * h));
      const double o = Sigmoid(cut(0.2 + 2 * h + 6 * cell));
      const auto results = RunText(
          lstm.Text(), {Reals({1, 1, 4}, {0.1, 0.2, 0.3, 0.4}), Reals({1, 1, 4}, {1, 2, 3, 4}),
                        Reals({1, 1, 1}, {h}), Reals({1, 1, 1}, {c}), Reals({1, 3}, {5, 6, 7})});
      ExpectClose(results[1], Reals({1, 1, 1}, {o * (cell / (1 + std::abs(cell)))}));
      ExpectClose(results[2], Reals({1, 1, 1}, {cell}));
    }
  }
}

TEST(Recurrence, ActivationsAreThoseOfTheOpsOfTheirNames) {
  Layer layer;
  layer.steps = "1";
  const auto at = [&](const std::string& name, double x) {
    layer.activations = name;
    return RunText(layer.Text(), {Reals({1, 1, 1}, {x}), Reals({1, 1, 1}, {0})})[0].reals[0];
  };
  EXPECT_DOUBLE_EQ(at("Affine", 3), 2);
  EXPECT_DOUBLE_EQ(at("Elu", -1), 0.5 * std::expm1(-1));
  EXPECT_DOUBLE_EQ(at("HardSigmoid", -0.5), 0.25);
  EXPECT_DOUBLE_EQ(at("HardSigmoid", 9), 1);
  EXPECT_DOUBLE_EQ(at("LeakyRelu", -1), -0.5);
  EXPECT_DOUBLE_EQ(at("ScaledTanh", 1), 0.5 * std::tanh(0.5));
  EXPECT_DOUBLE_EQ(at("Softplus", 1), std::log1p(std::exp(1)));
  EXPECT_DOUBLE_EQ(at("Softsign", -3), -0.75);
  EXPECT_DOUBLE_EQ(at("ThresholdedRelu", 0.5), 0);
  EXPECT_DOUBLE_EQ(at("ThresholdedRelu", 0.75), 0.75);
}

TEST(Recurrence, SaysWhatDoesNotFit) {
  const auto error = [](auto change) {
    Layer layer;
    change(layer);
    const std::string message = ErrorOfText(layer.Text());
    return message.substr(message.find(": ", message.find("recurrence")) + 2);
  };
  EXPECT_NE(ErrorOfText(Layer().Text()).find("no error"), std::string::npos);
  EXPECT_NE(error([](Layer& l) { l.activations = "Cosine"; }).find("\"Cosine\" is none of Affine"),
            std::string::npos);
  EXPECT_NE(error([](Layer& l) { l.activations = "Tanh Tanh"; }).find("activations"),
            std::string::npos);
  EXPECT_NE(error([](Layer& l) {
              l.inputs = ", %b: f32[1, 1]";
              l.more = ", %b";
            }).find("only linear_before_reset has"),
            std::string::npos);
  EXPECT_NE(error([](Layer& l) {
              l.inputs = ", %n: i64[1]";
              l.more = ", _, %n";
            }).find("the lengths are i64[1], expected i32[1]"),
            std::string::npos);
  EXPECT_NE(error([](Layer& l) {
              l.inputs = ", %c0: f32[1, 1, 1]";
              l.more = ", _, _, _, %c0";
            }).find("which only an LSTM has"),
            std::string::npos);
}

}  // namespace
}  // namespace fusec
