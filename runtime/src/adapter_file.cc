#include "runtime/src/adapter_file.h"

#include <regex.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/half.h"
#include "runtime/src/artifact/json_reader.h"
#include "runtime/src/artifact/mapped_file.h"
#include "runtime/src/artifact/safetensors.h"

namespace fusec::runtime {
namespace {

// Converts FUSEC_BAD_ARTIFACT to FUSEC_BAD_INPUT: an adapter file is the caller's data, not a part
// of an artifact.
tl::unexpected<RuntimeError> AsInput(RuntimeError error) {
  if (error.code == FUSEC_BAD_ARTIFACT) error.code = FUSEC_BAD_INPUT;
  return tl::unexpected(std::move(error));
}

// The module that a tensor belongs to, and which of its matrices it is.
struct TensorRole {
  std::string module;
  bool is_up = false;
  bool is_plain = false;  // "A" [inputs, rank], "B" [rank, outputs]
};

// Removes the last part of a dotted path and returns it.
std::string_view TakeLast(std::string_view& path) {
  const size_t dot = path.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? path : path.substr(dot + 1);
  path.remove_suffix(std::min(path.size(), last.size() + 1));
  return last;
}

std::optional<TensorRole> RoleOf(std::string_view name) {
  const auto matrix = [](std::string_view part) {
    return part == "lora_A" || part == "lora_B" || part == "A" || part == "B";
  };
  std::string_view part = TakeLast(name);
  const bool has_suffix = part == "weight";
  if (has_suffix) {
    part = TakeLast(name);
    if (!matrix(part)) part = TakeLast(name);  // the last part was the name of the adapter
  }
  const bool is_plain = part.size() == 1;
  if (!matrix(part) || (is_plain && has_suffix)) return std::nullopt;
  return TensorRole{std::string(name), part.back() == 'B', is_plain};
}

std::string_view WithoutWrapper(std::string_view module) {
  constexpr std::string_view kWrapper = "base_model.model.";
  return module.starts_with(kWrapper) ? module.substr(kWrapper.size()) : module;
}

// Whether one of two names ends with the other, as a whole behind `separator`.
bool EndsWith(std::string_view a, std::string_view b, char separator) {
  if (a.size() < b.size()) std::swap(a, b);
  return a.ends_with(b) && (a.size() == b.size() || a[a.size() - b.size() - 1] == separator);
}

// Whether one of two dotted paths ends with the other.
bool MeanTheSame(std::string_view a, std::string_view b) { return EndsWith(a, b, '.'); }

// The same where an exporter has shortened names of modules: "self_attn" to "attn".
bool MayMeanTheSame(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const size_t i = a.rfind('.') + 1, j = b.rfind('.') + 1;  // npos + 1 is 0
    if (!EndsWith(a.substr(i), b.substr(j), '_')) return false;
    a = a.substr(0, i - (i > 0 ? 1 : 0));
    b = b.substr(0, j - (j > 0 ? 1 : 0));
  }
  return true;
}

// A POSIX extended regular expression.
class Pattern {
 public:
  // nullopt if `text` is not a regular expression.
  static std::optional<Pattern> Parse(const std::string& text) {
    auto compiled = std::make_unique<regex_t>();
    if (regcomp(compiled.get(), text.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return std::nullopt;
    Pattern pattern;
    pattern.compiled_.reset(compiled.release());
    return pattern;
  }
  bool Matches(const std::string& text) const {
    return regexec(compiled_.get(), text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  struct Free {
    void operator()(regex_t* compiled) const {
      regfree(compiled);
      delete compiled;
    }
  };
  std::unique_ptr<regex_t, Free> compiled_;
};

// The relevant contents of adapter_config.json.
class Config {
 public:
  static StatusOr<Config> Read(const std::string& file) {
    Config config;
    auto mapped = MappedFile::Open(file);
    if (!mapped) return AsInput(mapped.error());
    auto document = JsonDocument::Parse(mapped->text(), file);
    if (!document) return AsInput(document.error());
    if (auto status = config.ReadRoot(document->root(), file); !status)
      return AsInput(status.error());
    return config;
  }

  StatusOr<double> ScaleOf(const std::string& module, int64_t rank) const {
    double alpha = alpha_;
    for (const auto& [pattern, value] : alpha_pattern_) {
      if (pattern.Matches(module)) {
        alpha = value;
        break;
      }
    }
    return alpha / (uses_root_ ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
  }

 private:
  Status ReadRoot(const JsonValue& root, const std::string& file) {
    if (root.Has("peft_type")) {
      FUSEC_RT_ASSIGN(const std::string type, ReadText(root, "peft_type"));
      if (type != "LORA")
        return Fail(FUSEC_BAD_INPUT, file, ": peft_type is \"", type, "\", expected LORA");
    }
    for (const char* refused : {"use_dora", "lora_bias"}) {
      FUSEC_RT_ASSIGN(const bool is_used, ReadFlagOf(root, refused));
      if (is_used)
        return Fail(FUSEC_BAD_INPUT, file, ": ", refused,
                    " is true, which adapter slots do not support, expected plain LoRA");
    }
    if (root.Has("bias")) {
      FUSEC_RT_ASSIGN(const std::string bias, ReadText(root, "bias"));
      if (bias != "none")
        return Fail(FUSEC_BAD_INPUT, file, ": bias is \"", bias,
                    "\", which adapter slots do not support, expected none");
    }
    FUSEC_RT_ASSIGN(uses_root_, ReadFlagOf(root, "use_rslora"));
    FUSEC_RT_ASSIGN(const JsonValue alpha, root.Field("lora_alpha"));
    FUSEC_RT_ASSIGN(alpha_, alpha.AsNumber());
    if (!root.Has("alpha_pattern")) return {};
    FUSEC_RT_ASSIGN(const JsonValue patterns, root.Field("alpha_pattern"));
    FUSEC_RT_ASSIGN(const auto members, patterns.Members());
    for (const auto& [pattern, value] : members) {
      FUSEC_RT_ASSIGN(const double number, value.AsNumber());
      auto parsed = Pattern::Parse("^(.*\\.)?(" + pattern + ")$");  // as PEFT does
      if (!parsed)
        return Fail(FUSEC_BAD_INPUT, value.where(), " has a name that is not a regular expression");
      alpha_pattern_.emplace_back(*std::move(parsed), number);
    }
    return {};
  }
  static StatusOr<bool> ReadFlagOf(const JsonValue& root, const char* key) {
    if (!root.Has(key)) return false;
    return ReadBool(root, key);
  }

  double alpha_ = 0;
  bool uses_root_ = false;
  std::vector<std::pair<Pattern, double>> alpha_pattern_;
};

// The tensors of one layer.
struct Pair {
  const StoredTensor* tensors[2] = {nullptr, nullptr};  // down, up
  std::string names[2];
  bool is_plain = false;
  std::string module;  // its name in the file
};

class AdapterReader {
 public:
  AdapterReader(const Adapters& adapters, std::string file)
      : adapters_(adapters), file_(std::move(file)), pairs_(adapters.sites.size()) {
    std::map<std::string_view, size_t> first;
    for (size_t i = 0; i < adapters.sites.size(); ++i)
      first_of_module_.push_back(first.emplace(adapters.sites[i].module, i).first->second);
  }

  StatusOr<SlotContents> Read(const std::optional<Config>& config) {
    auto mapped = MappedFile::Open(file_);
    if (!mapped) return AsInput(mapped.error());
    const MappedFile weights = *std::move(mapped);
    auto tensors = ReadSafetensors(weights.bytes(), file_);
    if (!tensors) return AsInput(tensors.error());
    for (const auto& [name, tensor] : *tensors) FUSEC_RT_TRY(Place(name, tensor));
    SlotContents contents;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      FUSEC_RT_TRY(Append(adapters_.sites[i], pairs_[first_of_module_[i]], config, contents));
    }
    return contents;
  }

 private:
  tl::unexpected<RuntimeError> Bad(const std::string& name, const std::string& what) const {
    return Fail(FUSEC_BAD_INPUT, file_, ": tensor \"", name, "\" ", what);
  }

  Status Place(const std::string& name, const StoredTensor& tensor) {
    const auto role = RoleOf(name);
    if (!role)
      return Bad(name,
                 "is no matrix of a LoRA adapter, expected PATH.lora_A.weight or "
                 "PATH.lora_B.weight");
    std::vector<size_t> found = SitesOf(role->module, &MeanTheSame);
    if (found.empty()) found = SitesOf(role->module, &MayMeanTheSame);
    if (found.size() != 1) {
      return Bad(name, found.empty()
                           ? "belongs to a layer that has no slots; there are " + Modules()
                           : Text("may belong to \"", adapters_.sites[found[0]].module, "\" or \"",
                                  adapters_.sites[found[1]].module, "\""));
    }
    Pair& pair = pairs_[found[0]];
    const int side = role->is_up ? 1 : 0;
    if (pair.tensors[side] != nullptr || (!pair.module.empty() && pair.module != role->module)) {
      return Bad(name, Text("belongs to the layer \"", adapters_.sites[found[0]].module, "\" as \"",
                            pair.names[pair.tensors[side] ? side : 1 - side], "\" does"));
    }
    pair.tensors[side] = &tensor;
    pair.names[side] = name;
    pair.is_plain = role->is_plain;
    pair.module = role->module;
    return {};
  }

  // The sites of a module, whose path `is_same` compares with theirs.
  std::vector<size_t> SitesOf(std::string_view module,
                              bool (*is_same)(std::string_view, std::string_view)) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      if (first_of_module_[i] == i &&
          is_same(WithoutWrapper(module), WithoutWrapper(adapters_.sites[i].module)))
        found.push_back(i);
    }
    return found;
  }

  std::string Modules() const {
    constexpr size_t kMostListed = 10;
    std::string list;
    size_t modules = 0;
    for (size_t i = 0; i < adapters_.sites.size(); ++i) {
      if (first_of_module_[i] != i || ++modules > kMostListed) continue;
      list += Text(modules == 1 ? "\"" : ", \"", adapters_.sites[i].module, "\"");
    }
    if (modules > kMostListed) list += Text(" and ", modules - kMostListed, " more");
    return list;
  }

  // Appends the parts of a layer to `contents`, as PartsOfSlot lists them.
  Status Append(const AdapterSite& site, const Pair& pair, const std::optional<Config>& config,
                SlotContents& contents) {
    const int64_t rows[2] = {site.inputs, site.outputs};
    const Dims down_dims = {adapters_.stored_rank, site.inputs};
    const Dims up_dims = {site.outputs, site.banks.rank, site.banks.first_rank};
    if (!pair.tensors[0] && !pair.tensors[1]) {
      for (const Dims& dims : {down_dims, up_dims})
        contents.emplace_back(static_cast<size_t>(dims.rows * dims.columns *
                                                  DtypeBytes(site.dtype)));
      return {};
    }
    for (const int side : {0, 1}) {
      if (!pair.tensors[side])
        return Bad(pair.names[1 - side], side == 0 ? "has no lora_A" : "has no lora_B");
    }
    int64_t ranks[2];
    std::vector<float> values[2];
    for (const int side : {0, 1}) {
      // lora_A is [rank, inputs] and lora_B [outputs, rank], as in slots; plain matrices are
      // transposed.
      const bool by_ranks = (side == 0) != pair.is_plain;
      FUSEC_RT_ASSIGN(ranks[side],
                      RankOf(*pair.tensors[side], pair.names[side], rows[side], by_ranks));
      FUSEC_RT_ASSIGN(values[side], Floats(*pair.tensors[side], pair.names[side]));
      if (pair.is_plain) {
        const int64_t stored[2] = {by_ranks ? ranks[side] : rows[side],
                                   by_ranks ? rows[side] : ranks[side]};
        values[side] = Transposed(values[side], stored[0], stored[1]);
      }
    }
    if (ranks[0] != ranks[1])
      return Bad(pair.names[1],
                 Text("has rank ", ranks[1], ", but \"", pair.names[0], "\" has ", ranks[0]));
    double scale = site.scale;
    if (config) {
      FUSEC_RT_ASSIGN(scale, config->ScaleOf(std::string(WithoutWrapper(pair.module)), ranks[0]));
    }
    FUSEC_RT_ASSIGN(auto down, Stored(site, values[0], {ranks[0], rows[0]}, down_dims, 1,
                                      pair.names[0]));
    FUSEC_RT_ASSIGN(auto up, Stored(site, values[1], {rows[1], ranks[1]}, up_dims, scale,
                                    pair.names[1]));
    contents.push_back(std::move(down));
    contents.push_back(std::move(up));
    return {};
  }

  StatusOr<int64_t> RankOf(const StoredTensor& tensor, const std::string& name, int64_t rows,
                           bool by_ranks) const {
    const std::vector<int64_t>& shape = tensor.shape;
    if (shape.size() != 2 || shape[by_ranks ? 1 : 0] != rows) {
      std::string dims;
      for (const int64_t dim : shape) dims += Text(dims.empty() ? "" : ", ", dim);
      return Bad(name, Text("is [", dims, "], expected ", by_ranks ? "[rank, " : "[", rows,
                            by_ranks ? "]" : ", rank]"));
    }
    const int64_t rank = shape[by_ranks ? 0 : 1];
    if (rank > adapters_.rank)
      return Bad(name, Text("has rank ", rank, ", the slots hold up to ", adapters_.rank));
    return rank;
  }

  StatusOr<std::vector<float>> Floats(const StoredTensor& tensor, const std::string& name) const {
    std::vector<float> values;
    const auto count = static_cast<size_t>(tensor.shape[0] * tensor.shape[1]);
    if (tensor.dtype == "F32") {
      values.resize(count);
      std::memcpy(values.data(), tensor.bytes.data(), count * sizeof(float));
    } else if (tensor.dtype == "F64") {
      for (size_t i = 0; i < count; ++i) {
        double value;
        std::memcpy(&value, tensor.bytes.data() + i * sizeof(value), sizeof(value));
        values.push_back(static_cast<float>(value));
      }
    } else if (tensor.dtype == "F16" || tensor.dtype == "BF16") {
      std::vector<uint16_t> bits(count);
      std::memcpy(bits.data(), tensor.bytes.data(), count * sizeof(uint16_t));
      values.resize(count);
      WidenToFloat(tensor.dtype == "F16" ? FUSEC_F16 : FUSEC_BF16, bits, values.data());
    } else {
      return Bad(name, "is " + tensor.dtype + ", expected F32, F16, BF16 or F64");
    }
    return values;
  }

  static std::vector<float> Transposed(const std::vector<float>& values, int64_t rows,
                                       int64_t columns) {
    std::vector<float> turned(values.size());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column)
        turned[static_cast<size_t>(column * rows + row)] =
            values[static_cast<size_t>(row * columns + column)];
    }
    return turned;
  }

