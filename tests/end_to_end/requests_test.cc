// Per-request inputs through the program: answers, the output of explain, and that every verb which makes an artifact from another one
// keeps them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/end_to_end/program_test.h"


namespace fusec {
namespace {

using Json = nlohmann::json;

// A DLRM with a tower of the user, self-attention over the user's history, and a top MLP over both
// and an item's row.
constexpr char kModel[] = R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[batch, 3] user, int64[batch, 5] history, int64[batch] item) => (float[batch, 1] score)
<float[7, 4] "items.weight" = {0.5, 0.1, -0.3, 0.7, 0.2, -0.4, 0.6, 0.1, -0.7, 0.3, 0.9, -0.2, 0.4,
                               0.8, -0.1, 0.5, -0.6, 0.2, 0.3, 0.1, 0.7, -0.5, 0.4, 0.6, 0.1, 0.2,
                               -0.8, 0.3},
 float[3, 4] "tower.weight" = {0.3, -0.2, 0.5, 0.1, 0.4, 0.6, -0.7, 0.2, 0.1, -0.3, 0.8, 0.5},
 float[4] "tower.bias" = {0.1, 0.2, -0.1, 0.3},
 float[4, 4] "query.weight" = {0.5, 0.1, 0.2, -0.3, 0.7, -0.6, 0.4, 0.1, 0.2, 0.3, -0.5, 0.8, 0.1,
                               0.9, 0.2, -0.4},
 float[4, 4] "key.weight" = {0.1, -0.5, 0.3, 0.2, 0.6, 0.4, -0.1, 0.7, -0.3, 0.2, 0.5, 0.1, 0.8,
                             -0.2, 0.4, 0.3},
 float[12, 6] "top.weight" = {0.5, 0.1, -0.3, 0.7, 0.2, -0.4, 0.6, 0.1, -0.7, 0.3, 0.9, -0.2, 0.4,
                              0.8, -0.1, 0.5, -0.6, 0.2, 0.3, 0.1, 0.7, -0.5, 0.4, 0.6, 0.1, 0.2,
                              -0.8, 0.3, 0.3, -0.2, 0.5, 0.1, 0.4, 0.6, -0.7, 0.2, 0.1, -0.3, 0.8,
                              0.5, 0.5, 0.1, 0.2, -0.3, 0.7, -0.6, 0.4, 0.1, 0.2, 0.3, -0.5, 0.8,
                              0.1, 0.9, 0.2, -0.4, 0.1, -0.5, 0.3, 0.2, 0.6, 0.4, -0.1, 0.7, -0.3,
                              0.2, 0.5, 0.1, 0.8, -0.2, 0.4, 0.3},
 float[6] "top.bias" = {0.1, 0.2, -0.1, 0.3, 0.2, -0.2},
 float[6, 1] "score.weight" = {0.5, 0.1, -0.3, 0.7, 0.2, -0.4}, int64[1] tokens = {1}> {
  tower_product = MatMul(user, "tower.weight")
  tower_sum = Add(tower_product, "tower.bias")
  tower = Relu(tower_sum)
  rows = Gather("items.weight", history)
  queries = MatMul(rows, "query.weight")
  keys = MatMul(rows, "key.weight")
  turned = Transpose<perm = [0, 2, 1]>(keys)
  scores = MatMul(queries, turned)
  shares = Softmax<axis = -1>(scores)
  mixed = MatMul(shares, rows)
  seen = ReduceMean<keepdims = 0>(mixed, tokens)
  item_row = Gather("items.weight", item)
  all = Concat<axis = 1>(tower, item_row, seen)
  top_product = MatMul(all, "top.weight")
  top_sum = Add(top_product, "top.bias")
  top = Relu(top_sum)
  logit = MatMul(top, "score.weight")
  score = Sigmoid(logit)
}
)";

class Requests : public ModelTest {
 protected:
  Requests() : ModelTest(kModel) {}

  // Compares with the model as exported, with a row for each item.
  void ExpectVerified(const std::string& artifact, const std::vector<std::string>& dims) const {
    std::vector<std::string> arguments = {"verify", artifact, "--model", model_, "--device", "cpu"};
    for (const std::string& dim : dims) arguments.insert(arguments.end(), {"--dim", dim});
    const ChildResult verified = Fusec(arguments);
    EXPECT_EQ(verified.exit_code, 0) << verified.output << verified.errors;
  }
  static Json Explained(const std::string& artifact, const char* target) {
    return Json::parse(Fusec({"explain", artifact, "--target", target, "--json"}).output);
  }
};

