// `--batch-invariant`: a row of an answer has the same bits alone and in every batch, at every position, with any number of threads.
// FUSEC_TEST_DEVICE=cuda runs the test on a GPU, FUSEC_TEST_BATCHES=all with every batch of 1 to 300 rows, and FUSEC_TEST_BATCH_INVARIANT=0
// without the flag.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/build/compile.h"
#include "compiler/support/child_process.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRows = 300;

std::string Setting(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::string Device() { return Setting("FUSEC_TEST_DEVICE", "cpu"); }
bool IsCpu() { return Device() == "cpu"; }

// Sizes around those of tiles, blocks and vectors.
std::vector<int64_t> Batches() {
  std::vector<int64_t> batches;
  const bool all = Setting("FUSEC_TEST_BATCHES", "some") == "all";
  for (int64_t batch = 1; batch <= kRows; ++batch) {
    const bool is_near_tile = std::has_single_bit(static_cast<uint64_t>(batch - 1)) ||
                              std::has_single_bit(static_cast<uint64_t>(batch)) ||
                              std::has_single_bit(static_cast<uint64_t>(batch + 1));
    if (all || batch <= 17 || is_near_tile || batch == kRows) batches.push_back(batch);
  }
  return batches;
}

// Excludes models whose inputs hold bags one after the other, models without a batch, and models whose rows depend on each other.
bool HasRows(const std::string& name) {
  constexpr const char* kOthers[] = {"embedding_bags", "masked_pairs", "offset_bags", "unique_rows",
                                     "viewed_scores"};
  return std::none_of(std::begin(kOthers), std::end(kOthers),
                      [&](const char* other) { return name.starts_with(other); });
}

std::vector<std::string> ModelFiles() {
  std::vector<std::string> files;
  for (const char* folder : {"/models", "/tests/end_to_end/models"}) {
    for (const auto& entry : fs::directory_iterator(std::string(FUSEC_SOURCE_DIR) + folder)) {
      if (entry.path().extension() == ".onnx" && HasRows(entry.path().filename()))
        files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The axis of a tensor that counts the rows of the batch; none for a tensor that all rows share.
std::optional<size_t> BatchAxis(const runtime::TensorSignature& tensor, const std::string& symbol) {
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    if (tensor.shape[axis].text() == symbol) return axis;
  }
  return std::nullopt;
}

// A row along an axis: one stretch of memory for each index of the axes before it.
struct Row {
  size_t stretches = 1, bytes = 0, pitch = 0, first = 0;

  Row(const TensorData& tensor, size_t axis, int64_t row) : bytes(DtypeBytes(tensor.dtype())) {
    const std::vector<int64_t>& dims = tensor.dims();
    for (size_t i = 0; i < axis; ++i) stretches *= dims[i];
    for (size_t i = axis + 1; i < dims.size(); ++i) bytes *= dims[i];
    pitch = bytes * dims[axis];
    first = bytes * row;
  }
};

std::string BytesOfRow(const TensorData& tensor, size_t axis, int64_t number) {
  const Row row(tensor, axis, number);
  std::string bytes;
  for (size_t i = 0; i < row.stretches; ++i) {
    bytes.append(reinterpret_cast<const char*>(tensor.bytes()) + row.first + i * row.pitch,
                 row.bytes);
  }
  return bytes;
}

// The rows of those numbers.
TensorData Rows(const TensorData& tensor, size_t axis, ArrayRef<int64_t> numbers) {
  std::vector<int64_t> dims = tensor.dims();
  dims[axis] = static_cast<int64_t>(numbers.size());
  TensorData rows(tensor.dtype(), dims);
  for (size_t to = 0; to < numbers.size(); ++to) {
    const std::string bytes = BytesOfRow(tensor, axis, numbers[to]);
    const Row row(rows, axis, static_cast<int64_t>(to));
    for (size_t i = 0; i < row.stretches; ++i)
      std::memcpy(rows.mutable_bytes() + row.first + i * row.pitch, &bytes[i * row.bytes],
                  row.bytes);
  }
  return rows;
}

// A compiled model whose batch is a symbol that is an axis of inputs and of all outputs.
class Batched {
 public:
  Batched(const std::string& model, const std::string& precision, bool batch_invariant,
          const std::string& folder)
      : folder_(folder) {
    CompileOptions options;
    options.model_path = model;
    options.output_path = folder + "/artifact";
    options.targets = {IsCpu() ? "cpu" : "sm_90a"};
    options.cpu_level = "native";
    options.matmul_precision = precision;
    options.batch_invariant = batch_invariant;
    const auto report = CompileModel(options);
    EXPECT_TRUE(report.has_value()) << report.error().message;
    if (report) Load(1);
  }

  bool is_loaded() const { return context_ != nullptr; }

  void Load(int threads) {
    setenv("FUSEC_NUM_THREADS", std::to_string(threads).c_str(), 1);
    context_.reset();
    auto program = LoadProgram(folder_ + "/artifact", Device());
    unsetenv("FUSEC_NUM_THREADS");
    ASSERT_TRUE(program.has_value()) << program.error().message;
    program_ = *std::move(program);
    FindBatch();
    if (!batch_.empty()) context_ = *runtime::Context::Create(*program_);
  }

  // kRows rows; other symbols are small.
  Inputs AllRows() const {
    const runtime::Manifest& manifest = program_->manifest();
    DimValues dims;
    for (const runtime::Symbol& symbol : manifest.symbols)
      dims[symbol.name] =
          std::clamp<int64_t>(symbol.name == batch_ ? kRows : 5, symbol.min, symbol.max);
    return *RandomInputs(manifest, dims, {.seed = 7});
  }

  // The bytes of each of the rows in a batch of them.
  std::vector<std::string> Run(const Inputs& all, ArrayRef<int64_t> rows) {
    const runtime::Manifest& manifest = program_->manifest();
    Inputs inputs;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto axis = BatchAxis(manifest.inputs[i], batch_);
      inputs.push_back(axis ? Rows(all[i], *axis, rows) : all[i]);
    }
    const auto outputs = RunIn(*context_, inputs);
    EXPECT_TRUE(outputs.has_value()) << outputs.error().message;
    std::vector<std::string> bytes(rows.size());
    for (size_t row = 0; outputs && row < rows.size(); ++row) {
      for (size_t i = 0; i < outputs->size(); ++i) {
        const size_t axis = *BatchAxis(manifest.outputs[i], batch_);
        bytes[row] += BytesOfRow((*outputs)[i], axis, static_cast<int64_t>(row));
      }
    }
    return bytes;
  }

 private:
  void FindBatch() {
    const runtime::Manifest& manifest = program_->manifest();
    for (const runtime::Symbol& symbol : manifest.symbols) {
      const auto has_rows = [&](const auto& tensor) {
        return BatchAxis(tensor, symbol.name).has_value();
      };
      if (batch_.empty() && std::any_of(manifest.inputs.begin(), manifest.inputs.end(), has_rows) &&
          std::all_of(manifest.outputs.begin(), manifest.outputs.end(), has_rows))
        batch_ = symbol.name;
    }
  }

  const std::string folder_;
  std::string batch_;
  std::unique_ptr<runtime::Program> program_;
  std::unique_ptr<runtime::Context> context_;
};

// The number of rows, over all batches, whose bits differ from those alone; `first` describes the first of them.
int64_t DifferentRows(Batched& model, std::string& first) {
  const Inputs all = model.AllRows();
  std::vector<int64_t> order(kRows);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::string> alone;
  for (const int64_t row : order) alone.push_back(model.Run(all, {row})[0]);
  std::mt19937 random(1);
  int64_t different = 0;
  for (const int threads : {1, 3}) {
    model.Load(threads);
    for (const int64_t batch : Batches()) {
      std::shuffle(order.begin(), order.end(), random);
      const ArrayRef<int64_t> rows = ArrayRef(order).take_front(batch);
      const auto bytes = model.Run(all, rows);
      for (size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] == alone[rows[i]]) continue;
        if (different++ == 0)
          first = "row " + std::to_string(rows[i]) + " at place " + std::to_string(i) +
                  " of a batch of " + std::to_string(batch) + ", " + std::to_string(threads) +
                  " threads";
      }
    }
  }
  return different;
}

