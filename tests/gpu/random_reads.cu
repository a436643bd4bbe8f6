// Measures the greatest bandwidth with which a GPU reads uniformly random rows of 64 to 512 bytes
// of a table that is larger than its caches. The row numbers are prepared beforehand and nothing is
// written, so embedding look-ups cannot be faster.
//
//   nvcc -O3 -arch=native -o random_reads tests/gpu/random_reads.cu && ./random_reads
//
// Prints the best bandwidth over blocks of 128 to 1024 threads, for each row size and number of
// loads in flight per thread.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CHECK(call)                                                       \
  do {                                                                    \
    if (cudaError_t error = (call); error != cudaSuccess) {               \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
      std::exit(1);                                                       \
    }                                                                     \
  } while (0)

constexpr size_t kTableBytes = size_t{4} << 30, kReadBytes = size_t{1} << 30;
constexpr int kWordBytes = 16;

// Consecutive threads read the words of a row; each thread has kLoads loads in flight.
template <int kLoads>
__global__ void ReadRows(const uint4* table, const unsigned* rows, unsigned count, int row_words,
                         unsigned* sink) {
  unsigned sum = 0;
  const unsigned threads = gridDim.x * blockDim.x, words = count * row_words;
  for (unsigned first = blockIdx.x * blockDim.x + threadIdx.x; first < words;
       first += kLoads * threads) {
    uint4 loaded[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const unsigned word = min(first + i * threads, words - 1);
      loaded[i] = __ldg(table + size_t{rows[word / row_words]} * row_words + word % row_words);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) sum += loaded[i].x ^ loaded[i].y ^ loaded[i].z ^ loaded[i].w;
  }
  if (sum == 0x12345678u) *sink = sum;
}

template <int kLoads>
double BestRate(const uint4* table, const unsigned* rows, int row_bytes, unsigned* sink,
                int multiprocessors) {
  const int row_words = row_bytes / kWordBytes;
  const unsigned count = kReadBytes / row_bytes;
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  double best = 0;
  for (int block = 128; block <= 1024; block *= 2) {
    for (int round = 0; round < 3; ++round) {
      CHECK(cudaEventRecord(begin));
      ReadRows<kLoads>
          <<<multiprocessors*(2048 / block), block>>>(table, rows, count, row_words, sink);
      CHECK(cudaEventRecord(end));
      CHECK(cudaEventSynchronize(end));
      float milliseconds = 0;
      CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
      const double rate = static_cast<double>(count) * row_bytes / (milliseconds * 1e-3);
      if (rate > best) best = rate;
    }
  }
  return best;
}

int main() {
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  std::printf("%s: TB/s from a table of 4 GiB, ids of 4 bytes not counted\n", device.name);
  uint4* table;
  unsigned *rows, *sink;
  CHECK(cudaMalloc(&table, kTableBytes));
  CHECK(cudaMemset(table, 1, kTableBytes));
  CHECK(cudaMalloc(&rows, kReadBytes / 64 * sizeof(unsigned)));
  CHECK(cudaMalloc(&sink, sizeof(unsigned)));
  std::printf("row bytes   1 load  2 loads  4 loads  8 loads\n");
  std::mt19937 random(1);
  for (const int row_bytes : {64, 128, 256, 512}) {
    std::vector<unsigned> chosen(kReadBytes / row_bytes);
    for (unsigned& row : chosen) row = random() % (kTableBytes / row_bytes);
    CHECK(
        cudaMemcpy(rows, chosen.data(), chosen.size() * sizeof(unsigned), cudaMemcpyHostToDevice));
    const int n = device.multiProcessorCount;
    std::printf("%9d %8.2f %8.2f %8.2f %8.2f\n", row_bytes,
                BestRate<1>(table, rows, row_bytes, sink, n) / 1e12,
                BestRate<2>(table, rows, row_bytes, sink, n) / 1e12,
                BestRate<4>(table, rows, row_bytes, sink, n) / 1e12,
                BestRate<8>(table, rows, row_bytes, sink, n) / 1e12);
  }
}
