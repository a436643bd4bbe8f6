// Expected numbers are those of onnx.reference 1.23 for the same inputs.
#include <limits>

#include "tests/unit/ops/run_graph.h"

namespace fusec {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string Attributes(int is_causal, int q_heads, int kv_heads, int mode,
                       const std::string& softcap = "0.0") {
  return "{is_causal = " + std::to_string(is_causal) + ", scale = 0.25, softcap = " + softcap +
         ", qk_matmul_output_mode = " + std::to_string(mode) +
         ", q_num_heads = " + std::to_string(q_heads) +
         ", kv_num_heads = " + std::to_string(kv_heads) + ", softmax_dtype = f32, pads_mask = 1}";
}

// Two heads share one of k and v; there is a past, a mask, causality and a cap.
TEST(Attention, EverythingAtOnce) {
  const auto y = RunBothWays(
      R"(graph @g(%q: f32[b, 2, 3, 4], %k: f32[b, 1, 2, 4], %v: f32[b, 1, 2, 2], %m: f32[3, 3],
                  %pk: f32[b, 1, 1, 4], %pv: f32[b, 1, 1, 2]) symbols(b in 0..9) {
        %y, %nk, %nv, %s = attention(%q, %k, %v, %m, %pk, %pv) )" +
          Attributes(1, 0, 0, 2, "1.5") +
          R"( : f32[b, 2, 3, 2], f32[b, 1, 3, 4], f32[b, 1, 3, 2], f32[b, 2, 3, 3]
        return %y, %s })",
      {Noise({1, 2, 3, 4}, 1), Noise({1, 1, 2, 4}, 2), Noise({1, 1, 2, 2}, 3), Noise({3, 3}, 6),
       Noise({1, 1, 1, 4}, 4), Noise({1, 1, 1, 2}, 5)});
  ExpectClose(y[0],
              Reals({1, 2, 3, 2}, {-0.37269646099131765, -0.3863186259691741, -0.3544698247817871,
                                   -0.12007151970488451, -0.31591429073189414, 0.47902563122548286,
                                   -0.3719367347818035, -0.3721707964866901, -0.3535863151624812,
                                   -0.104331276273271, -0.3134620133665766, 0.5398031822623928}));
  ExpectClose(y[1],
              Reals({1, 2, 3, 3}, {-0.27146002739513414, 0.7330334232355865, -kInf,
                                   -0.45913250340835443, 0.4900240584618107, -0.5871836322112918,
                                   -0.02504697825722066, -0.13808397200593403, 0.6828073930534678,
                                   -0.3217539914130506, 0.6388412232155954, -kInf,
                                   -0.5968975494082761, 0.30197642525547425, -0.7488564887046874,
                                   0.15886404945229676, -0.41883486196779035, 0.511023860739626}));
}

// The same heads stored as [batch, length, heads * size] give the same answers.
TEST(Attention, PackedHeads) {
  const std::vector<ReferenceTensor> in = {Noise({2, 3, 4}, 1), Noise({2, 5, 4}, 2),
                                           Noise({2, 5, 6}, 3)};
  const auto packed = RunBothWays(
      R"(graph @g(%q: f32[2, t, 4], %k: f32[2, s, 4], %v: f32[2, s, 6])
                 symbols(t in 0..9, s in 0..9) {
    %y, %nk, %nv, %w = attention(%q, %k, %v) )" +
          Attributes(0, 2, 2, 3) +
          R"( : f32[2, t, 6], f32[2, 2, s, 2], f32[2, 2, s, 3], f32[2, 2, t, s]
    return %y, %w })",
      in);
  const auto unpacked =
      RunBothWays(R"(graph @g(%q: f32[2, 3, 4], %k: f32[2, 5, 4], %v: f32[2, 5, 6]) {
    %q4 = reshape(%q) {shape = dims[2, 3, 2, 2]} : f32[2, 3, 2, 2]
    %k4 = reshape(%k) {shape = dims[2, 5, 2, 2]} : f32[2, 5, 2, 2]
    %v4 = reshape(%v) {shape = dims[2, 5, 2, 3]} : f32[2, 5, 2, 3]
    %qt = transpose(%q4) {perm = [0, 2, 1, 3]} : f32[2, 2, 3, 2]
    %kt = transpose(%k4) {perm = [0, 2, 1, 3]} : f32[2, 2, 5, 2]
    %vt = transpose(%v4) {perm = [0, 2, 1, 3]} : f32[2, 2, 5, 3]
    %y, %nk, %nv, %w = attention(%qt, %kt, %vt) )" +
                      Attributes(0, 0, 0, 3) +
                      R"( : f32[2, 2, 3, 3], f32[2, 2, 5, 2], f32[2, 2, 5, 3], f32[2, 2, 3, 5]
    %yt = transpose(%y) {perm = [0, 2, 1, 3]} : f32[2, 3, 2, 3]
    %yp = reshape(%yt) {shape = dims[2, 3, 6]} : f32[2, 3, 6]
    return %yp, %w })",
                  in);
  ExpectClose(packed[0], unpacked[0]);
  ExpectClose(packed[1], unpacked[1]);
}

