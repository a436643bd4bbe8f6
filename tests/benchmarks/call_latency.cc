// Measures the first answer of a fresh process, and the latency of later calls, as in a server written in C:
//
//     build/tests/call_latency ARTIFACT DEVICE SIZE SECONDS
//
// Prints "answered" when the first answer is in host memory, and then {"p50": .., "p99": .., "page_locked": {"p50": .., "p99": ..},
// "device": {..}}, the microseconds of calls: from pageable host memory to host memory, from memory of fusec_allocate_host to host memory,
// and, on a GPU, from GPU memory to GPU memory. Every symbol has the value SIZE; ids are 0.
#include <dlfcn.h>
#include <fusec/fusec.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

void Check(fusec_status status) {
  if (status == FUSEC_OK) return;
  std::fprintf(stderr, "%s\n", fusec_last_error());
  std::exit(status);
}

// Allocates zeroed memory on the program's GPU, with the driver that the program has loaded.
void* AllocateOnDevice(const char* device, size_t bytes) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto call = [&](const char* name, auto... arguments) {
    const auto function =
        driver ? reinterpret_cast<int (*)(decltype(arguments)...)>(dlsym(driver, name)) : nullptr;
    const int error = function ? function(arguments...) : -1;
    if (error == 0) return;
    std::fprintf(stderr, "%s failed with %d\n", name, error);
    std::exit(FUSEC_NO_DEVICE);
  };
  const char* number = std::strchr(device, ':');
  int ordinal = 0;
  void* context = nullptr;
  unsigned long long address = 0;
  call("cuDeviceGet", &ordinal, number ? std::atoi(number + 1) : 0);
  call("cuDevicePrimaryCtxRetain", &context, ordinal);
  call("cuCtxSetCurrent", context);
  call("cuMemAlloc_v2", &address, bytes);
  call("cuMemsetD8_v2", address, static_cast<unsigned char>(0), bytes);
  call("cuCtxSynchronize");
  return reinterpret_cast<void*>(address);
}

// Where the inputs of the calls lie; with kDevice, the outputs lie there, too.
enum class Place { kPageable, kPageLocked, kDevice };

struct Input {
  std::vector<int64_t> dims;
  std::vector<char> pageable;
  void *page_locked = nullptr, *device = nullptr;
};

Input MakeInput(const fusec_program* program, int i, int64_t size) {
  fusec_tensor_info info;
  Check(fusec_input_info(program, i, &info));
  Input input;
  size_t bytes = fusec_dtype_bytes(info.dtype);
  for (int axis = 0; axis < info.rank; ++axis) {
    const std::string dim = info.dims[axis];
    const bool is_number = dim.find_first_not_of("0123456789") == std::string::npos;
    input.dims.push_back(is_number ? std::stoll(dim) : size);
    bytes *= static_cast<size_t>(input.dims.back());
  }
  input.pageable.resize(bytes);
  return input;
}

void Call(fusec_context* context, const std::vector<Input>& inputs, Place place) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [dims, pageable, page_locked, device] = inputs[i];
    const void* data = place == Place::kPageable     ? pageable.data()
                       : place == Place::kPageLocked ? page_locked
                                                     : device;
    Check(fusec_bind_input(context, static_cast<int>(i), data, dims.data(),
                           static_cast<int>(dims.size()), place == Place::kDevice));
  }
  Check(fusec_run(context));
}

// "p50": .., "p99": ..
std::string Percentiles(fusec_context* context, const std::vector<Input>& inputs, Place place,
                        double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> us;
  const auto begin = Clock::now();
  for (auto now = begin; now - begin < std::chrono::duration<double>(seconds) || us.size() < 10;) {
    Call(context, inputs, place);
    const auto end = Clock::now();
    us.push_back(std::chrono::duration<double, std::micro>(end - now).count());
    now = end;
  }
  us.erase(us.begin(), us.begin() + static_cast<ptrdiff_t>(us.size() / 10));  // warming up
  std::sort(us.begin(), us.end());
  char text[100];
  std::snprintf(text, sizeof text, "\"p50\": %.3f, \"p99\": %.3f", us[us.size() / 2],
                us[us.size() * 99 / 100]);
  return text;
}

// Binds every output to GPU memory.
void BindOutputsOnDevice(const fusec_program* program, fusec_context* context, const char* device) {
  for (int i = 0; i < fusec_output_count(program); ++i) {
    fusec_tensor_info info;
    Check(fusec_output_info(program, i, &info));
    std::vector<int64_t> dims(static_cast<size_t>(info.rank));
    Check(fusec_output_dims(context, i, dims.data()));
    size_t bytes = fusec_dtype_bytes(info.dtype);
    for (const int64_t dim : dims) bytes *= static_cast<size_t>(dim);
    Check(fusec_bind_output(context, i, AllocateOnDevice(device, bytes), bytes, 1));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: call_latency ARTIFACT DEVICE SIZE SECONDS\n");
    return FUSEC_BAD_USAGE;
  }
  const char* const device = arguments[2];
  fusec_program* program = nullptr;
  fusec_context* context = nullptr;
  Check(fusec_load(arguments[1], device, &program));
  Check(fusec_create_context(program, &context));
  std::vector<Input> inputs;
  for (int i = 0; i < fusec_input_count(program); ++i)
    inputs.push_back(MakeInput(program, i, std::atoll(arguments[3])));
  Call(context, inputs, Place::kPageable);
  if (fusec_get_output(context, 0, nullptr) == nullptr) return 1;
  std::printf("answered\n");
  std::fflush(stdout);

  const double seconds = std::atof(arguments[4]);
  const std::string pageable = Percentiles(context, inputs, Place::kPageable, seconds);
  for (Input& input : inputs) {
    Check(fusec_allocate_host(program, input.pageable.size(), &input.page_locked));
    std::memset(input.page_locked, 0, input.pageable.size());
  }
  const std::string page_locked = Percentiles(context, inputs, Place::kPageLocked, seconds);
  std::string on_device;
  if (std::strncmp(device, "cuda", 4) == 0) {
    BindOutputsOnDevice(program, context, device);
    for (Input& input : inputs) input.device = AllocateOnDevice(device, input.pageable.size());
    on_device = ", \"device\": {" + Percentiles(context, inputs, Place::kDevice, seconds) + "}";
  }
  std::printf("{%s, \"page_locked\": {%s}%s}\n", pageable.c_str(), page_locked.c_str(),
              on_device.c_str());
  fusec_destroy_context(context);
  for (const Input& input : inputs) fusec_free_host(program, input.page_locked);
  fusec_unload(program);
  return 0;
}
