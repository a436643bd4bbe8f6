#include "compiler/driver/artifact/artifact_session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <new>

#include "compiler/support/adt.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

// The random numbers of SplitMix64, which are the same on every machine.
class RandomBits {
 public:
  explicit RandomBits(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double InUnit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // 0 <= x < 1
  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(
        (static_cast<unsigned __int128>(Next()) * static_cast<uint64_t>(limit)) >> 64);
  }

 private:
  uint64_t state_;
};

// The largest integer up to which the float type represents every integer exactly.
int64_t MostConsecutiveInteger(Dtype dtype) {
  if (dtype == Dtype::kBF16) return 1 << 8;
  if (dtype == Dtype::kF16) return 1 << 11;
  return dtype == Dtype::kF32 ? int64_t{1} << 24 : int64_t{1} << 53;
}

// The exclusive upper bounds of an input's random integers: one for all elements, or one for each
// position along the input's index axis. A bound of 0 in a float input stands for any float.
Result<std::vector<int64_t>> LimitsOf(const runtime::TensorSignature& input,
                                      ArrayRef<int64_t> symbols, bool masks) {
  const Dtype dtype = ToDtype(input.dtype);
  int64_t most = std::numeric_limits<int64_t>::max();
  if (IsFloat(dtype))
    most = MostConsecutiveInteger(dtype);
  else if (dtype == Dtype::kBool)
    most = 2;
  else if (DtypeBytes(dtype) == 1)
    most = IsUnsigned(dtype) ? 256 : 128;
  else if (DtypeBytes(dtype) == 2)
    most = IsUnsigned(dtype) ? 65536 : 32768;
  std::vector<int64_t> limits;
  for (const runtime::DimExpression& limit : input.index_limits) {
    FUSEC_RUNTIME_ASSIGN(limits.emplace_back(), limit.Evaluate(symbols));
  }
  const int64_t least = IsFloat(dtype) ? 0 : 1;
  if (limits.empty() && IsFloat(dtype)) limits = {0};
  if (limits.empty()) limits = {masks ? 2 : 1001};  // of an input that indexes no table
  for (int64_t& limit : limits) limit = std::clamp(limit, least, most);
  return limits;
}

// Splits `rows` rows at random into `count` parts and returns their lengths; or, if `offsets`,
// `count` ascending offsets from 0 to `rows`.
std::vector<int64_t> RandomParts(int64_t count, int64_t rows, bool offsets, RandomBits& random) {
  std::vector<int64_t> values(count);
  if (count == 0) return values;
  if (!offsets) {
    for (int64_t row = 0; row < rows; ++row) ++values[random.Below(count)];
    return values;
  }
  for (int64_t& value : values) value = random.Below(rows + 1);
  std::sort(values.begin(), values.end());
  values.front() = 0;
  values.back() = rows;
  return values;
}

int64_t RandomInteger(int64_t limit, bool zipf, RandomBits& random) {
  if (!zipf) return random.Below(limit);
  // The sum of 1 / i up to n is about log(n), so the exponential of a uniform draw has about the
  // frequency 1 / i.
  const double draw = std::exp(random.InUnit() * std::log(static_cast<double>(limit) + 1));
  return std::min(static_cast<int64_t>(draw) - 1, limit - 1);
}

// Fills a tensor; `limits` (see LimitsOf) are those of positions along `axis`, and elements whose
// limit is 0 are floats in [-1, 1).
void FillWithRandom(TensorData& data, ArrayRef<int64_t> limits, int axis, bool zipf,
                    RandomBits& random) {
  int64_t inner = 1;  // number of elements at one index of the axis
  for (size_t i = axis + 1; i < data.dims().size(); ++i) inner *= data.dims()[i];
  for (int64_t i = 0; i < data.element_count(); ++i) {
    const int64_t limit = limits[i / inner % static_cast<int64_t>(limits.size())];
    if (limit == 0)
      data.SetDouble(i, random.InUnit() * 2 - 1);
    else
      data.SetInt(i, RandomInteger(limit, zipf, random));
  }
}

// Sorts every row along the last axis, for floats and for integers below 2^53.
void SortRows(TensorData& data) {
  const int64_t length = data.dims().empty() ? 1 : data.dims().back();
  std::vector<double> row(length);
  for (int64_t start = 0; length > 0 && start < data.element_count(); start += length) {
    for (int64_t i = 0; i < length; ++i) row[i] = data.GetDouble(start + i);
    std::sort(row.begin(), row.end());
    for (int64_t i = 0; i < length; ++i) data.SetDouble(start + i, row[i]);
  }
}