// A short bool mask is padded with false; lengths per sample cut off the rest. A row without a visible key is NaN.
TEST(Attention, BoolMaskAndLengths) {
  const auto y = RunBothWays(
      R"(graph @g(%q: f32[2, 1, 2, 1], %k: f32[2, 1, 3, 1], %v: f32[2, 1, 3, 1],
                  %m: bool[2, 2], %n: i64[2]) {
        %y, %nk, %nv, %s = attention(%q, %k, %v, %m, _, _, %n) )" +
          Attributes(0, 0, 0, 2) +
          R"( : f32[2, 1, 2, 1], f32[2, 1, 3, 1], f32[2, 1, 3, 1], f32[2, 1, 2, 3]
        return %y, %s })",
      {Reals({2, 1, 2, 1}, {1, 1, 1, 1}), Reals({2, 1, 3, 1}, {0, 0, 0, 0, 0, 0}),
       Reals({2, 1, 3, 1}, {1, 2, 4, 8, 16, 32}), Integers({2, 2}, {1, 1, 0, 1}, Dtype::kBool),
       Integers({2}, {3, 1})});
  EXPECT_EQ(y[0].reals[0], 1.5);
  EXPECT_EQ(y[0].reals[1], 2);
  EXPECT_EQ(y[0].reals[2], 8);
  EXPECT_EQ(y[0].reals[3], 0);  // all keys are hidden
  EXPECT_EQ(y[1].reals, (std::vector<double>{0, 0, -kInf, -kInf, 0, -kInf, 0, -kInf, -kInf, -kInf,
                                             -kInf, -kInf}));
}

// The queries are at the end of what is no padding: at positions 1 and 2 of the first of the batch, and -1 and 0 of the second.
TEST(Attention, PositionsBeforePadding) {
  const auto run = [](int causal, const std::string& windows) {
    std::string attributes = Attributes(causal, 0, 0, 2);
    attributes.insert(attributes.size() - 1, windows);
    const auto y = RunBothWays(
        R"(graph @g(%q: f32[2, 1, 2, 1], %k: f32[2, 1, 4, 1], %v: f32[2, 1, 4, 1], %n: i64[2]) {
        %y, %nk, %nv, %s = attention(%q, %k, %v, _, _, _, %n) )" +
            attributes + R"( : f32[2, 1, 2, 1], f32[2, 1, 4, 1], f32[2, 1, 4, 1], f32[2, 1, 2, 4]
        return %y })",
        {Reals({2, 1, 2, 1}, {1, 1, 1, 1}), Reals({2, 1, 4, 1}, {0, 0, 0, 0, 0, 0, 0, 0}),
         Reals({2, 1, 4, 1}, {1, 3, 8, 100, 16, 32, 64, 128}), Integers({2}, {3, 1})});
    return y[0].reals;
  };
  EXPECT_EQ(run(0, ""), (std::vector<double>{4, 4, 16, 16}));
  EXPECT_EQ(run(1, ""), (std::vector<double>{2, 4, 0, 16}));
  EXPECT_EQ(run(1, ", left_window = 0"), (std::vector<double>{3, 8, 0, 16}));
  EXPECT_EQ(run(0, ", left_window = 0, right_window = 1"), (std::vector<double>{5.5, 8, 16, 16}));
}

TEST(Attention, Errors) {
  const auto error = [&](const std::string& v, const std::string& mask) {
    return ErrorOfText(
        "graph @g(%q: f32[1, 2, 3, 4], %k: f32[1, 2, 5, 4], %v: f32[1, 2, " + v + "], %m: " + mask +
        ") { %y, %a, %b, %c = attention(%q, %k, %v, %m) " + Attributes(0, 0, 0, 0) +
        " : f32[1, 2, 3, 4], f32[1, 2, 5, 4], f32[1, 2, 5, 4], f32[1, 2, 3, 5] return %y }");
  };
  EXPECT_EQ(error("5, 4", "f32[5]"), "no error");
  EXPECT_NE(error("6, 4", "f32[5]").find("the length of v is 6, expected 5"), std::string::npos);
  EXPECT_NE(
      error("5, 4", "f32[2, 5]").find("expected bools or floats that broadcast to f32[1, 2, 3, 5]"),
      std::string::npos);
}

