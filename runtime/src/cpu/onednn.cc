#include "runtime/src/cpu/onednn.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include <cstdlib>
#include <cstring>

namespace fusec::runtime {

// The functions of oneDNN that are used.
#define FUSEC_ONEDNN_FUNCTIONS(X)                                                              \
  X(dnnl_version) X(dnnl_engine_create) X(dnnl_stream_create) X(dnnl_stream_destroy)           \
  X(dnnl_stream_wait) X(dnnl_memory_desc_init_by_strides) X(dnnl_memory_desc_init_by_tag)      \
  X(dnnl_memory_desc_equal) X(dnnl_memory_desc_get_size) X(dnnl_memory_create)                 \
  X(dnnl_memory_destroy) X(dnnl_memory_set_data_handle) X(dnnl_matmul_desc_init)               \
  X(dnnl_primitive_attr_create) X(dnnl_primitive_attr_destroy) X(dnnl_post_ops_create)         \
  X(dnnl_post_ops_destroy) X(dnnl_post_ops_append_eltwise) X(dnnl_primitive_attr_set_post_ops) \
  X(dnnl_primitive_desc_create) X(dnnl_primitive_desc_destroy) X(dnnl_primitive_desc_query_md) \
  X(dnnl_reorder_primitive_desc_create) X(dnnl_primitive_create) X(dnnl_primitive_destroy)     \
  X(dnnl_primitive_execute) X(dnnl_get_effective_cpu_isa)

struct OneDnn::Functions {
#define FUSEC_DECLARE(name) decltype(&::name) name = nullptr;
  FUSEC_ONEDNN_FUNCTIONS(FUSEC_DECLARE)
#undef FUSEC_DECLARE
};

namespace {

using Md = dnnl_memory_desc_t;

// Frees oneDNN's temporary objects.
template <class Handle>
class Owned {
 public:
  explicit Owned(dnnl_status_t (*destroy)(Handle)) : destroy_(destroy) {}
  ~Owned() {
    if (handle_) destroy_(handle_);
  }
  Owned(const Owned&) = delete;
  Handle* out() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  dnnl_status_t (*destroy_)(Handle);
  Handle handle_ = nullptr;
};

bool Good(dnnl_status_t status) { return status == dnnl_success; }

dnnl_alg_kind_t EltwiseOf(Activation activation) {
  switch (activation) {
    case Activation::kGeluTanh: return dnnl_eltwise_gelu_tanh;
    case Activation::kGeluErf: return dnnl_eltwise_gelu_erf;
    case Activation::kSigmoid: return dnnl_eltwise_logistic;
    case Activation::kTanh: return dnnl_eltwise_tanh;
    case Activation::kRelu:
    case Activation::kNone: break;
  }
  return dnnl_alg_kind_undef;
}

dnnl_data_type_t TypeOf(fusec_dtype dtype) {
  switch (dtype) {
    case FUSEC_BF16: return dnnl_bf16;
    case FUSEC_I32: return dnnl_s32;
    case FUSEC_U8: return dnnl_u8;
    case FUSEC_I8: return dnnl_s8;
    default: return dnnl_f32;
  }
}

// Whether oneDNN has exact products of u8 by i8. (Those of i8 by i8 pass through f32.) Without the
// instructions for these, it adds pairs of products in 16 bits, where they may overflow.
bool HasShortProducts(const OneDnn::Functions& f) {
  const int isa = f.dnnl_get_effective_cpu_isa();
  return (isa & dnnl_cpu_isa_avx512_core_vnni) == dnnl_cpu_isa_avx512_core_vnni;
}

// Describes one operand of `dtype` to oneDNN: matrices [rows, columns] with a leading axis for the
// batch (of length 1 if all share one matrix). For a batch of one the axis is omitted, because 2-D
// kernels are faster.
Md Describe(const OneDnn::Functions& f, const HostMatmul& call, fusec_dtype dtype, int64_t rows,
            int64_t columns, bool transposed, int64_t batch_stride) {
  const int64_t row_stride = transposed ? 1 : columns;
  const int64_t column_stride = transposed ? rows : 1;
  const bool is_shared = batch_stride == 0;
  const dnnl_dims_t dims = {is_shared ? 1 : call.sizes.batch, rows, columns};
  const dnnl_dims_t strides = {is_shared ? rows * columns : batch_stride, row_stride,
                               column_stride};
  const int skip = call.sizes.batch == 1 ? 1 : 0;
  Md md{};
  f.dnnl_memory_desc_init_by_strides(&md, 3 - skip, dims + skip, TypeOf(dtype), strides + skip);
  return md;
}

Md DescribeA(const OneDnn::Functions& f, const HostMatmul& call) {
  return Describe(f, call, call.has_short_factors ? FUSEC_U8 : call.dtype, call.sizes.m,
                  call.sizes.k, call.transpose_a, call.sizes.a_stride);
}
Md DescribeB(const OneDnn::Functions& f, const HostMatmul& call) {
  return Describe(f, call, call.has_short_factors ? FUSEC_I8 : call.dtype, call.sizes.k,
                  call.sizes.n, call.transpose_b, call.sizes.b_stride);
}
Md DescribeD(const OneDnn::Functions& f, const HostMatmul& call) {
  return Describe(f, call, call.dtype, call.sizes.m, call.sizes.n, false, call.sizes.d_stride);
}
Md DescribeBias(const OneDnn::Functions& f, const HostMatmul& call) {
  return Describe(f, call, call.dtype, 1, call.sizes.n, false, 0);
}

}  // namespace

const OneDnn* OneDnn::Get() {
  // The library is never closed: its threads and caches live as long as the process.
  static const OneDnn* const library = []() -> const OneDnn* {
    const char* wanted = std::getenv("FUSEC_ONEDNN");
    if (wanted && std::strcmp(wanted, "0") == 0) return nullptr;
    static OneDnn opened;
    return opened.Open() ? &opened : nullptr;
  }();
  return library;
}

bool OneDnn::Open() {
  void* handle = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return false;
  functions_ = {new Functions, [](Functions* functions) { delete functions; }};
  bool complete = true;
#define FUSEC_LOAD(name)                                                              \
  functions_->name = reinterpret_cast<decltype(functions_->name)>(dlsym(handle, #name)); \
  complete = complete && functions_->name;
  FUSEC_ONEDNN_FUNCTIONS(FUSEC_LOAD)
#undef FUSEC_LOAD
  return complete && functions_->dnnl_version()->major == 2 &&
         Good(functions_->dnnl_engine_create(&engine_, dnnl_cpu, 0));
}

class PackedWeight {
 public:
  PackedWeight(const OneDnn& library, const Md& from, const Md& to)
      : from_(from), to_(to), size_(library.functions().dnnl_memory_desc_get_size(&to)) {
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (size_ / 64 + 1) * 64)));
  }
  void* data() const { return bytes_.get(); }
  bool Matches(const OneDnn::Functions& f, const Md& from, const Md& to) const {
    return f.dnnl_memory_desc_equal(&from_, &from) && f.dnnl_memory_desc_equal(&to_, &to);
  }

