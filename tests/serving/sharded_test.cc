// Models whose tables are spread over shards give the answers of the whole model, also after updates.
//
//   FUSEC_TEST_SECONDS=10                       instead of one second
//   FUSEC_TEST_DEVICE=cuda                      on the first GPU
//   FUSEC_TEST_SHARD_DEVICES=cuda:0,1           the sharded programs on these
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <span>
#include <thread>

#include "tests/serving/served_model.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using serving::DeviceUnderTest;
using serving::RunFusec;

constexpr int64_t kRows = 60, kColumns = 6, kBag = 5;

std::string ShardDevices() {
  const char* devices = std::getenv("FUSEC_TEST_SHARD_DEVICES");
  return devices ? devices : DeviceUnderTest();
}

float Element(double seed, int64_t row, int64_t column) {
  return static_cast<float>(std::round(1e4 * std::sin(1.7 * static_cast<double>(row * kColumns + column) + seed)) / 1e4);
}

std::string Table(const std::string& name, int version, int64_t rows, int64_t columns) {
  std::string text = "float[" + std::to_string(rows) + ", " + std::to_string(columns) + "] " + name + " = {";
  for (int64_t i = 0; i < rows * columns; ++i) {
    char number[32];
    std::snprintf(number, sizeof number, "%s%.9g", i > 0 ? ", " : "",
                  static_cast<double>(Element(version + 0.1 * name[0], i / columns, i % columns)));
    text += number;
  }
  return text + "}";
}

// Rows of one id, a weighted sum and a mean of bags, and a table whose ids are hashed and looked up in another.
std::string ModelText(int version) {
  std::string tables;
  for (const char* name : {"one", "bag", "plain"}) tables += Table(name, version, kRows, kColumns) + ", ";
  return R"(<ir_version: 8, opset_import: ["" : 17]>
shards (int64[batch] id, int64[batch, 5] ids, float[batch, 5] weights, float[batch, 2] x)
    => (float[batch, 6] row, float[batch, 6] sum, float[batch, 6] mean, float[batch, 6] hashed, float[batch, 8] all)
<)" + tables + "int64[7] hop = {3, 1, 4, 1, 5, 9, 2}" + R"(>
{
  row = Gather(one, id)
  last = Constant<value_ints = [2]>()
  middle = Constant<value_ints = [1]>()
  rows = Gather(bag, ids)
  weights3 = Unsqueeze(weights, last)
  weighted = Mul(rows, weights3)
  sum = ReduceSum<keepdims = 0>(weighted, middle)
  mean = ReduceMean<axes = [1], keepdims = 0>(rows)
  seven = Constant<value_int = 7>()
  hash = Mod(id, seven)
  jump = Gather(hop, hash)
  plain_row = Gather(plain, jump)
  hashed = Sigmoid(plain_row)
  all = Concat<axis = 1>(sum, x)
})";
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("fusec_sharded_" + std::to_string(getpid()))) { fs::create_directories(path_); }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  std::string operator/(const std::string& name) const { return path_ / name; }

  std::string Model(int version) const {
    const std::string path = *this / ("model_" + std::to_string(version) + ".onnxtxt");
    std::ofstream(path) << ModelText(version);
    return path;
  }
  std::string Target() const { return DeviceUnderTest() == "cpu" ? " --target cpu --cpu-level x86-64-v3" : " --target sm_90a"; }
  std::string Whole(int version, const std::string& flags = "") const {
    const std::string out = *this / "whole";
    RunFusec(Model(version) + " -o " + out + Target() + flags);
    return out;
  }
  std::string Sharded(int version, const std::string& name, const std::string& flags = "") const {
    const std::string out = *this / name;
    RunFusec("shard " + Model(version) + " --shards 3 --replicate-below 0 -o " + out + Target() + flags);
    return out;
  }

 private:
  fs::path path_;
};

// The inputs of a call.
struct Call {
  int64_t batch = 0;
  std::vector<int64_t> id, ids;
  std::vector<float> weights, x;

  Call(int64_t size, unsigned seed) : batch(size) {
    std::mt19937 random(seed);
    for (int64_t i = 0; i < size; ++i) id.push_back(static_cast<int64_t>(random() % (2 * kRows)) - kRows);
    for (int64_t i = 0; i < size * kBag; ++i) ids.push_back(static_cast<int64_t>(random() % kRows));
    for (int64_t i = 0; i < size * kBag; ++i) weights.push_back(0.25F * static_cast<float>(random() % 9) - 1);
    x.resize(2 * static_cast<size_t>(size), 0.5F);
  }
  void Bind(Context& context) const {
    context.BindInput<int64_t>("id", id, {batch});
    context.BindInput<int64_t>("ids", ids, {batch, kBag});
    context.BindInput<float>("weights", weights, {batch, kBag});
    context.BindInput<float>("x", x, {batch, 2});
  }
};