  // The size of a matrix, and the column at which another matrix begins that is copied to it.
  struct Dims {
    int64_t rows, columns, first_column = 0;
    size_t Place(int64_t row, int64_t column) const {
      return static_cast<size_t>(row * columns + first_column + column);
    }
  };
  // Converts a matrix to the layer's dtype and pads it to its shape in a slot. Elements that are
  // not finite are errors, because rows with other slots multiply them by zero, which gives NaN.
  StatusOr<std::vector<std::byte>> Stored(const AdapterSite& site, const std::vector<float>& values,
                                          const Dims& own, const Dims& dims, double scale,
                                          const std::string& name) const {
    const auto count = static_cast<size_t>(dims.rows * dims.columns);
    std::vector<double> wide(count, 0.0);
    for (int64_t row = 0; row < own.rows; ++row) {
      for (int64_t column = 0; column < own.columns; ++column) {
        const double value = scale * static_cast<double>(values[own.Place(row, column)]);
        wide[dims.Place(row, column)] = value;
      }
    }
    std::vector<std::byte> bytes(count * static_cast<size_t>(DtypeBytes(site.dtype)));
    const auto is_finite = [](double value) { return std::isfinite(value); };
    bool are_finite = false;
    if (site.dtype == FUSEC_F64) {
      std::memcpy(bytes.data(), wide.data(), bytes.size());
      are_finite = std::all_of(wide.begin(), wide.end(), is_finite);
    } else {
      std::vector<float> narrow(wide.begin(), wide.end());
      if (site.dtype == FUSEC_F32) {
        std::memcpy(bytes.data(), narrow.data(), bytes.size());
      } else {
        std::vector<uint16_t> bits(count);
        NarrowFromFloat(site.dtype, narrow, bits.data());
        std::memcpy(bytes.data(), bits.data(), bytes.size());
        WidenToFloat(site.dtype, bits, narrow.data());
      }
      are_finite = std::all_of(narrow.begin(), narrow.end(), is_finite);
    }
    if (!are_finite)
      return Bad(name, Text("has elements that are not finite in ", DtypeName(site.dtype),
                            scale == 1 ? "" : Text(", times their scale ", scale)));
    return bytes;
  }

  const Adapters& adapters_;
  const std::string file_;
  std::vector<Pair> pairs_;              // by layer
  std::vector<size_t> first_of_module_;  // by layer: the first one of its module
};

}  // namespace

StatusOr<SlotContents> ReadAdapter(const Adapters& adapters, const std::string& path) {
  struct stat found = {};
  const bool is_folder = stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
  const std::string file = is_folder ? path + "/adapter_model.safetensors" : path;
  const size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : file.substr(0, slash + 1);
  const std::string config_file = folder + "adapter_config.json";
  std::optional<Config> config;
  if (stat(config_file.c_str(), &found) == 0) {
    FUSEC_RT_ASSIGN(config, Config::Read(config_file));
  }
  return AdapterReader(adapters, file).Read(config);
}

}  // namespace fusec::runtime