  bool Fill(const OneDnn& library, const void* plain) {
    const OneDnn::Functions& f = library.functions();
    Owned<dnnl_primitive_desc_t> description(f.dnnl_primitive_desc_destroy);
    Owned<dnnl_primitive_t> reorder(f.dnnl_primitive_destroy);
    Owned<dnnl_memory_t> source(f.dnnl_memory_destroy), target(f.dnnl_memory_destroy);
    Owned<dnnl_stream_t> stream(f.dnnl_stream_destroy);
    const dnnl_engine_t engine = library.engine();
    if (!bytes_ ||
        !Good(f.dnnl_reorder_primitive_desc_create(description.out(), &from_, engine, &to_, engine,
                                                   nullptr)) ||
        !Good(f.dnnl_primitive_create(reorder.out(), description.get())) ||
        !Good(f.dnnl_memory_create(source.out(), &from_, engine, const_cast<void*>(plain))) ||
        !Good(f.dnnl_memory_create(target.out(), &to_, engine, data())) ||
        !Good(f.dnnl_stream_create(stream.out(), engine, dnnl_stream_default_flags))) {
      return false;
    }
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, source.get()},
                                         {DNNL_ARG_TO, target.get()}};
    return Good(f.dnnl_primitive_execute(reorder.get(), stream.get(), 2, arguments)) &&
           Good(f.dnnl_stream_wait(stream.get()));
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  Md from_, to_;
  size_t size_;
  std::unique_ptr<std::byte[], Free> bytes_;
};

PackedWeights::PackedWeights() = default;
PackedWeights::~PackedWeights() = default;

std::shared_ptr<const PackedWeight> PackedWeights::Get(const OneDnn& library, const void* plain,
                                                       const Md& from, const Md& to) {
  const std::lock_guard lock(mutex_);
  auto& layouts = by_source_[plain];
  for (const auto& layout : layouts) {
    if (layout->Matches(library.functions(), from, to)) return layout;
  }
  if (layouts.size() >= kMostLayouts) return nullptr;
  auto packed = std::make_shared<PackedWeight>(library, from, to);
  if (!packed->Fill(library, plain)) return nullptr;
  layouts.push_back(packed);
  return packed;
}

std::unique_ptr<OneDnnMatmul> OneDnnMatmul::Create(const OneDnn& library, const HostMatmul& call,
                                                   PackedWeights* weights, bool only_blocks) {
  const bool has_floats = call.dtype == FUSEC_F32 || call.dtype == FUSEC_BF16;
  if (call.has_short_factors ? !HasShortProducts(library.functions()) : !has_floats) return nullptr;
  if (call.activation == Activation::kRelu) return nullptr;
  std::unique_ptr<OneDnnMatmul> matmul(new OneDnnMatmul(library));
  return matmul->CreatePrimitive(call, weights, only_blocks) ? std::move(matmul) : nullptr;
}