using Answers = std::vector<std::vector<float>>;
Answers Answer(Context& context, const Call& call) {
  call.Bind(context);
  context.Run();
  Answers answers;
  for (const char* name : {"row", "sum", "mean", "hashed", "all"}) {
    const std::span<const float> values = context.Output<float>(name);
    answers.emplace_back(values.begin(), values.end());
  }
  return answers;
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  return "no error";
}

class Sharded : public testing::TestWithParam<std::string> {
 protected:
  const Folder folder_;
};

TEST_P(Sharded, AnswersAreThoseOfTheWhole) {
  const std::string whole_path = folder_.Whole(1, GetParam());
  const std::string sharded_path = folder_.Sharded(1, "sharded", GetParam());
  Program whole(whole_path, DeviceUnderTest().c_str()), sharded(sharded_path, ShardDevices().c_str());
  Context whole_context(whole), context(sharded);
  for (const int64_t batch : {1, 2, 33, 300, 7}) {
    const Call call(batch, static_cast<unsigned>(batch));
    const Answers expected = Answer(whole_context, call), answers = Answer(context, call);
    EXPECT_EQ(answers[0], expected[0]) << "rows of one id, bit for bit";
    EXPECT_EQ(answers[3], expected[3]);
    for (const size_t sum : {1, 2, 4}) EXPECT_LT(Distance(answers[sum], expected[sum]), 4e-6) << "output " << sum;
  }
}
INSTANTIATE_TEST_SUITE_P(Storages, Sharded,
                         testing::Values("", " --table-storage '*=f16'", " --table-storage '*=int8'", " --table-storage '*=int4'",
                                         " --table-storage '*=fp8'", " --index-policy wrap"));

class ShardedProgram : public testing::Test {
 protected:
  const Folder folder_;
};

TEST_F(ShardedProgram, WhatCrossesIsRoundedWhereAsked) {
  const std::string whole_path = folder_.Whole(1);
  Program whole(whole_path, DeviceUnderTest().c_str());
  Context whole_context(whole);
  const Call call(100, 1);
  const Answers expected = Answer(whole_context, call);
  for (const auto& [wire, most] : {std::pair("f16", 4e-3), std::pair("bf16", 4e-2), std::pair("int8", 4e-2)}) {
    const std::string path = folder_.Sharded(1, "sharded", std::string(" --wire ") + wire);
    Program sharded(path, ShardDevices().c_str());
    Context context(sharded);
    const Answers answers = Answer(context, call);
    for (size_t i = 0; i < answers.size(); ++i) EXPECT_LT(Distance(answers[i], expected[i]), most) << wire << " " << i;
    EXPECT_GT(Distance(answers[1], expected[1]), 0) << wire;
  }
}

// A refit of `old_path` with the weights of `model`, and an update to that artifact, give the answers of `anew_path`, which was compiled
// with these weights.
void ExpectRefitIsShardingAnew(const std::string& old_path, const std::string& anew_path, const std::string& model,
                               const std::string& refitted_path) {
  RunFusec("refit " + old_path + " --weights " + model + " -o " + refitted_path);
  Program refitted(refitted_path, ShardDevices().c_str()), anew(anew_path, ShardDevices().c_str());
  Program updated(old_path, ShardDevices().c_str());
  Context a(refitted), b(anew), c(updated);
  const Call call(50, 3);
  const Answers expected = Answer(b, call);
  EXPECT_EQ(Answer(a, call), expected);
  EXPECT_NE(Answer(c, call), expected);
  updated.UpdateWeights(refitted_path);
  EXPECT_EQ(Answer(c, call), expected);
}

TEST_F(ShardedProgram, RefitIsShardingAnew) {
  for (const char* flags : {"", " --table-storage 'bag=int8' --wire int8"}) {
    const std::string old_path = folder_.Sharded(1, "old", flags), anew_path = folder_.Sharded(2, "anew", flags);
    ExpectRefitIsShardingAnew(old_path, anew_path, folder_.Model(2), folder_ / "refitted");
  }
}