const std::vector<std::string> kOne = {"--per-request", "user,history"};
const std::vector<std::string> kMapped = {"--per-request", "user,hist*", "--request-map"};

TEST_F(Requests, OfOneRequestAnswerAsTheReplicatedModel) {
  const std::string out = Compiled(kOne);
  ExpectVerified(out, {"batch=1,5,64"});
  const Json requests = Explained(out, "cpu")["requests"];
  EXPECT_EQ(requests["inputs"], Json({"user", "history"}));
  EXPECT_FALSE(requests.contains("map"));
  const Json seam = {{"value", "top_product"}, {"columns_of_request", 8}, {"columns_of_items", 4}};
  EXPECT_EQ(requests["split_products"], Json::array({seam}));
  EXPECT_EQ(requests["per_item"], Json::array());
  const ChildResult page = Fusec({"explain", out, "--target", "sm_90a"});
  EXPECT_NE(page.output.find("product top_product: 8 columns per request, 4 per item"),
            std::string::npos)
      << page.output;
}

TEST_F(Requests, OfSeveralRequestsAnswerAsTheReplicatedModel) {
  const std::string out = Compiled(kMapped);
  ExpectVerified(out, {"batch=1,5,64", "requests=1,3"});
  EXPECT_EQ(Explained(out, "cpu")["requests"]["map"], "request_of_item");
}

// The attention is computed once per request, and no row of users and items is put together.
TEST_F(Requests, AreComputedOnce) {
  for (const auto& flags : {kOne, kMapped}) {
    const std::string out = Compiled(flags);
    std::ifstream file(out + "/ir/gpu.ir");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const std::string history = flags.size() > 2 ? "f32[requests, 5, 5]" : "f32[1, 5, 5]";
    EXPECT_NE(text.find(history), std::string::npos) << text;
    EXPECT_EQ(text.find("f32[batch, 5, 5]"), std::string::npos) << text;
    EXPECT_EQ(text.find("f32[batch, 12]"), std::string::npos) << text;
  }
}

TEST_F(Requests, MayStayUnsplit) {
  auto flags = kMapped;
  flags.insert(flags.end(), {"--disable-fusion", "hoist-requests,split-seams"});
  const std::string out = Compiled(flags);
  ExpectVerified(out, {"batch=5", "requests=3"});
  EXPECT_EQ(Explained(out, "cpu")["requests"]["per_request"], Json::array());
}

TEST_F(Requests, KeepTheirRoundingWithRoundEveryOp) {
  auto flags = kOne;
  flags.push_back("--round-every-op");
  const std::string out = Compiled(flags);
  ExpectVerified(out, {"batch=5"});
  EXPECT_EQ(Explained(out, "cpu")["requests"]["split_products"], Json::array());
}

TEST_F(Requests, StayInRefittedArtifacts) {
  const std::string out = Compiled(kMapped), next = folder_ + "/next";
  const ChildResult refitted = Fusec({"refit", out, "--weights", model_, "-o", next});
  ASSERT_EQ(refitted.exit_code, 0) << refitted.errors;
  ExpectVerified(next, {"batch=5", "requests=3"});
}

TEST_F(Requests, ExplainSaysWhatStoppedTheSplit) {
  std::ofstream(model_) << R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[batch, 2] user, float[batch, 2] item) => (float[batch, 2] y, float[2] sum)
<int64[1] axis = {0}> {
  tower = Exp(user)
  y = Mul(tower, item)
  sum = ReduceSum<keepdims = 0>(tower, axis)
}
)";
  const std::string out = Compiled({"--per-request", "user"});
  ExpectVerified(out, {"batch=1,5"});
  const Json requests = Explained(out, "cpu")["requests"];
  EXPECT_EQ(requests["per_request"], Json::array({{{"value", "tower"}, {"op", "exp"}}}));
  const Json per_item = {
      {{"value", "y"},
       {"op", "mul"},
       {"reads", "tower"},
       {"reason", "it reads \"item\", which is computed per item"}},
      {{"value", "sum"},
       {"op", "reduce_sum"},
       {"reads", "tower"},
       {"reason", "the rows of its result do not belong to items of the batch"}}};
  EXPECT_EQ(requests["per_item"], per_item);
}

}  // namespace
}  // namespace fusec
