// Memory to which inputs and outputs are bound: GPU memory if the server is built with
// DEVICE_MEMORY, otherwise host memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <vector>

#ifdef DEVICE_MEMORY
#include <cuda_runtime_api.h>

inline void Check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

class Buffer {
 public:
  static constexpr bool kOnDevice = true;
  explicit Buffer(size_t bytes) : bytes_(bytes) { Check(cudaMalloc(&data_, bytes)); }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }

  void* data() { return data_; }
  // Copies to the buffer, in order with the other work of `stream`.
  void Fill(const void* from, void* stream) {
    Check(cudaMemcpyAsync(data_, from, bytes_, cudaMemcpyHostToDevice,
                          static_cast<cudaStream_t>(stream)));
  }
  void Read(void* to) const { Check(cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost)); }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

#else

class Buffer {
 public:
  static constexpr bool kOnDevice = false;
  explicit Buffer(size_t bytes) : memory_(bytes) {}

  void* data() { return memory_.data(); }
  void Fill(const void* from, void*) { std::memcpy(memory_.data(), from, memory_.size()); }
  void Read(void* to) const { std::memcpy(to, memory_.data(), memory_.size()); }

 private:
  std::vector<std::byte> memory_;
};

#endif
