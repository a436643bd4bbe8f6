#include "runtime/src/cuda/cuda_matmul_epilogue.h"

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/cuda/cuda_kernels.h"
#include "runtime/src/cuda/nvrtc.h"

namespace fusec::runtime {
namespace {

// Source text that loads and stores each dtype. bf16 is rounded to nearest even with integer
// operations, because the instruction for it needs sm_80.
constexpr char kFloat32[] = R"(typedef float Stored;
typedef float Wide;
__device__ Wide Load(Stored x) { return x; }
__device__ Stored Round(Wide x) { return x; }
)";
constexpr char kFloat64[] = R"(typedef double Stored;
typedef double Wide;
__device__ Wide Load(Stored x) { return x; }
__device__ Stored Round(Wide x) { return x; }
)";
constexpr char kFloat16[] = R"(typedef unsigned short Stored;
typedef float Wide;
__device__ Wide Load(Stored x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x));
  return wide;
}
__device__ Stored Round(Wide x) {
  unsigned short stored;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(stored) : "f"(x));
  return stored;
}
)";
constexpr char kBfloat16[] = R"(typedef unsigned short Stored;
typedef float Wide;
__device__ Wide Load(Stored x) { return __int_as_float(static_cast<unsigned>(x) << 16); }
__device__ Stored Round(Wide x) {
  const unsigned bits = __float_as_int(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;  // NaN
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}
)";

// The numbers of `activation` are those of enum class Activation.
constexpr char kBody[] = R"(
__device__ Wide Activate(Wide x, int activation) {
  const Wide one = 1, half = 0.5;
  switch (activation) {
    case 1: return x < 0 ? 0 : x;  // relu; NaN stays
    case 2: {                      // gelu, tanh form
      const Wide inner = static_cast<Wide>(0.7978845608028654) *
                         (x + static_cast<Wide>(0.044715) * x * x * x);
      return half * x * (one + tanh(inner));
    }
    case 3: return half * x * (one + erf(x * static_cast<Wide>(0.7071067811865476)));  // gelu
    case 4: return one / (one + exp(-x));                                              // sigmoid
    case 5: return tanh(x);
    default: return x;
  }
}

extern "C" __global__ void __launch_bounds__(256)
matmul_epilogue(Stored* d, const Stored* bias, long long matrix_elements, long long columns,
                long long batch_stride, long long total, int from_zero, int activation) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (long long i = first; i < total; i += step) {
    const long long inside = i % matrix_elements;
    Stored* place = d + i / matrix_elements * batch_stride + inside;
    Wide value = from_zero ? static_cast<Wide>(0) : Load(*place);
    if (bias) value += Load(bias[inside % columns]);
    *place = Round(Activate(value, activation));
  }
}
)";

static_assert(static_cast<int>(Activation::kRelu) == 1 &&
              static_cast<int>(Activation::kGeluTanh) == 2);
static_assert(static_cast<int>(Activation::kGeluErf) == 3 &&
              static_cast<int>(Activation::kSigmoid) == 4);
static_assert(static_cast<int>(Activation::kTanh) == 5);

}  // namespace

std::string MatmulEpilogueSource(fusec_dtype dtype) {
  const char* types = dtype == FUSEC_F16    ? kFloat16
                      : dtype == FUSEC_BF16 ? kBfloat16
                      : dtype == FUSEC_F64  ? kFloat64
                                            : kFloat32;
  return Text(types, kBody);
}

StatusOr<CUfunction> MatmulEpilogues::Kernel(fusec_dtype dtype) {
  std::lock_guard lock(mutex_);
  auto found = modules_.find(dtype);
  if (found == modules_.end()) {
    FUSEC_RT_ASSIGN(const Nvrtc* nvrtc, Nvrtc::Get());
    FUSEC_RT_ASSIGN(const std::string arch,
                    NvrtcArchitecture(context_.capability(), nvrtc->supported_capabilities()));
    const std::string name = Text("matmul_epilogue_", DtypeName(dtype), ".cu");
    FUSEC_RT_ASSIGN(const std::string image,
                    CompileCached(name, MatmulEpilogueSource(dtype), arch));
    FUSEC_RT_ASSIGN(CudaModule module, LoadModule(context_, image.c_str(), name));
    found = modules_.emplace(dtype, std::move(module)).first;
  }
  CUfunction function = nullptr;
  FUSEC_RT_TRY(FUSEC_CUDA(context_, "kernel matmul_epilogue", cuModuleGetFunction, &function,
                          found->second.get(), "matmul_epilogue"));
  return function;
}

}  // namespace fusec::runtime