class BatchInvariance : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { folder_ = *MakeTemporaryFolder(); }
  void TearDown() override { fs::remove_all(folder_); }

  void ExpectSameBits(const std::string& file, const std::string& precision = "highest") {
    Batched model(file, precision, Setting("FUSEC_TEST_BATCH_INVARIANT", "1") == "1", folder_);
    ASSERT_TRUE(model.is_loaded());
    std::string first;
    EXPECT_EQ(DifferentRows(model, first), 0) << first;
  }
  std::string folder_;
};

TEST_P(BatchInvariance, ARowHasTheSameBitsInEveryBatch) { ExpectSameBits(GetParam()); }

// What can be checked without a GPU: each kernel serves all sizes, and no library computes a product.
TEST_P(BatchInvariance, HasOneKernelForEveryBatchOnAGpu) {
  CompileOptions options;
  options.model_path = GetParam();
  options.targets = {"sm_80", "sm_90a"};
  options.batch_invariant = true;
  const auto model = FuseModel(options);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  for (const TargetSource& source : model->targets) {
    for (const std::string precision : {"highest", "high"}) {
      std::vector<IndexSite> sites;
      const auto plan = PlanProgram(*source.graph, PlanFor(source.name, precision, true), sites);
      ASSERT_TRUE(plan.has_value()) << plan.error().message;
      for (const Step& step : plan->steps) {
        EXPECT_FALSE(step.is_matmul) << step.matmul.name;
        EXPECT_FALSE(step.alternative.has_value()) << step.kernel.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BatchInvariance, testing::ValuesIn(ModelFiles()),
                         [](const auto& info) {
                           std::string name = fs::path(info.param).stem();
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// The models that fusec is measured with, in the types and precisions that it is measured in.
class BatchInvarianceOfSuite : public BatchInvariance {};

TEST_P(BatchInvarianceOfSuite, ARowHasTheSameBitsInEveryBatch) {
  const size_t end = GetParam().rfind('_');
  const std::string name = GetParam().substr(0, end), arithmetic = GetParam().substr(end + 1);
  const std::string type = arithmetic == "fp16" ? "fp16" : "fp32";
  const ChildResult made =
      RunChild({Setting("FUSEC_PYTHON", FUSEC_PYTHON), FUSEC_SOURCE_DIR "/models/suite.py", name,
                folder_, "--scale", "small", "--dtype", type});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  ExpectSameBits(folder_ + "/" + name + "." + type + ".small.onnx",
                 arithmetic == "high" ? "high" : "highest");
}

// On a CPU there is only one precision of float products. The widths of lecture_main and lora_block would take minutes there, so they run
// only on GPUs; lecture_small and the lora_block of models/ have the same ops.
std::vector<std::string> SuiteCases() {
  std::vector<std::string> cases;
  for (const std::string name : {"dcnv2", "dlrm_dot", "lecture_main", "lecture_small", "lola",
                                 "lora_block", "lora_mlp_16", "lora_mlp_1k"}) {
    if (IsCpu() && (name == "lecture_main" || name == "lora_block")) continue;
    for (const std::string arithmetic : {"highest", "high", "fp16"}) {
      if (!IsCpu() || arithmetic != "high") cases.push_back(name + "_" + arithmetic);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, BatchInvarianceOfSuite, testing::ValuesIn(SuiteCases()),
                         [](const auto& info) { return info.param; });

// The same check for a model compiled without the flag, which shows that the check finds differences: on a GPU a single row uses other
// kernels than many rows, and oneDNN's products for AVX2 split sums depending on the number of rows.
TEST(BatchInvarianceCheck, SeesOtherBitsWithoutTheFlag) {
  const std::string program = fs::read_symlink("/proc/self/exe");
  const auto check = [&](const char* flag) {
    return RunChild(
        {"env", std::string("FUSEC_TEST_BATCH_INVARIANT=") + flag, "ONEDNN_MAX_CPU_ISA=AVX2",
         program,
         "--gtest_filter=All/BatchInvariance.*/lora_mlp_256_ts:All/BatchInvariance.*/lola_ts"});
  };
  const ChildResult without = check("0");
  EXPECT_EQ(without.exit_code, 1) << without.output;
  EXPECT_NE(without.output.find("of a batch of"), std::string::npos) << without.output;
  const ChildResult with = check("1");
  EXPECT_EQ(with.exit_code, 0) << with.output;
}

}  // namespace
}  // namespace fusec
