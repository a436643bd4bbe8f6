// Loops and scans whose steps are recurrent cells (loop_recurrence.h).
#include <cmath>

#include "passes/graph_edit.h"
#include "tests/unit/import/import_fixture.h"

namespace fusec {
namespace {

constexpr int64_t kSteps = 3, kBatch = 2, kUnits = 2;

// A scan over x [3, 2, 6] (and keep [3, 2, 1]), whose step computes `t` (and `d`) from the state `h` (and `c`) and shows `y`.
struct Cell {
  std::string name, body;
  bool has_cell = false, has_mask = false, is_reverse = false;
  double error = 1e-12;
  int recurrences = 1;

  // With `disguise`, the scan carries another value as well, so that it is unrolled.
  std::string Text(bool disguise) const {
    const std::string state = "float[2, 2]";
    const auto with = [&](bool given, const std::string& text) { return given ? text : std::string(); };
    const std::string carried = with(has_cell, ", " + state + " c") + with(disguise, ", float[4] more");
    return std::string("g (float[3, 2, 6] x, float[2, 6] r, float[2] b, bool[3, 2, 1] keep) => (float[3, 2, 2] all, ") +
           "float[2, 2] last" + with(has_cell, ", float[2, 2] last_c") +
           ")\n<float[2, 2] zeros = {0, 0, 0, 0}, float[4] ones = {1, 1, 1, 1}, float one = {1}, " +
           "int64[3] three = {2, 2, 2}, int64[1] from = {1}, int64[1] to = {3}, float zero = {0}, " +
           "int64[1] end_row = {-1}, int64[1] before = {-9}, int64[1] axis = {0}, int64[1] step = {-1}, " +
           "int64[1] first_column = {0}, int64[1] second_column = {1}, " +
           "float six = {6}, float sixth = {0.16666667}, float three_halves = {1.5}> {\n" +
           "  last" + with(has_cell, ", last_c") + with(disguise, ", end") + ", all = Scan(zeros" + with(has_cell, ", zeros") +
           with(disguise, ", ones") + ", x" + with(has_mask, ", keep") + ") <num_scan_inputs = " + (has_mask ? "2" : "1") +
           with(is_reverse, has_mask ? ", scan_input_directions = [1, 1]" : ", scan_input_directions = [1]") +
           ", body = step (" + state + " h" + carried + ", float[2, 6] e" + with(has_mask, ", bool[2, 1] goes_on") + ") => (" + state +
           " t" + with(has_cell, ", " + state + " d") + with(disguise, ", float[4] much") + ", " + state + " y) {\n" + body +
           with(disguise, "  much = Mul(more, more)\n") + "  }>\n}";
  }
};

class RecurrentLoops : public Import {
 protected:
  static std::vector<ReferenceTensor> Inputs(int64_t with_mask) {
    const auto numbers = [](int64_t count, int64_t salt) {
      std::vector<double> values;
      for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>((i * 37 + salt) % 19 - 9) / 8);
      return values;
    };
    ReferenceTensor keep(Dtype::kBool, {kSteps, kBatch, 1});
    for (int64_t i = 0; i < kSteps * kBatch; ++i) keep.ints[i] = i % 3 != with_mask;
    return {F32({kSteps, kBatch, 6}, numbers(36, 3)), F32({kUnits, 6}, numbers(12, 5)), F32({kUnits}, {0.25, -0.5}), keep};
  }
  // Those that the outputs depend on; a loop of which one group of states is no cell leaves the recurrences of other groups behind.
  static int Recurrences(Graph& graph) {
    int count = 0;
    RemoveDeadNodes(graph);
    for (const auto& node : graph.nodes) count += node->kind == OpKind::kRecurrence;
    return count;
  }
};

std::vector<Cell> Recognized() {
  const std::string gates = "  pa, pb, pc = Split<axis = 1>(p, three)\n  ea, eb, ec = Split<axis = 1>(e, three)\n";
  const std::string product = "  p = MatMul(h, r)\n";
  const std::string show = "  y = Identity(t)\n";
  const std::string update_and_reset =
      "  za = Add(eb, pb)\n  z = Sigmoid(za)\n  ra = Add(pc, ec)\n  q = Sigmoid(ra)\n  rest = Sub(one, z)\n";
  const std::string mixed = "  new = Mul(rest, n)\n  old = Mul(h, z)\n  t = Add(old, new)\n";
  const std::string after = "  pbias = Add(pa, b)\n  reset = Mul(pbias, q)\n  na = Add(reset, ea)\n  n = Tanh(na)\n";
  const std::string lstm = "  ia = Add(ea, pa)\n  i = Sigmoid(ia)\n  fa = Add(pb, eb)\n  f = Sigmoid(fa)\n"
                           "  ga = Add(ec, pc)\n  g = Tanh(ga)\n"
                           "  o = Sigmoid(pa)\n  ig = Mul(g, i)\n  fc = Mul(f, c)\n";
  std::vector<Cell> cells = {
      {"rnn without activation", product + gates + "  a = Add(eb, pc)\n  t = Add(a, b)\n" + show},
      {"rnn", product + gates + "  a = Add(eb, pc)\n  s = Add(a, b)\n  t = Relu(s)\n" + show},
      {"gru, reset after the product", product + gates + update_and_reset + after + mixed + show},
      {"gru, reset before the product",
       product + gates + update_and_reset + "  qh = Mul(q, h)\n  s = MatMul(qh, r)\n  sa, sb, sc = Split<axis = 1>(s, three)\n" +
           "  na = Add(sa, ea)\n  n = Tanh(na)\n" + mixed + show},
      {"gru, written as h + z (n - h)",
       product + gates + update_and_reset + after + "  far = Sub(n, h)\n  moved = Mul(z, far)\n  t = Add(h, moved)\n" + show},
      {"gru by a Gemm", "  rt = Transpose(r)\n  p = Gemm<transB = 1>(h, rt)\n" + gates + update_and_reset + after + mixed + show},
      {"gru with hard sigmoids", product + gates + "  za = Add(eb, pb)\n  zs = Add(za, three_halves)\n  zc = Clip(zs, zero, six)\n" +
           "  z = Mul(zc, sixth)\n  ra = Add(pc, ec)\n  rs = Add(ra, three_halves)\n  rc = Clip(rs, zero, six)\n  q = Mul(rc, sixth)\n" +
           "  rest = Sub(one, z)\n" + after + mixed + show},
      {"gru of TensorFlow 1",
       "  w = Concat<axis = 0>(r, r, r, r)\n  eh = Concat<axis = 1>(e, h)\n  p = MatMul(eh, w)\n" +
           std::string("  pz, pr, pn = Split<axis = 1>(p, three)\n  z = Sigmoid(pz)\n  q = Sigmoid(pr)\n  qh = Mul(q, h)\n") +
           "  eq = Concat<axis = 1>(e, qh)\n  s = MatMul(eq, w)\n" +
           "  sz, sr, sn = Split<axis = 1>(s, three)\n  n = Tanh(sn)\n  rest = Sub(one, z)\n" + mixed + show},
      {"lstm", product + gates + lstm + "  d = Add(ig, fc)\n  dt = Tanh(d)\n  t = Mul(o, dt)\n" + show, true},
      {"lstm with a mask",
       product + gates + lstm + "  dn = Add(ig, fc)\n  dt = Tanh(dn)\n  tn = Mul(o, dt)\n  t = Where(goes_on, tn, h)\n" +
           "  d = Where(goes_on, dn, c)\n" + show, true, true},
      {"gru with a mask of floats that shows zeros",
       product + gates + update_and_reset + after + "  new = Mul(rest, n)\n  old = Mul(h, z)\n  tn = Add(old, new)\n" +
           "  m = Cast<to = 1>(goes_on)\n  off = Not(goes_on)\n  mo = Cast<to = 1>(off)\n  tm = Mul(m, tn)\n  hm = Mul(h, mo)\n" +
           "  t = Add(tm, hm)\n  y = Mul(tn, m)\n", false, true},
  };
  // The first column of what the step brings is a weight of the step, as in DIEN's GRU with attentional update gate.
  const std::string weight = "  wa = Slice(e, first_column, second_column, second_column)\n  w = Sigmoid(wa)\n";
  const std::string weighted = "  u = Mul(w, z)\n  stays = Sub(one, u)\n  old = Mul(stays, h)\n  new = Mul(u, n)\n";
  cells.push_back({"gru with attentional update gate",
                   product + gates + update_and_reset + after + weight + weighted + "  t = Add(new, old)\n" + show});
  cells.push_back({"gru with attentional update gate and a mask",
                   product + gates + update_and_reset + after + weight + weighted + "  tn = Add(new, old)\n" +
                       "  t = Where(goes_on, tn, h)\n" + show,
                   false, true});
  cells.push_back({"gru with attention as its update gate",
                   product + gates + update_and_reset + after + weight + "  stays = Sub(one, w)\n  old = Mul(stays, h)\n" +
                       "  new = Mul(w, n)\n  t = Add(new, old)\n" + show});
  cells.push_back({"rnn whose attention is a gate of the step",
                   product + gates + weight + "  a = Add(eb, pb)\n  n = Tanh(a)\n  far = Sub(n, h)\n  moved = Mul(w, far)\n" +
                       "  t = Add(h, moved)\n" + show});
  const std::string two_layers = "  cp = MatMul(c, r)\n  ca, cb, cc = Split<axis = 1>(cp, three)\n  a = Add(eb, pc)\n  tn = Tanh(a)\n" +
                                 std::string("  tp = MatMul(tn, r)\n  ta, tb, tc = Split<axis = 1>(tp, three)\n  da = Add(tb, cc)\n");
  cells.push_back({"two layers", product + gates + two_layers + "  t = Identity(tn)\n  d = Relu(da)\n  y = Identity(d)\n", true});
  cells.push_back({"two layers with a mask",
                   product + gates + two_layers + "  dn = Tanh(da)\n  t = Where(goes_on, tn, h)\n  d = Where(goes_on, dn, c)\n" +
                       "  off = Not(goes_on)\n  m = Cast<to = 1>(goes_on)\n  y = Mul(dn, m)\n", true, true});
  cells.push_back({"two layers, the first one added to the second",
                   product + gates + two_layers + "  t = Identity(tn)\n  dn = Relu(da)\n  d = Identity(dn)\n  y = Add(tn, dn)\n", true});
  for (size_t i = cells.size() - 3; i < cells.size(); ++i) cells[i].recurrences = 2;
  cells.push_back({"a layer behind the cell in the step",
                   product + gates + "  a = Add(eb, pc)\n  t = Tanh(a)\n  tp = MatMul(t, r)\n  ta, tb, tc = Split<axis = 1>(tp, three)\n" +
                       "  bt = Add(tb, b)\n  y = Sigmoid(bt)\n"});
  cells[6].error = 1e-7;  // 6 times the float 1/6 counts as 1
  for (const size_t i : {1, 9, 12, 16}) {
    cells.push_back(cells[i]);
    cells.back().name += ", from the end";
    cells.back().is_reverse = true;
  }
  return cells;
}

TEST_F(RecurrentLoops, AreOneRecurrence) {
  for (const Cell& cell : Recognized()) {
    SCOPED_TRACE(cell.name);
    const auto model = Load(cell.Text(false)), unrolled = Load(cell.Text(true));
    ASSERT_TRUE(model) << ErrorOf(model);
    ASSERT_TRUE(unrolled) << ErrorOf(unrolled);
    EXPECT_EQ(Recurrences(*model->graph), cell.recurrences) << Print(*model->graph);
    EXPECT_EQ(Recurrences(*unrolled->graph), 0);
    for (const int64_t way : {0, 1}) {
      const auto answers = Interpret(*model->graph, Inputs(way)), right = Interpret(*unrolled->graph, Inputs(way));
      ASSERT_TRUE(answers && right);
      for (size_t i = 0; i < right->size(); ++i) {
        for (int64_t k = 0; k < (*right)[i].element_count(); ++k)
          EXPECT_NEAR((*answers)[i].reals[k], (*right)[i].reals[k], cell.error) << "output " << i << ", element " << k;
      }
    }
  }
}

TEST_F(RecurrentLoops, OtherCellsAreUnrolled) {
  const std::string product = "  p = MatMul(h, r)\n  pa, pb, pc = Split<axis = 1>(p, three)\n  ea, eb, ec = Split<axis = 1>(e, three)\n";
  const std::string show = "  y = Identity(t)\n";
  const Cell others[] = {
      {"a delayed state", product + "  a = Add(ea, pa)\n  t = Tanh(a)\n  d = Identity(h)\n" + show, true},
      {"gates that differ in a parameter only",
       product + "  ia = Add(ea, pa)\n  i = HardSigmoid<alpha = 0.5>(ia)\n  fa = Add(eb, pb)\n  f = HardSigmoid<alpha = 0.25>(fa)\n" +
           "  o = HardSigmoid<alpha = 0.5>(fa)\n  ga = Add(ec, pc)\n  g = Tanh(ga)\n  ig = Mul(g, i)\n  fc = Mul(f, c)\n" +
           "  d = Add(ig, fc)\n  dt = Tanh(d)\n  t = Mul(o, dt)\n" + show, true},
      {"rows in reverse order",
       product + "  a = Add(ea, pa)\n  b2 = Slice(a, end_row, before, axis, step)\n  t = Tanh(b2)\n" + show},
      {"a state that is squared", product + "  hh = Mul(h, h)\n  a = Add(hh, pa)\n  t = Tanh(a)\n" + show},
      {"gates that do not sum to 1",
       product + "  z = Sigmoid(ea)\n  n = Tanh(pa)\n  zn = Mul(z, n)\n  zh = Mul(z, h)\n  t = Add(zn, zh)\n" + show},
      {"a product that is shown", product + "  a = Add(ea, pa)\n  t = Tanh(a)\n  y = Identity(pb)\n"},
      {"a mask that resets the state",
       product + "  a = Add(ea, pa)\n  n = Tanh(a)\n  m = Cast<to = 1>(goes_on)\n  t = Mul(n, m)\n" + show, false, true},
      {"a layer of states before they change",
       product + "  pb2 = MatMul(c, r)\n  ca, cb, cc = Split<axis = 1>(pb2, three)\n  a = Add(ea, pa)\n  t = Tanh(a)\n" +
           "  hp = Add(pb, cc)\n  d = Tanh(hp)\n" + show, true},
      {"a weight of each unit", product + "  a = Add(ea, pa)\n  n = Tanh(a)\n  w = Sigmoid(eb)\n  far = Sub(n, h)\n" +
                                    "  moved = Mul(w, far)\n  t = Add(h, moved)\n" + show},
      {"columns that are no blocks of units",
       product + "  s = Slice(p, from, to, from)\n  a = Add(ea, s)\n  t = Tanh(a)\n" + show},
  };
  for (const Cell& cell : others) {
    SCOPED_TRACE(cell.name);
    const auto model = Load(cell.Text(false));
    ASSERT_TRUE(model) << ErrorOf(model);
    EXPECT_EQ(Recurrences(*model->graph), 0) << Print(*model->graph);
  }
}

// TensorFlow's map_fn.
TEST_F(RecurrentLoops, IndependentStepsAreOnePart) {
  const auto model = Load(R"(g (int64[n, 3] ids, float[4, 2] table, float[2, 2] w) => (float[n, 2] all, float[2] latest)
<float[2] zeros = {0, 0}, int64 first = {0}, int64 start = {0}, int64 next = {1}, int64[1] axis = {0}, bool yes = {1}> {
    shape = Shape(ids)
    trips = Gather(shape, first)
    time, latest, all = Loop(trips, yes, start, zeros) <body = step (int64 i, bool on, int64 t, float[2] unread) =>
        (bool goes, int64 later, float[2] last, float[2] y) {
      row = Gather(ids, t)
      rows = Gather(table, row)
      products = MatMul(rows, w)
      shares = Softmax<axis = 1>(products)
      y = ReduceSum<keepdims = 0>(shares, axis)
      last = Identity(y)
      later = Add(t, next)
      goes = Identity(on)
    }>
  })");
  ASSERT_TRUE(model) << ErrorOf(model);
  const auto answers = Interpret(*model->graph, std::vector{I64({2, 3}, {0, 1, 0, 3, 3, 2}), F32({4, 2}, {0, 0, 1, 0, 0, 1, 9, -9}),
                                                            F32({2, 2}, {1, 0, 0, 1})});
  ASSERT_TRUE(answers);
  const double share = std::exp(1.0) / (1 + std::exp(1.0));
  const std::vector<double> right = {1 + share, 2 - share, 3 - share, share};
  for (size_t i = 0; i < right.size(); ++i) EXPECT_NEAR((*answers)[0].reals[i], right[i], 1e-7);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR((*answers)[1].reals[i], right[2 + i], 1e-7);
}

// Loops of a length that is a dim, with the conditions that TensorFlow's exporter writes.
std::string LoopText(const std::string& condition) {
  return R"(g (float[n, 2, 2] x, float[2, 2] r) => (float[n, 2, 2] all)
<float[2, 2] zeros = {0, 0, 0, 0}, int64 first = {0}, int32 start = {0}, float none = {0}, int32 next = {1}> {
    shape = Shape(x)
    trips = Gather(shape, first)
    short = Cast<to = 6>(trips)
    limit = Cast<to = 1>(short)
    begins = Less(none, limit)
    last, time, kept, all = Loop(trips, begins, zeros, start, short) <
        body = step (int64 i, bool on, float[2, 2] h, int32 t, int32 size) =>
            (bool goes, float[2, 2] n, int32 later, int32 same, float[2, 2] y) {
      e = Gather(x, t)
      p = MatMul(h, r)
      s = Add(p, e)
      n = Tanh(s)
      y = Identity(n)
      later = Add(t, next)
      same = Identity(size)
      now = Cast<to = 1>(later)
      most = Cast<to = 1>(size)
      )" + condition + R"(
    }>
  })";
}

