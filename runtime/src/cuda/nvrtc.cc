#include "runtime/src/cuda/nvrtc.h"

#include <dlfcn.h>

#include <nvrtc.h>

#include <algorithm>

#include "runtime/src/cuda/kernel_cache.h"
#include "runtime/src/cuda/nvidia_library.h"

namespace fusec::runtime {

constexpr char kSoname[] = "libnvrtc.so.13";

struct NvrtcFunctions {
  decltype(&::nvrtcVersion) version;
  decltype(&::nvrtcGetErrorString) error_string;
  decltype(&::nvrtcGetNumSupportedArchs) num_supported_archs;
  decltype(&::nvrtcGetSupportedArchs) supported_archs;
  decltype(&::nvrtcCreateProgram) create_program;
  decltype(&::nvrtcDestroyProgram) destroy_program;
  decltype(&::nvrtcCompileProgram) compile_program;
  decltype(&::nvrtcGetProgramLogSize) log_size;
  decltype(&::nvrtcGetProgramLog) log;
  decltype(&::nvrtcGetCUBINSize) cubin_size;
  decltype(&::nvrtcGetCUBIN) cubin;
  decltype(&::nvrtcGetPTXSize) ptx_size;
  decltype(&::nvrtcGetPTX) ptx;
};

namespace {

// The compiler's options. NVRTC's own cache is off, because it would initialize the driver and the
// kernel cache replaces it.
std::vector<std::string> OptionsFor(const std::string& arch, const CompileOptions& options) {
  std::vector<std::string> texts = {"--gpu-architecture=" + arch, "--std=c++17", "--no-cache"};
  if (options.line_info) texts.push_back("--generate-line-info");
  return texts;
}

// An nvrtcProgram and the calls on it.
class NvrtcProgram {
 public:
  explicit NvrtcProgram(const NvrtcFunctions& functions) : functions_(functions) {}
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;
  ~NvrtcProgram() {
    if (program_ != nullptr) functions_.destroy_program(&program_);
  }

  Status Create(const std::string& name, const std::string& source) {
    return Check(
        "nvrtcCreateProgram",
        functions_.create_program(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr));
  }

  Status Compile(const std::string& name, const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    const nvrtcResult result =
        functions_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
    if (result == NVRTC_SUCCESS) return {};
    return Fail(FUSEC_NO_DEVICE, name, ": NVRTC could not compile it with ", options[0], " (",
                functions_.error_string(result), ")\n", Log());
  }

  // Reads a result of the compilation with a pair of functions for its size and its bytes.
  template <class SizeFunction, class CopyFunction>
  StatusOr<std::string> Output(const char* call, SizeFunction get_size, CopyFunction copy) {
    size_t bytes = 0;
    FUSEC_RT_TRY(Check(call, get_size(program_, &bytes)));
    std::string output(bytes, '\0');
    FUSEC_RT_TRY(Check(call, copy(program_, output.data())));
    return output;
  }

  std::string Log() {
    StatusOr<std::string> log = Output("nvrtcGetProgramLog", functions_.log_size, functions_.log);
    if (!log) return log.error().message;
    while (!log->empty() && (log->back() == '\0' || log->back() == '\n')) log->pop_back();
    return *std::move(log);
  }

 private:
  Status Check(const char* call, nvrtcResult result) const {
    if (result == NVRTC_SUCCESS) return {};
    return Fail(FUSEC_NO_DEVICE, call, " failed: ", functions_.error_string(result));
  }