OneDnnMatmul::~OneDnnMatmul() {
  const OneDnn::Functions& f = library_.functions();
  for (const dnnl_memory_t memory : {a_, b_, bias_, d_}) {
    if (memory) f.dnnl_memory_destroy(memory);
  }
  if (primitive_) f.dnnl_primitive_destroy(primitive_);
  if (stream_) f.dnnl_stream_destroy(stream_);
}

bool OneDnnMatmul::CreatePrimitiveFor(const Md& b, const HostMatmul& call,
                                      dnnl_primitive_desc_t* description) const {
  const OneDnn::Functions& f = library_.functions();
  const Md a = DescribeA(f, call), d = DescribeD(f, call), bias = DescribeBias(f, call);
  dnnl_matmul_desc_t operation;
  Owned<dnnl_primitive_attr_t> attributes(f.dnnl_primitive_attr_destroy);
  Owned<dnnl_post_ops_t> post_ops(f.dnnl_post_ops_destroy);
  if (!Good(f.dnnl_matmul_desc_init(&operation, &a, &b, call.bias ? &bias : nullptr, &d)) ||
      !Good(f.dnnl_primitive_attr_create(attributes.out())) ||
      !Good(f.dnnl_post_ops_create(post_ops.out()))) {
    return false;
  }
  if (call.activation != Activation::kNone &&
      (!Good(f.dnnl_post_ops_append_eltwise(post_ops.get(), 1.0f, EltwiseOf(call.activation), 0.0f,
                                            0.0f)) ||
       !Good(f.dnnl_primitive_attr_set_post_ops(attributes.get(), post_ops.get())))) {
    return false;
  }
  return Good(f.dnnl_primitive_desc_create(description, &operation, attributes.get(),
                                           library_.engine(), nullptr));
}

Md OneDnnMatmul::FastestLayout(const HostMatmul& call) const {
  const OneDnn::Functions& f = library_.functions();
  const Md plain = DescribeB(f, call);
  Owned<dnnl_primitive_desc_t> free_layout(f.dnnl_primitive_desc_destroy);
  Md any{};
  f.dnnl_memory_desc_init_by_tag(&any, plain.ndims, plain.dims, plain.data_type,
                                 dnnl_format_tag_any);
  if (!CreatePrimitiveFor(any, call, free_layout.out())) return plain;
  return *f.dnnl_primitive_desc_query_md(free_layout.get(), dnnl_query_weights_md, 0);
}

bool OneDnnMatmul::CreatePrimitive(const HostMatmul& call, PackedWeights* weights,
                                   bool only_blocks) {
  const OneDnn::Functions& f = library_.functions();
  const dnnl_engine_t engine = library_.engine();
  const Md plain = DescribeB(f, call);
  Md b = plain;
  Owned<dnnl_primitive_desc_t> description(f.dnnl_primitive_desc_destroy);
  if (weights) {
    b = FastestLayout(call);
    if (only_blocks && b.format_desc.blocking.inner_nblks == 0) return false;
    if (!f.dnnl_memory_desc_equal(&b, &plain)) packed_ = weights->Get(library_, call.b, plain, b);
    if (!packed_) b = plain;
  }
  if (!CreatePrimitiveFor(b, call, description.out())) return false;
  const Md a = DescribeA(f, call), d = DescribeD(f, call), bias = DescribeBias(f, call);
  return Good(f.dnnl_primitive_create(&primitive_, description.get())) &&
         Good(f.dnnl_stream_create(&stream_, engine, dnnl_stream_default_flags)) &&
         Good(f.dnnl_memory_create(&a_, &a, engine, DNNL_MEMORY_NONE)) &&
         Good(f.dnnl_memory_create(&b_, &b, engine,
                                   packed_ ? packed_->data() : DNNL_MEMORY_NONE)) &&
         (!call.bias || Good(f.dnnl_memory_create(&bias_, &bias, engine, DNNL_MEMORY_NONE))) &&
         Good(f.dnnl_memory_create(&d_, &d, engine, DNNL_MEMORY_NONE));
}

bool OneDnnMatmul::Run(const HostMatmul& call) const {
  const OneDnn::Functions& f = library_.functions();
  const auto point = [&f](dnnl_memory_t memory, const void* data) {
    return Good(f.dnnl_memory_set_data_handle(memory, const_cast<void*>(data)));
  };
  if (!point(a_, call.a) || !point(d_, call.d) || (!packed_ && !point(b_, call.b)) ||
      (bias_ && !point(bias_, call.bias))) {
    return false;
  }
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, a_},
                                       {DNNL_ARG_WEIGHTS, b_},
                                       {DNNL_ARG_DST, d_},
                                       {DNNL_ARG_BIAS, bias_}};
  return Good(f.dnnl_primitive_execute(primitive_, stream_, bias_ ? 4 : 3, arguments)) &&
         Good(f.dnnl_stream_wait(stream_));
}

}  // namespace fusec::runtime