// If an update fails in one part and the others cannot load their old weights again, runs fail until an update succeeds.
TEST_F(ShardedProgram, NoRunHasWeightsOfTwoVersions) {
  const std::string path_1 = folder_.Sharded(1, "before"), path_2 = folder_ / "after", damaged = folder_ / "damaged";
  RunFusec("refit " + path_1 + " --weights " + folder_.Model(2) + " -o " + path_2);
  fs::copy(path_2, damaged, fs::copy_options::recursive);
  fs::resize_file(damaged + "/shard_1/weights.safetensors", 4);
  Program program(path_1, ShardDevices().c_str()), whole(path_2, ShardDevices().c_str());
  Context context(program), other(whole);
  const Call call(8, 5);
  const Answers before = Answer(context, call);
  EXPECT_NE(ErrorOf([&] { program.UpdateWeights(damaged); }), "no error");
  EXPECT_EQ(Answer(context, call), before);

  fs::rename(path_1, folder_ / "moved");
  EXPECT_NE(ErrorOf([&] { program.UpdateWeights(damaged); }), "no error");
  EXPECT_NE(ErrorOf([&] { Answer(context, call); }).find("weights of two versions"), std::string::npos);
  program.UpdateWeights(path_2);
  EXPECT_EQ(Answer(context, call), Answer(other, call));
}

TEST_F(ShardedProgram, RunsSeeAllOfTheWeightsOrNone) {
  const std::string path_1 = folder_.Sharded(1, "first"), path_2 = folder_ / "second";
  RunFusec("refit " + path_1 + " --weights " + folder_.Model(2) + " -o " + path_2);
  Program program(path_1, ShardDevices().c_str());
  const Call call(8, 5);
  Answers expected[2];
  for (int version : {0, 1}) {
    Program one(version == 0 ? path_1 : path_2, ShardDevices().c_str());
    Context context(one);
    expected[version] = Answer(context, call);
  }
  std::atomic<bool> ended = false;
  std::atomic<int> torn = 0, runs = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      Context context(program);
      while (!ended) {
        const Answers answers = Answer(context, call);
        torn += answers != expected[0] && answers != expected[1];
        ++runs;
      }
    });
  }
  const char* seconds = std::getenv("FUSEC_TEST_SECONDS");
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds ? std::atoi(seconds) : 1);
  const std::string error = ErrorOf([&] {
    for (int version = 1; std::chrono::steady_clock::now() < until; version = 1 - version)
      program.UpdateWeights(version == 0 ? path_1 : path_2);
  });
  ended = true;
  EXPECT_EQ(error, "no error");
  threads.clear();
  EXPECT_EQ(torn, 0) << "of " << runs << " runs";
  EXPECT_GT(runs, 10);
}

TEST_F(ShardedProgram, RowsGoToThePartsThatHaveThem) {
  for (const char* flags : {"", " --table-storage '*=int8'"}) {
    const std::string path = folder_.Sharded(1, "sharded", flags), whole_path = folder_.Whole(1, flags);
    Program program(path, ShardDevices().c_str()), whole(whole_path, DeviceUnderTest().c_str());
    const std::vector<int64_t> ids = {59, 0, 30, 17, 18, 19, 41, 0};
    std::vector<float> rows;
    for (size_t i = 0; i < ids.size() * kColumns; ++i) rows.push_back(0.125F * static_cast<float>(i));
    Context context(program), whole_context(whole);
    for (const char* table : {"one", "bag", "plain"}) {
      for (Program* each : {&program, &whole}) each->UpdateRows(table, ids, rows);
    }
    const Call call(200, 9);
    const Answers expected = Answer(whole_context, call), answers = Answer(context, call);
    EXPECT_EQ(answers[0], expected[0]);
    EXPECT_EQ(answers[3], expected[3]);
    EXPECT_LT(Distance(answers[1], expected[1]), 1e-5);
    rows.resize(kColumns);
    const std::string error = ErrorOf([&] { program.UpdateRows("one", std::vector<int64_t>{kRows}, rows); });
    EXPECT_NE(error.find("expected 0 to 59"), std::string::npos) << error;
  }
}

TEST_F(ShardedProgram, ErrorsNameThePart) {
  const std::string path = folder_.Sharded(1, "sharded");
  Program program(path, ShardDevices().c_str());
  Context context(program);
  for (const int64_t id : {kRows, -kRows - 1, int64_t{1} << 40, -(int64_t{1} << 40)}) {
    Call call(3, 1);
    call.id[1] = id;
    const std::string error = ErrorOf([&] { Answer(context, call); });
    EXPECT_TRUE(std::regex_search(error, std::regex("shard_[0-2]: node .*: index"))) << id << ": " << error;
  }
  Answer(context, Call(3, 1));  // as if nothing had been
  EXPECT_NE(ErrorOf([&] { Program(path + "/dense", "cuda:0,1"); }).find("is not sharded"), std::string::npos);

  std::ofstream(path + "/shard_1/manifest.json", std::ios::app) << "\n";
  EXPECT_NE(ErrorOf([&] { Program(path, ShardDevices().c_str()); }).find("shard_1/manifest.json: was altered"), std::string::npos);
  fs::remove_all(path + "/shard_1");
  EXPECT_NE(ErrorOf([&] { Program(path, ShardDevices().c_str()); }).find("shard_1/manifest.json"), std::string::npos);
}