// A tensor of zeros of that shape; an error if it does not fit into memory.
Result<TensorData> NewTensor(const runtime::TensorSignature& input, ArrayRef<int64_t> shape,
                             const DimValues& dims) {
  const Dtype dtype = ToDtype(input.dtype);
  int64_t bytes = DtypeBytes(dtype);
  bool overflows = false;
  for (const int64_t dim : shape) overflows |= __builtin_mul_overflow(bytes, dim, &bytes);
  const std::string place = "input \"" + input.name + "\" at " + DimsText(dims);
  if (overflows) return Fail(ErrorKind::kInput, place + " does not fit in 64 bits");
  try {
    return TensorData(dtype, shape);
  } catch (const std::bad_alloc&) {
    return Fail(ErrorKind::kToolchain,
                place + ": out of memory for " + std::to_string(bytes) + " bytes");
  }
}

// Whether an input may be the positions of new rows in a cache that is updated in place. Since no
// two rows may have one position, random positions are consecutive.
bool MayBePositions(const runtime::Manifest& manifest, const runtime::TensorSignature& input,
                    const std::vector<int64_t>& limits) {
  const auto is_in_place = [](const runtime::Buffer& buffer) { return buffer.in_place_of >= 0; };
  return input.shape.size() == 1 && input.index_limits.size() == 1 && limits.size() == 1 &&
         limits[0] > 0 &&
         std::any_of(manifest.buffers.begin(), manifest.buffers.end(), is_in_place);
}

}  // namespace

tl::unexpected<Error> FromRuntime(const runtime::RuntimeError& error) {
  return Fail(static_cast<ErrorKind>(error.code), error.message);  // both number errors alike
}

Result<void> CheckArtifact(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string advice = "; fusec MODEL.onnx -o OUT makes one";
  if (!fs::exists(path, error))
    return Fail(ErrorKind::kArtifact, path + " does not exist, expected an artifact" + advice);
  if (!fs::is_directory(path, error)) {
    return Fail(ErrorKind::kArtifact,
                path + " is a file, expected the folder of an artifact" + advice);
  }
  if (!fs::exists(path + "/manifest.json", error)) {
    return Fail(ErrorKind::kArtifact,
                path + " has no manifest.json, so it is not an artifact" + advice);
  }
  return {};
}

Result<std::unique_ptr<runtime::Program>> LoadProgram(const std::string& path,
                                                      const std::string& device) {
  FUSEC_TRY(CheckArtifact(path));
  FUSEC_RUNTIME_ASSIGN(auto program,
                       runtime::Program::Load(path, device.empty() ? nullptr : device.c_str()));
  return program;
}

void NoteEdits(const runtime::Program& program) {
  std::vector<std::string> edited;
  for (const runtime::Step& step : program.device().target().steps) {
    if (step.edited.empty()) continue;
    edited.push_back(step.name + (step.edited == "passed" ? "" : ", check " + step.edited));
  }
  constexpr size_t kMost = 4;
  const auto count = static_cast<int64_t>(edited.size());
  if (count == 0) return;
  if (edited.size() > kMost) {
    edited.resize(kMost);
    edited.push_back("...");
  }
  PrintNote(Plural(count, "kernel") + " edited (" + Join(edited, "; ") + ")");
}

std::vector<DimRange> DimRanges(const runtime::Manifest& manifest) {
  std::vector<DimRange> ranges;
  for (const runtime::Symbol& symbol : manifest.symbols)
    ranges.push_back({symbol.name, symbol.min, symbol.max});
  return ranges;
}

std::vector<DimRange> ServedDimRanges(const runtime::Manifest& manifest) {
  std::vector<DimRange> ranges = DimRanges(manifest);
  for (size_t i = 0; i < ranges.size(); ++i) ranges[i].low = manifest.symbols[i].lowest();
  return ranges;
}

std::vector<int64_t> SymbolValues(const runtime::Manifest& manifest, const DimValues& dims) {
  std::vector<int64_t> values;
  for (const runtime::Symbol& symbol : manifest.symbols) values.push_back(dims.at(symbol.name));
  return values;
}

// Both enums number the dtypes in the same way.
Dtype ToDtype(fusec_dtype dtype) { return static_cast<Dtype>(dtype); }
static_assert(static_cast<int>(Dtype::kBool) == FUSEC_BOOL &&
              static_cast<int>(Dtype::kI8) == FUSEC_I8 &&
              static_cast<int>(Dtype::kU8) == FUSEC_U8 &&
              static_cast<int>(Dtype::kBF16) == FUSEC_BF16);

std::string TypeText(const runtime::TensorSignature& tensor) {
  std::string text(DtypeName(ToDtype(tensor.dtype)));
  text += "[";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const bool is_bound = !tensor.sizes.empty() && tensor.sizes[i] >= 0;
    text += (i ? ", " : "") + std::string(is_bound ? "0.." : "") + tensor.shape[i].text();
  }
  return text + "]";
}

