// An answer in a fresh process and the latency of later calls, as a server in C has them:
//
//     build/tests/call_latency ARTIFACT DEVICE SIZE SECONDS
//
// Prints "answered" when the first answer is in host memory, and then {"p50": .., "p99": ..,
// "page_locked": {"p50": .., "p99": ..}}, the microseconds of calls from host memory to host
// memory: inputs in pageable memory, and then in memory of fusec_allocate_host. Every symbol has
// that size; ids are 0.
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

struct Input {
  std::vector<int64_t> dims;
  std::vector<char> pageable;
  void* page_locked = nullptr;
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

void Call(fusec_context* context, const std::vector<Input>& inputs, bool page_locked) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [dims, pageable, locked] = inputs[i];
    Check(fusec_bind_input(context, static_cast<int>(i), page_locked ? locked : pageable.data(),
                           dims.data(), static_cast<int>(dims.size()), 0));
  }
  Check(fusec_run(context));
  if (fusec_get_output(context, 0, nullptr) == nullptr) std::exit(1);
}

// "p50": .., "p99": ..
std::string Percentiles(fusec_context* context, const std::vector<Input>& inputs, bool page_locked,
                        double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> us;
  const auto begin = Clock::now();
  for (auto now = begin; now - begin < std::chrono::duration<double>(seconds) || us.size() < 10;) {
    Call(context, inputs, page_locked);
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

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: call_latency ARTIFACT DEVICE SIZE SECONDS\n");
    return FUSEC_BAD_USAGE;
  }
  fusec_program* program = nullptr;
  fusec_context* context = nullptr;
  Check(fusec_load(arguments[1], arguments[2], &program));
  Check(fusec_create_context(program, &context));
  std::vector<Input> inputs;
  for (int i = 0; i < fusec_input_count(program); ++i)
    inputs.push_back(MakeInput(program, i, std::atoll(arguments[3])));
  Call(context, inputs, false);
  std::printf("answered\n");
  std::fflush(stdout);

  const double seconds = std::atof(arguments[4]);
  const std::string pageable = Percentiles(context, inputs, false, seconds);
  for (Input& input : inputs) {
    Check(fusec_allocate_host(program, input.pageable.size(), &input.page_locked));
    std::memset(input.page_locked, 0, input.pageable.size());
  }
  const std::string page_locked = Percentiles(context, inputs, true, seconds);
  std::printf("{%s, \"page_locked\": {%s}}\n", pageable.c_str(), page_locked.c_str());
  fusec_destroy_context(context);
  for (const Input& input : inputs) fusec_free_host(program, input.page_locked);
  fusec_unload(program);
  return 0;
}