TEST_F(ShardedProgram, EmptyBatchesAndManyContexts) {
  const std::string path = folder_.Sharded(1, "sharded");
  Program program(path, ShardDevices().c_str());
  Context context(program);
  EXPECT_EQ(Answer(context, Call(0, 1)), Answers(5));
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  const Answers expected = Answer(context, Call(20, 1));
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Context own(program);
      for (int run = 0; run < 20; ++run) {
        Answer(own, Call(1 + run, 7));
        wrong += Answer(own, Call(20, 1)) != expected;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

// Rows of several cache lines, whose columns are on several shards: of an id, and of bags of which sums, means and maxima are made. A
// product with other numbers for each column stays in the dense part.
std::string WideModel(int version) {
  return R"(<ir_version: 8, opset_import: ["" : 17]>
wide (int64[batch] id, int64[batch, 5] ids, float[batch, 5] weights, float[batch, 2] x)
    => (float[batch, 96] row, float[batch, 80] sum, float[batch, 80] mean, float[batch, 96] hashed, float[batch, 80] all)
<)" + Table("one", version, kRows, 96) + ", " + Table("bag", version, kRows, 80) + ", " + Table("means", version, kRows, 80) + ", " +
         Table("peaks", version, kRows, 80) + ", " + Table("scale", version, 1, 80) + R"(>
{
  row = Gather(one, id)
  hashed = Sigmoid(row)
  last = Constant<value_ints = [2]>()
  middle = Constant<value_ints = [1]>()
  rows = Gather(bag, ids)
  weights3 = Unsqueeze(weights, last)
  weighted = Mul(rows, weights3)
  sum = ReduceSum<keepdims = 0>(weighted, middle)
  rows_of_means = Gather(means, ids)
  mean = ReduceMean<axes = [1], keepdims = 0>(rows_of_means)
  rows_of_peaks = Gather(peaks, ids)
  most = ReduceMax<axes = [1], keepdims = 0>(rows_of_peaks)
  all = Mul(most, scale)
})";
}

class WideTables : public testing::TestWithParam<std::string> {
 protected:
  std::string Model(int version) const {
    const std::string path = folder_ / ("wide_" + std::to_string(version) + ".onnxtxt");
    std::ofstream(path) << WideModel(version);
    return path;
  }
  std::string Made(const std::string& verb, int version, const std::string& name) const {
    RunFusec(verb + Model(version) + " -o " + folder_ / name + folder_.Target() + GetParam());
    return folder_ / name;
  }
  static std::string ManifestOf(const std::string& path) {
    std::ifstream file(path + "/manifest.json");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const Folder folder_;
};

TEST_P(WideTables, AreCutByColumnsAndGiveTheBitsOfTheWhole) {
  const std::string whole_path = Made("", 1, "whole"), path = Made("shard --shards 8 --replicate-below 0 ", 1, "sharded");
  EXPECT_NE(ManifestOf(path).find("\"end_column\""), std::string::npos);
  Program whole(whole_path, DeviceUnderTest().c_str()), sharded(path, ShardDevices().c_str());
  Context whole_context(whole), context(sharded);
  for (const int64_t batch : {1, 0, 33, 300, 7}) {
    const Call call(batch, static_cast<unsigned>(batch));
    const Answers answers = Answer(context, call), expected = Answer(whole_context, call);
    for (size_t i = 0; i < answers.size(); ++i)
      EXPECT_TRUE(answers[i] == expected[i]) << "output " << i << " of " << batch << ": " << Distance(answers[i], expected[i]);
  }

  const std::vector<int64_t> ids = {59, 0, 30, 17, 0};
  for (const auto& [table, columns] : {std::pair("one", 96), std::pair("bag", 80), std::pair("peaks", 80)}) {
    std::vector<float> rows;
    for (size_t i = 0; i < ids.size() * static_cast<size_t>(columns); ++i) rows.push_back(0.125F * static_cast<float>(i % 1000));
    for (Program* each : {&sharded, &whole}) each->UpdateRows(table, ids, rows);
  }
  const Call call(200, 9);
  const Answers answers = Answer(context, call), expected = Answer(whole_context, call);
  for (size_t i = 0; i < answers.size(); ++i)
    EXPECT_TRUE(answers[i] == expected[i]) << "output " << i << " after an update: " << Distance(answers[i], expected[i]);

  Program refused(path, ShardDevices().c_str());
  std::vector<float> row(96);
  const std::string error = ErrorOf([&] { refused.UpdateRows("one", std::vector<int64_t>{kRows}, row); });
  EXPECT_NE(error.find("expected 0 to 59"), std::string::npos) << error;
}

TEST_P(WideTables, RefitIsShardingAnew) {
  const std::string sharding = "shard --shards 8 --replicate-below 0 ";
  const std::string old_path = Made(sharding, 1, "old"), anew_path = Made(sharding, 2, "anew");
  ExpectRefitIsShardingAnew(old_path, anew_path, Model(2), folder_ / "refitted");
}
INSTANTIATE_TEST_SUITE_P(Storages, WideTables, testing::Values("", " --table-storage '*=f16'"));

// Ids that a mask or lengths choose, whose number is known only at run time.
constexpr char kCountedModel[] = R"(<ir_version: 10, opset_import: ["" : 20]>
counted (int64[n, 3] ids, bool[n] is_asked, int64[2] lengths, float[n, 2] x)
    => (float[k, 6] rows, float[k, 6] sums, float[f, 6] first, int64[1, k] places, float[n, 2] twice)
<TABLES>
{
  places = NonZero(is_asked)
  all = Constant<value_ints = [-1]>()
  where = Reshape(places, all)
  asked = Gather(ids, where)
  zero = Constant<value_int = 0>()
  id = Gather<axis = 1>(asked, zero)
  rows = Gather(one, id)
  bags = Gather(bag, asked)
  middle = Constant<value_ints = [1]>()
  sums = ReduceSum<keepdims = 0>(bags, middle)
  column = Gather<axis = 1>(ids, zero)
  head, tail = Split<axis = 0>(column, lengths)
  first = Gather(plain, head)
  twice = Add(x, x)
})";