// TensorFlow's x[t] is a slice from t by 1e9 to an end that is at least 1e9.
TEST_F(RecurrentLoops, ElementsAreSlicesFromTheCounter) {
  std::string text = LoopText("goes = Less(now, most)");
  const std::string gather = "      e = Gather(x, t)\n";
  text.replace(text.find(gather), gather.size(), R"(
      from = Unsqueeze(t, axis)
      behind = Cast<to = 1>(later)
      far = Max(behind, billion)
      end = Cast<to = 6>(far)
      part = Slice(x, from, end, axes, by)
      e = Squeeze(part, axis)
)");
  const std::string constants = "int32 next = {1}";
  text.replace(text.find(constants), constants.size(),
               constants + ", int64[1] axis = {0}, int32[1] axes = {0}, float[1] billion = {1000000000}, int32[1] by = {1000000000}");
  const auto model = Load(text);
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(Recurrences(*model->graph), 1);
  EXPECT_EQ(Print(*model->graph).find("gather(%x"), std::string::npos) << Print(*model->graph);
  // Where the end may be before 1e9, the part may be empty.
  const std::string max = "far = Max(behind, billion)";
  text.replace(text.find(max), max.size(), "far = Min(behind, billion)");
  EXPECT_NE(ErrorOf(Load(text)).find("Loop"), std::string::npos);
  // Each of these maxima reads the one before it twice.
  const std::string min = "far = Min(behind, billion)";
  std::string maxima = "far0 = Max(behind, behind)\n";
  for (int i = 0; i < 60; ++i) {
    const std::string before = "far" + std::to_string(i);
    maxima += "far" + std::to_string(i + 1) + " = Max(" + before + ", " + before + ")\n";
  }
  text.replace(text.find(min), min.size(), maxima + "far = Identity(far60)");
  EXPECT_NE(ErrorOf(Load(text)).find("Loop"), std::string::npos);
}

