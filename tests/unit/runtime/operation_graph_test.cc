#include "runtime/src/cuda/operation_graph.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "tests/unit/runtime/fake_cuda.h"

namespace fusec::runtime {
namespace {

// Operations on one number in the fake GPU's memory: kernels that add, and products that consist of multiplying kernels.
class OperationGraphTest : public testing::Test {
 protected:
  static CopyOperation CopyOf(const void* host, size_t bytes, CUdeviceptr to = 1) {
    return {to, reinterpret_cast<CUdeviceptr>(host), bytes};
  }
  void SetUp() override {
    FakeGpu::current = &gpu_;
    gpu_.kernels["add"] = {
        [](void** a, unsigned blocks, unsigned) { **static_cast<int64_t**>(a[0]) += blocks; }, {8}};
    gpu_.kernels["multiply"] = {
        [](void** a, unsigned blocks, unsigned) { **static_cast<int64_t**>(a[0]) *= blocks; }, {8}};
    driver_ = gpu_.Driver();
    context_ = std::move(*CudaContext::Create(driver_, 0));
    environment_.context = context_.get();
    driver_.cuStreamCreate(&environment_.capture_stream, 0);
  }
  void TearDown() override {
    driver_.cuStreamDestroy(environment_.capture_stream);
    context_.reset();
    EXPECT_EQ(gpu_.live, 0);
  }

  KernelOperation Kernel(const char* name, unsigned blocks) {
    KernelOperation kernel;
    kernel.name = name;
    kernel.function = reinterpret_cast<CUfunction>(&gpu_.kernels.at(name));
    kernel.blocks = blocks;
    kernel.arguments = {reinterpret_cast<uint64_t>(&number_)};
    kernel.starts = {0};
    return kernel;
  }

  // A product captured as one node for each factor.
  MatmulOperation Product(std::initializer_list<unsigned> factors) {
    MatmulOperation matmul;
    matmul.name = "m3";
    matmul.pointers.a = ++address_;  // no two are equal
    CUgraph graph = nullptr;
    driver_.cuGraphCreate(&graph, 0);
    CUgraphNode previous = nullptr;
    for (const unsigned factor : factors) {
      const KernelOperation kernel = Kernel("multiply", factor);
      std::vector<void*> arguments = kernel.ArgumentPointers();
      CUDA_KERNEL_NODE_PARAMS parameters = {};
      parameters.func = kernel.function;
      parameters.gridDimX = factor;
      parameters.kernelParams = arguments.data();
      driver_.cuGraphAddKernelNode(&previous, graph, &previous, previous == nullptr ? 0 : 1,
                                   &parameters);
    }
    matmul.captured = std::make_shared<const CudaGraph>(*context_, graph);
    return matmul;
  }

  OperationGraph Build(const std::vector<Operation>& operations) {
    auto graphs = OperationGraph::Build(environment_, operations, 1);
    EXPECT_TRUE(graphs);
    return std::move((*graphs)[0]);
  }

  int64_t Launch(const OperationGraph& graph) {
    number_ = 0;
    EXPECT_TRUE(graph.Launch(*context_, environment_.capture_stream));
    driver_.cuStreamSynchronize(environment_.capture_stream);
    return number_;
  }

  FakeGpu gpu_;
  CudaDriver driver_;
  std::unique_ptr<CudaContext> context_;
  OperationEnvironment environment_;
  int64_t number_ = 0;
  CUdeviceptr address_ = 0;
};

TEST_F(OperationGraphTest, PutsKernelsInThePlaceOfOthersAroundAProduct) {
  const MatmulOperation product = Product({3, 2});
  OperationGraph graph = Build({Kernel("add", 5), product, Kernel("add", 1)});
  EXPECT_EQ(Launch(graph), 31);
  const std::vector<Operation> other = {Kernel("add", 2), product, Kernel("multiply", 10)};
  ASSERT_TRUE(graph.Fits(other));
  const auto updated = graph.Update(environment_, other);
  ASSERT_TRUE(updated && *updated);
  EXPECT_EQ(Launch(graph), 120);
  EXPECT_EQ(gpu_.patched, 2);
  ASSERT_TRUE(graph.Update(environment_, other));
  EXPECT_EQ(gpu_.patched, 2);
}

TEST_F(OperationGraphTest, FitsItsShapeOnly) {
  const MatmulOperation product = Product({3, 2});
  const OperationGraph graph = Build({Kernel("add", 5), product});
  EXPECT_TRUE(graph.Fits({Kernel("multiply", 1), product}));
  EXPECT_FALSE(graph.Fits({Kernel("add", 5)}));
  EXPECT_FALSE(graph.Fits({Kernel("add", 5), Kernel("add", 5)}));
  EXPECT_FALSE(graph.Fits({Kernel("add", 5), product, Kernel("add", 5)}));
  EXPECT_FALSE(graph.Fits({Kernel("add", 5), Product({3, 2})}));
  const OperationGraph copies = Build({CopyOf(&number_, 8)});
  EXPECT_TRUE(copies.Fits({CopyOf(&number_, 4)}));
  EXPECT_FALSE(copies.Fits({CopyOf(&address_, 8)}));
  EXPECT_FALSE(copies.Fits({CopyOf(&number_, 8, 2)}));
}

TEST_F(OperationGraphTest, LaunchesEarlyWhatWaitsBehindWhatWaits) {
  KernelOperation waits = Kernel("add", 5), plain = Kernel("multiply", 3);
  waits.dependent_launch = true;
  int64_t from = 1, to = 0;
  const CopyOperation copy = CopyOf(&from, 8, reinterpret_cast<CUdeviceptr>(&to));
  const OperationGraph graph =
      Build({waits, waits, plain, waits, Product({2}), waits, copy, waits, waits, waits});
  EXPECT_EQ(gpu_.programmatic_edges, 1 + 2);
  EXPECT_EQ(Launch(graph), ((5 + 5) * 3 + 5) * 2 + 20);
  EXPECT_TRUE(Build({waits}).Fits({waits}));
  EXPECT_FALSE(Build({waits}).Fits({plain}));
}

TEST_F(OperationGraphTest, SaysWhenTheDriverRefusesAKernel) {
  OperationGraph graph = Build({Kernel("add", 5)});
  driver_.cuGraphExecKernelNodeSetParams = [](CUgraphExec, CUgraphNode,
                                              const CUDA_KERNEL_NODE_PARAMS*) {
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  };
  const auto updated = graph.Update(environment_, {Kernel("add", 4)});
  ASSERT_TRUE(updated);
  EXPECT_FALSE(*updated);
}

TEST_F(OperationGraphTest, NamesTheKernelOfAnError) {
  OperationGraph graph = Build({Kernel("add", 5)});
  driver_.cuGraphExecKernelNodeSetParams = [](CUgraphExec, CUgraphNode,
                                              const CUDA_KERNEL_NODE_PARAMS*) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  };
  const auto updated = graph.Update(environment_, {Kernel("multiply", 5)});
  ASSERT_FALSE(updated);
  EXPECT_NE(updated.error().message.find("kernel multiply"), std::string::npos)
      << updated.error().message;
}

}  // namespace
}  // namespace fusec::runtime