TEST_F(ShardedProgram, SizesThatOnlyARunTellsAreThoseOfTheWhole) {
  std::string text = kCountedModel;
  text.replace(text.find("TABLES"), 6, Table("one", 1, kRows, kColumns) + ", " + Table("bag", 1, kRows, kColumns) + ", " +
                                           Table("plain", 1, kRows, kColumns));
  std::ofstream(folder_ / "counted.onnxtxt") << text;
  const std::string whole_path = folder_ / "whole", sharded_path = folder_ / "sharded";
  RunFusec(folder_ / "counted.onnxtxt" + " -o " + whole_path + folder_.Target());
  RunFusec("shard " + (folder_ / "counted.onnxtxt") + " --shards 4 --replicate-below 0 -o " + sharded_path + folder_.Target());
  Program whole(whole_path, DeviceUnderTest().c_str()), sharded(sharded_path, ShardDevices().c_str());
  EXPECT_EQ(sharded.Outputs().size(), 5U);
  Context whole_context(whole), context(sharded);
  std::mt19937 random(1);
  for (const int64_t n : {5, 1, 0, 200, 33}) {
    const Call call(n, static_cast<unsigned>(n));
    std::vector<uint8_t> is_asked;
    for (int64_t i = 0; i < n; ++i) is_asked.push_back(random() % 3 != 0);
    const int64_t head = n / 3;
    std::vector<int64_t> ids(call.ids.begin(), call.ids.begin() + 3 * n), lengths = {head, n - head};
    for (Context* each : {&whole_context, &context}) {
      each->BindInput<int64_t>("ids", ids, {n, 3});
      each->BindInput("is_asked", is_asked.data(), {n});
      each->BindInput<int64_t>("lengths", lengths, {2});
      each->BindInput<float>("x", call.x, {n, 2});
      each->Run();
    }
    for (const char* name : {"rows", "sums", "first", "places", "twice"})
      EXPECT_EQ(context.OutputDims(name), whole_context.OutputDims(name)) << name << " of " << n;
    EXPECT_EQ(context.OutputDims("rows")[0], std::count(is_asked.begin(), is_asked.end(), 1));
    for (const char* name : {"rows", "first", "twice", "sums"}) {
      const std::span<const float> answer = context.Output<float>(name), expected = whole_context.Output<float>(name);
      const std::vector<float> a(answer.begin(), answer.end()), b(expected.begin(), expected.end());
      EXPECT_LT(Distance(a, b), name == std::string("sums") ? 4e-6 : 1e-30) << name << " of " << n;
    }
  }
}

}  // namespace
}  // namespace fusec