std::string TypeText(const TensorData& data) {
  std::string text(DtypeName(data.dtype()));
  text += "[";
  for (size_t i = 0; i < data.dims().size(); ++i)
    text += (i ? ", " : "") + std::to_string(data.dims()[i]);
  return text + "]";
}

std::string SignatureText(ArrayRef<runtime::TensorSignature> tensors, const std::string& what) {
  if (tensors.empty()) return "the model has no " + what;
  std::string text = "the model has " + what + " ";
  for (size_t i = 0; i < tensors.size(); ++i)
    text += (i ? ", " : "") + tensors[i].name + " " + TypeText(tensors[i]);
  return text;
}

Result<TensorData> RandomInput(const runtime::Manifest& manifest, int number, const DimValues& dims,
                               const RandomFlags& flags) {
  const runtime::TensorSignature& input = manifest.inputs[number];
  const std::vector<int64_t> symbols = SymbolValues(manifest, dims);
  std::vector<int64_t> shape;
  for (const runtime::DimExpression& dim : input.shape) {
    FUSEC_RUNTIME_ASSIGN(shape.emplace_back(), dim.Evaluate(symbols));
    if (shape.back() < 0) {
      return Fail(ErrorKind::kInput, "input \"" + input.name + "\" has a dim " + dim.text() +
                                         " of " + std::to_string(shape.back()) + " at " +
                                         DimsText(dims));
    }
  }
  FUSEC_ASSIGN(TensorData data, NewTensor(input, shape, dims));
  RandomBits random(RandomBits(flags.seed * 4096 + static_cast<uint64_t>(number)).Next());
  if (input.total) {
    FUSEC_RUNTIME_ASSIGN(const int64_t rows, input.total->Evaluate(symbols));
    const auto parts = RandomParts(data.element_count(), rows, input.ascending, random);
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetInt(i, parts[i]);
    return data;
  }
  FUSEC_ASSIGN(const std::vector<int64_t> limits, LimitsOf(input, symbols, flags.masks));
  if (MayBePositions(manifest, input, limits) && shape[0] <= limits[0]) {
    const int64_t first = static_cast<int64_t>(random.Next() % static_cast<uint64_t>(limits[0]));
    for (int64_t i = 0; i < shape[0]; ++i) data.SetInt(i, (first + i) % limits[0]);
    return data;
  }
  const bool zipf = flags.ids == "zipf" && !input.index_limits.empty() && !input.ascending;
  FillWithRandom(data, limits, input.index_axis, zipf, random);
  if (input.ascending) SortRows(data);
  return data;
}

Result<Inputs> RandomInputs(const runtime::Manifest& manifest, const DimValues& dims,
                            const RandomFlags& flags) {
  Inputs inputs;
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    FUSEC_ASSIGN(TensorData data, RandomInput(manifest, static_cast<int>(i), dims, flags));
    inputs.push_back(std::move(data));
  }
  return inputs;
}

Result<void> CheckInput(const runtime::TensorSignature& input, const TensorData& data,
                        const std::string& origin) {
  if (data.dtype() == ToDtype(input.dtype) && data.dims().size() == input.shape.size()) return {};
  return Fail(ErrorKind::kInput, origin + ": input \"" + input.name + "\" is " + TypeText(data) +
                                     ", expected " + TypeText(input));
}

Result<void> BindInputs(runtime::Context& context, const Inputs& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    FUSEC_RUNTIME_TRY(
        context.BindInput(static_cast<int>(i), inputs[i].bytes(), inputs[i].dims(), false));
  }
  return {};
}

Result<std::vector<TensorData>> CopyOutputs(runtime::Context& context) {
  const runtime::Manifest& manifest = context.program().manifest();
  std::vector<TensorData> outputs;
  for (size_t i = 0; i < manifest.output_count(); ++i) {
    FUSEC_RUNTIME_ASSIGN(const std::vector<int64_t> dims, context.OutputDims(static_cast<int>(i)));
    const runtime::TensorBinding result = context.GetOutput(static_cast<int>(i));
    TensorData data(ToDtype(manifest.outputs[i].dtype), dims);
    if (data.byte_count() > 0) std::memcpy(data.mutable_bytes(), result.data, data.byte_count());
    outputs.push_back(std::move(data));
  }
  return outputs;
}

Result<std::vector<TensorData>> RunIn(runtime::Context& context, const Inputs& inputs) {
  FUSEC_TRY(BindInputs(context, inputs));
  FUSEC_RUNTIME_TRY(context.Run());
  return CopyOutputs(context);
}

Result<std::vector<TensorData>> RunOnce(const runtime::Program& program, const Inputs& inputs) {
  FUSEC_RUNTIME_ASSIGN(const auto context, runtime::Context::Create(program));
  return RunIn(*context, inputs);
}

}  // namespace fusec