  const NvrtcFunctions& functions_;
  nvrtcProgram program_ = nullptr;
};

template <class Function>
Status Resolve(void* library, const char* name, Function& function) {
  FUSEC_RT_ASSIGN(void* address, FindSymbol(library, kSoname, name));
  function = reinterpret_cast<Function>(address);
  return {};
}

}  // namespace

Nvrtc::Nvrtc() = default;
Nvrtc::~Nvrtc() = default;

Status Nvrtc::Open() {
  FUSEC_RT_ASSIGN(void* library, OpenNvidiaLibrary(kSoname, "FUSEC_NVRTC"));
  functions_ = std::make_unique<NvrtcFunctions>();
  NvrtcFunctions& f = *functions_;
  FUSEC_RT_TRY(Resolve(library, "nvrtcVersion", f.version));
  FUSEC_RT_TRY(Resolve(library, "nvrtcGetErrorString", f.error_string));
  FUSEC_RT_TRY(Resolve(library, "nvrtcGetNumSupportedArchs", f.num_supported_archs));
  FUSEC_RT_TRY(Resolve(library, "nvrtcGetSupportedArchs", f.supported_archs));
  FUSEC_RT_TRY(Resolve(library, "nvrtcCreateProgram", f.create_program));
  FUSEC_RT_TRY(Resolve(library, "nvrtcDestroyProgram", f.destroy_program));
  FUSEC_RT_TRY(Resolve(library, "nvrtcCompileProgram", f.compile_program));
  FUSEC_RT_TRY(Resolve(library, "nvrtcGetProgramLogSize", f.log_size));
  FUSEC_RT_TRY(Resolve(library, "nvrtcGetProgramLog", f.log));
  FUSEC_RT_TRY(Resolve(library, "nvrtcGetCUBINSize", f.cubin_size));
  FUSEC_RT_TRY(Resolve(library, "nvrtcGetCUBIN", f.cubin));
  FUSEC_RT_TRY(Resolve(library, "nvrtcGetPTXSize", f.ptx_size));
  FUSEC_RT_TRY(Resolve(library, "nvrtcGetPTX", f.ptx));
  int count = 0;
  if (f.version(&major_, &minor_) != NVRTC_SUCCESS ||
      f.num_supported_archs(&count) != NVRTC_SUCCESS) {
    return Fail(FUSEC_NO_DEVICE, kSoname, " does not report its version");
  }
  // NVRTC opens its builtins library by name when it compiles. The loader finds it in a toolkit,
  // but not in a wheel's folder, unless it is already open; so it is opened here. If it is missing,
  // NVRTC reports that.
  Dl_info place{};
  if (dladdr(reinterpret_cast<const void*>(f.version), &place) != 0 && place.dli_fname != nullptr) {
    const std::string path = place.dli_fname;
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    dlopen(Text(folder, "libnvrtc-builtins.so.", major_, ".", minor_).c_str(),
           RTLD_NOW | RTLD_GLOBAL);
  }
  supported_capabilities_.resize(static_cast<size_t>(count));
  if (f.supported_archs(supported_capabilities_.data()) != NVRTC_SUCCESS) {
    return Fail(FUSEC_NO_DEVICE, kSoname, " does not report its architectures");
  }
  std::sort(supported_capabilities_.begin(), supported_capabilities_.end());
  return {};
}

StatusOr<const Nvrtc*> Nvrtc::Get() {
  // The library is opened once. A failure is remembered too, because the environment does not
  // change while the process runs.
  static Nvrtc instance;
  static const Status opened = instance.Open();
  FUSEC_RT_TRY(opened);
  return &instance;
}

StatusOr<std::string> Nvrtc::CompileToCubin(const std::string& source_name,
                                            const std::string& source, const std::string& arch,
                                            const CompileOptions& options) const {
  NvrtcProgram program(*functions_);
  FUSEC_RT_TRY(program.Create(source_name, source));
  FUSEC_RT_TRY(program.Compile(source_name, OptionsFor(arch, options)));
  return program.Output("nvrtcGetCUBIN", functions_->cubin_size, functions_->cubin);
}

StatusOr<std::string> Nvrtc::CompileToPtx(const std::string& source_name, const std::string& source,
                                          const std::string& arch,
                                          const CompileOptions& options) const {
  NvrtcProgram program(*functions_);
  FUSEC_RT_TRY(program.Create(source_name, source));
  FUSEC_RT_TRY(program.Compile(source_name, OptionsFor(arch, options)));
  return program.Output("nvrtcGetPTX", functions_->ptx_size, functions_->ptx);
}

StatusOr<Nvrtc::Inspection> Nvrtc::Inspect(const std::string& source_name,
                                           const std::string& source,
                                           const std::string& arch) const {
  NvrtcProgram program(*functions_);
  FUSEC_RT_TRY(program.Create(source_name, source));
  std::vector<std::string> options = OptionsFor(arch, {});
  options.push_back("--ptxas-options=-v");
  FUSEC_RT_TRY(program.Compile(source_name, options));
  Inspection inspection;
  FUSEC_RT_ASSIGN(inspection.ptx,
                  program.Output("nvrtcGetPTX", functions_->ptx_size, functions_->ptx));
  inspection.log = program.Log();
  return inspection;
}

StatusOr<std::string> CompileCached(const std::string& source_name, const std::string& source,
                                    const std::string& arch, const CompileOptions& options) {
  FUSEC_RT_ASSIGN(const Nvrtc* nvrtc, Nvrtc::Get());
  std::string key = Text("nvrtc ", nvrtc->major(), ".", nvrtc->minor(), "\n");
  for (const std::string& option : OptionsFor(arch, options)) key += option + "\n";
  key += Text(source_name, "\n", source);
  return KernelCache::Default().GetOrMake(key, [&] {
    return arch.rfind("compute_", 0) == 0
               ? nvrtc->CompileToPtx(source_name, source, arch, options)
               : nvrtc->CompileToCubin(source_name, source, arch, options);
  });
}

}  // namespace fusec::runtime
