// Host memory may begin at any address, even one that is not a multiple of the element size: answers are the same, nothing outside of a
// tensor is accessed, and inputs are not changed. (GPU memory must begin at a multiple of 16 bytes; unit tests and tests/gpu check that
// other addresses are rejected.)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/random_graph.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

// Generated code stops if it reads or writes a vector at an address that is not a multiple of its alignment.
constexpr const char* kChecked = "-fsanitize=alignment -fno-sanitize-recover=alignment";
constexpr size_t kAlignment = 64;  // a cache line, and more than any kernel asks for
constexpr auto kBeside = std::byte{0xA5};

// Memory for some bytes that begins `shift` bytes after a multiple of kAlignment.
class Memory {
 public:
  Memory(size_t bytes, size_t shift) : bytes_(bytes), shift_(shift), room_(bytes + 2 * kAlignment + shift, kBeside) {}
  Memory(const TensorData& tensor, size_t shift) : Memory(tensor.byte_count(), shift) {
    if (bytes_ != 0) std::memcpy(place(), tensor.bytes(), bytes_);
  }
  std::byte* place() {
    const size_t first = reinterpret_cast<uintptr_t>(room_.data()) % kAlignment;
    return room_.data() + (kAlignment - first) % kAlignment + shift_;
  }
  size_t bytes() const { return bytes_; }
  std::string Contents() { return {reinterpret_cast<const char*>(place()), bytes_}; }
  bool IsUntouchedBeside() {
    const std::byte *first = place(), *last = first + bytes_;
    const auto is_beside = [](std::byte byte) { return byte == kBeside; };
    return std::all_of(std::as_const(room_).data(), first, is_beside) &&
           std::all_of(last, std::as_const(room_).data() + room_.size(), is_beside);
  }

 private:
  size_t bytes_, shift_;
  std::vector<std::byte> room_;
};

using Shift = std::function<size_t(Dtype)>;  // bytes

// The bytes of all outputs. Both inputs and outputs lie where `shift` says.
std::vector<std::string> Answers(const CompiledGraphs& compiled, ArrayRef<TensorData> inputs, size_t output_count,
                                 const Shift& shift) {
  std::vector<std::unique_ptr<Memory>> given, made;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    given.push_back(std::make_unique<Memory>(inputs[i], shift(inputs[i].dtype())));
    const auto& dims = inputs[i].dims();
    EXPECT_EQ(fusec_bind_input(compiled.context(), i, given[i]->place(), dims.data(), static_cast<int>(dims.size()), 0), FUSEC_OK);
  }
  for (int i = 0; i < static_cast<int>(output_count); ++i) {
    fusec_tensor_info info;
    EXPECT_EQ(fusec_output_info(compiled.program(), i, &info), FUSEC_OK);
    std::vector<int64_t> dims(static_cast<size_t>(info.rank));
    EXPECT_EQ(fusec_output_dims(compiled.context(), i, dims.data()), FUSEC_OK) << fusec_last_error();
    const auto dtype = static_cast<Dtype>(info.dtype);
    made.push_back(std::make_unique<Memory>(TensorData(dtype, dims), shift(dtype)));
    EXPECT_EQ(fusec_bind_output(compiled.context(), i, made[i]->place(), made[i]->bytes(), 0), FUSEC_OK);
  }
  EXPECT_EQ(fusec_run(compiled.context()), FUSEC_OK) << fusec_last_error();
  for (size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(given[i]->Contents(), Memory(inputs[i], 0).Contents()) << "input " << i << " was written to";
    EXPECT_TRUE(given[i]->IsUntouchedBeside()) << "beside input " << i;
  }
  std::vector<std::string> answers;
  for (size_t i = 0; i < made.size(); ++i) {
    EXPECT_TRUE(made[i]->IsUntouchedBeside()) << "beside output " << i;
    answers.push_back(made[i]->Contents());
  }
  return answers;
}

void Compare(ArrayRef<uint64_t> seeds, Dtype dtype) {
  RandomGraphOptions options;
  options.dtype = dtype;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<const Graph*> pointers;
  for (const uint64_t seed : seeds) {
    options.nodes = SomeNodeCount(seed);
    graphs.push_back(RandomGraph(seed, options));
    pointers.push_back(graphs.back().get());
  }
  const auto compiled = CompiledGraphs::Make(pointers);
  ASSERT_TRUE(compiled.has_value()) << "seeds from " << seeds[0] << ": " << compiled.error().message;
  for (const auto& [batch, items] : {std::pair{1, 1}, {7, 3}, {8, 16}}) {
    std::vector<TensorData> inputs;
    size_t output_count = 0;
    for (size_t i = 0; i < graphs.size(); ++i) {
      for (const ReferenceTensor& input : RandomInputs(*graphs[i], seeds[i], {{"batch", batch}, {"items", items}}))
        inputs.push_back(input.ToData());
      output_count += graphs[i]->outputs.size();
    }
    const auto aligned = Answers(**compiled, inputs, output_count, [](Dtype) { return 0; });
    Random random(seeds[0]);
    const auto between_vectors = Answers(**compiled, inputs, output_count, [&](Dtype element) {
      return static_cast<size_t>(random.Below(16)) * DtypeBytes(element);
    });
    EXPECT_EQ(between_vectors, aligned) << "seeds from " << seeds[0] << " batch " << batch << " items " << items;
    const auto between_elements =
        Answers(**compiled, inputs, output_count, [&](Dtype) { return static_cast<size_t>(random.Below(64)); });
    EXPECT_EQ(between_elements, aligned) << "seeds from " << seeds[0] << " batch " << batch << " items " << items;
  }
}

class MemoryPlaces : public testing::Test {
 protected:
  void SetUp() override { setenv("FUSEC_CXXFLAGS", kChecked, /*overwrite=*/0); }
  void TearDown() override {
    if (std::string(std::getenv("FUSEC_CXXFLAGS")) == kChecked) unsetenv("FUSEC_CXXFLAGS");
  }
};

TEST_F(MemoryPlaces, AnswersAreTheSameAnywhere) {
  constexpr size_t kTogether = 20;
  const std::vector<uint64_t> seeds = SeedsToRun(40);
  for (size_t first = 0; first < seeds.size(); first += kTogether) {
    const std::vector<uint64_t> some(seeds.begin() + static_cast<int64_t>(first),
                                     seeds.begin() + static_cast<int64_t>(std::min(first + kTogether, seeds.size())));
    Compare(some, Dtype::kF32);
    Compare(some, Dtype::kF16);
  }
}

}  // namespace
}  // namespace fusec