// A state that is squared again and again would be a monomial of 2^40 factors.
TEST_F(RecurrentLoops, PowersAreBounded) {
  std::string powers = "  h0 = Identity(h)\n";
  for (int i = 0; i < 40; ++i) {
    const std::string before = "h" + std::to_string(i);
    powers += "  h" + std::to_string(i + 1) + " = Mul(" + before + ", " + before + ")\n";
  }
  const Cell cell{"powers",
                  powers + "  p = MatMul(h, r)\n  pa, pb, pc = Split<axis = 1>(p, three)\n" +
                      "  a = Add(pa, h40)\n  t = Tanh(a)\n  y = Identity(t)\n"};
  const auto model = Load(cell.Text(false));
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(Recurrences(*model->graph), 0);
}

TEST_F(RecurrentLoops, MakeAllOfTheirTrips) {
  const auto model = Load(LoopText("goes = Less(now, most)"));
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(Recurrences(*model->graph), 1);
  const auto endless = Load(LoopText("on_again = Identity(on)\n goes = Identity(on_again)"));
  ASSERT_TRUE(endless) << ErrorOf(endless);
  const std::string refusal = ErrorOf(Load(LoopText("sooner = Add(now, now)\n goes = Less(sooner, most)")));
  EXPECT_NE(refusal.find("Loop"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace fusec