std::vector<double> Rotary(const std::string& x, const std::string& cache, const std::string& ids,
                           const std::string& attributes, ArrayRef<ReferenceTensor> in) {
  return RunText("graph @g(%x: " + x + ", %c: " + cache + ", %s: " + cache +
                     (ids.empty() ? "" : ", %i: " + ids) + ") { %y = rotary_embedding(%x, %c, %s" +
                     (ids.empty() ? "" : ", %i") + ") {" + attributes + "} : " + x + " return %y }",
                 in)[0]
      .reals;
}

TEST(RotaryEmbedding, AgreesWithOnnx) {
  const std::vector<ReferenceTensor> in = {Noise({1, 2, 3, 4}, 1), Noise({5, 2}, 2),
                                           Noise({5, 2}, 3), Integers({1, 3}, {4, 0, 2})};
  const auto halves = Rotary("f32[1, 2, 3, 4]", "f32[5, 2]", "i64[1, 3]",
                             "interleaved = 0, num_heads = 0, rotary_embedding_dim = 0", in);
  ExpectClose(Reals({24}, halves),
              Reals({24}, {-0.03856319792370755,  0.7605457742510708,   -0.42370620680594584,
                           0.5250791836293587,    0.34606730316120604,  0.15174623048402225,
                           0.20103141929739365,   -1.041785670397374,   0.30635249158983413,
                           0.25298916913624225,   -0.2721700362588564,  -0.13767503313661678,
                           0.37019064025125203,   0.5273710124654656,   0.24083604733198172,
                           0.2696402747779416,    -0.13867984259879051, 0.005900629512964883,
                           -0.540402434330943,    -1.017871515857692,   -0.03439555675602435,
                           -0.008010229855415218, -0.5219683088625544,  0.6058942129758407}));
  const auto pairs = Rotary("f32[1, 2, 3, 4]", "f32[5, 2]", "i64[1, 3]",
                            "interleaved = 1, num_heads = 0, rotary_embedding_dim = 0", in);
  ExpectClose(Reals({24}, pairs),
              Reals({24}, {0.2609253021653615,   -0.5075419293485766,  0.4202812758578176,
                           0.6832933090513365,   0.5699220686262549,   -0.04749830685526035,
                           0.5107817299033854,   -0.5771129629629002,  0.09310645461967226,
                           0.210728128610711,    -0.1232509351681017,  0.5834962630086693,
                           0.38034241388645285,  0.23799426450044336,  0.5158370531890455,
                           0.27500326529910524,  -0.03962314312772719, -0.6503779103588272,
                           0.1647753869546591,   -0.8122518381299528,  -0.0798678558253414,
                           -0.41899575150597457, -0.08823916535114051, 0.7596758134428825}));
}

TEST(RotaryEmbedding, PartOfPackedHeads) {
  const auto y = Rotary("f32[2, 3, 8]", "f32[2, 3, 1]", "",
                        "interleaved = 0, num_heads = 2, rotary_embedding_dim = 2",
                        {Noise({2, 3, 8}, 7), Noise({2, 3, 1}, 2), Noise({2, 3, 1}, 3)});
  ExpectClose(Reals({48}, y),
              Reals({48}, {0.2677493680220522,   -0.10141773813241173,  -0.6743103265762329,
                           0.20058345794677734,  -0.13882560658963428,  -0.5188486750742101,
                           -0.32452869415283203, 0.42578673362731934,   0.47784188653733395,
                           0.6364388440666744,   0.6150215864181519,    -0.6403454542160034,
                           -0.1424064549175057,  0.6425255871881177,    0.8210225105285645,
                           -0.8994333744049072,  0.0077619158317361325, 0.33423704844184954,
                           -0.5399069786071777,  -0.1534501314163208,   0.18590999837252298,
                           0.2591111457563784,   0.1439887285232544,    -0.4996182918548584,
                           0.2177754682399069,   -0.4672811545390658,   -0.8476189374923706,
                           -0.24679243564605713, -0.8117817041239164,   0.3240658356805852,
                           -0.04553699493408203, -0.947075366973877,    -0.16178394412897035,
                           0.43538462575345704,  0.560633659362793,     -0.6364179849624634,
                           -0.38752843949500004, -0.11051118496091306,  0.7355116605758667,
                           0.12204492092132568,  0.09707672315158788,   -0.49883861777024663,
                           0.6035251617431641,   -0.7018241882324219,   -0.09680480054372254,
                           0.45804563683394406,  0.6783312559127808,    -0.035219430923461914}));
}

}  // namespace
}  // namespace fusec
