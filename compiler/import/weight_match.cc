#include "compiler/import/weight_match.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "compiler/reference/transpose.h"
#include "compiler/support/nearest_name.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

std::string TypeOf(const TensorData& tensor) {
  return TensorType{tensor.dtype(), Shape(tensor.dims().begin(), tensor.dims().end())}.ToString();
}

bool IsTransposed(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  return a.size() == 2 && b.size() == 2 && a[0] == b[1] && a[1] == b[0];
}

bool MayHold(ArrayRef<int64_t> dims, ArrayRef<int64_t> of_weights) {
  return dims == of_weights || IsTransposed(dims, of_weights);
}

TensorData Converted(const TensorData& from, Dtype dtype) {
  if (from.dtype() == dtype) return from;
  TensorData to(dtype, from.dims());
  for (int64_t i = 0; i < from.element_count(); ++i) to.SetDouble(i, from.GetDouble(i));
  from.ReleasePages();
  return to;
}

// Whether two tensors of the same dtype and shape have the same bytes.
bool SameBytes(const TensorData& a, const TensorData& b) {
  bool same = true;
  const std::byte* other = b.bytes();
  a.ForEachPiece([&](const std::byte* bytes, size_t count) {
    same = same && std::memcmp(bytes, other, count) == 0;
    other += count;
  });
  b.ReleasePages();
  return same;
}

// Compares elements one by one, until the first that differ.
class Comparison {
 public:
  // `data` may be `weights` in a narrower type.
  Comparison(const TensorData& weights, const TensorData& data)
      : weights_(weights), data_(data), rounded_(data.dtype(), {1}) {}

  bool Same() const {
    if (weights_.dims() != data_.dims()) return false;
    if (weights_.dtype() == data_.dtype()) return SameBytes(weights_, data_);
    for (int64_t i = 0; i < data_.element_count(); ++i) {
      if (!AreEqual(i, i)) return false;
    }
    return true;
  }

  bool SameTransposed() const {
    if (!IsTransposed(weights_.dims(), data_.dims())) return false;
    const int64_t rows = data_.dims()[0], columns = data_.dims()[1];
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        if (!AreEqual(column * rows + row, row * columns + column)) return false;
      }
    }
    return true;
  }

 private:
  bool AreEqual(int64_t of_weights, int64_t of_data) const {
    const auto bytes = static_cast<size_t>(DtypeBytes(data_.dtype()));
    const std::byte* stored = data_.bytes() + of_data * bytes;
    if (weights_.dtype() == data_.dtype())
      return std::memcmp(weights_.bytes() + of_weights * bytes, stored, bytes) == 0;
    rounded_.SetDouble(0, weights_.GetDouble(of_weights));
    return std::memcmp(rounded_.bytes(), stored, bytes) == 0;
  }

  const TensorData& weights_;
  const TensorData& data_;
  mutable TensorData rounded_;
};

// Part of an initializer's name that precedes all names of new tensors, or the other way round.
struct Prefix {
  std::string text;
  bool of_initializers = true;
};

std::optional<Prefix> FindPrefix(const std::map<std::string, TensorData>& fresh,
                                 const std::vector<std::string>& initializers) {
  std::map<std::pair<std::string, bool>, int> votes;
  const auto vote = [&](const std::string& longer, const std::string& name, bool of_initializers) {
    if (longer.size() > name.size() + 1 && longer.ends_with("." + name))
      ++votes[{longer.substr(0, longer.size() - name.size()), of_initializers}];
  };
  for (const std::string& initializer : initializers) {
    for (const auto& [name, data] : fresh) {
      vote(initializer, name, true);
      vote(name, initializer, false);
    }
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == votes.end()) return std::nullopt;
  return Prefix{most->first.first, most->first.second};
}

}  // namespace

WeightMatch::WeightMatch(const ImportOptions& options, const std::vector<std::string>& initializers)
    : fresh_(options.weights), exported_(options.exported_with), names_(initializers) {
  for (const std::string& name : names_) {
    if (fresh_.count(name) != 0) by_name_[name] = name;
  }
  if (!by_name_.empty() || fresh_.empty()) return;
  const std::optional<Prefix> prefix = FindPrefix(fresh_, names_);
  if (!prefix) return;
  for (const std::string& name : names_) {
    if (prefix->of_initializers && !name.starts_with(prefix->text)) continue;
    const std::string wanted =
        prefix->of_initializers ? name.substr(prefix->text.size()) : prefix->text + name;
    if (fresh_.count(wanted) != 0) by_name_[name] = wanted;
  }
}

Result<TensorData> WeightMatch::Replacement(const std::string& initializer, TensorData data) {
  if (fresh_.empty()) return data;
  Initializer made{initializer, data.dtype(), data.dims(), ""};
  const auto named = by_name_.find(initializer);
  if (named != by_name_.end()) {
    made.source = named->second;
    FUSEC_ASSIGN(data, ByName(made.source, data));
  } else if (IsFloat(data.dtype()) && data.element_count() > 1) {
    FUSEC_ASSIGN(data, ByValues(data, made.source));
  }
  initializers_.push_back(std::move(made));
  return data;
}

Result<TensorData> WeightMatch::ByName(const std::string& source, const TensorData& data) const {
  const TensorData& weights = fresh_.at(source);
  const auto old = exported_.find(source);
  if (weights.dims() != data.dims() ||
      (weights.dtype() != data.dtype() && old == exported_.end())) {
    return Fail(ErrorKind::kInput,
                "the new weights have " + TypeOf(weights) + ", the model has " + TypeOf(data));
  }
  if (old != exported_.end() && !Comparison(old->second, data).Same()) {
    return Fail(ErrorKind::kInput, "the model was not exported with the given weights: \"" +
                                       source + "\" has other values there");
  }
  return Converted(weights, data.dtype());
}

Result<TensorData> WeightMatch::ByValues(const TensorData& data, std::string& source) const {
  std::optional<TensorData> found;
  for (const auto& [name, old] : exported_) {
    const auto weights = fresh_.find(name);
    if (weights == fresh_.end() || !MayHold(data.dims(), old.dims())) continue;
    const Comparison comparison(old, data);
    for (const bool transposed : {false, true}) {
      if (!(transposed ? comparison.SameTransposed() : comparison.Same())) continue;
      if (weights->second.dims() != old.dims()) {
        return Fail(ErrorKind::kInput, "the new \"" + name + "\" has " + TypeOf(weights->second) +
                                           ", the model was exported with " + TypeOf(old));
      }
      TensorData candidate = Converted(weights->second, data.dtype());
      if (transposed) candidate = Transposed(candidate, {1, 0});
      if (found && !SameBytes(*found, candidate)) {
        return Fail(ErrorKind::kInput,
                    (name == source ? "\"" + name + "\" was symmetric, and is no longer"
                                    : "\"" + source + "\" and \"" + name +
                                          "\" had the same values, and have different ones now") +
                        "; give the model of the new weights as --weights MODEL.onnx");
      }
      if (found) continue;
      found = std::move(candidate);
      source = name;
    }
    old.ReleasePages();
  }
  return found ? *std::move(found) : data;
}

// Whether an initializer holds `name` under the name of another tensor that had the same values.
Result<bool> WeightMatch::IsShared(const std::string& name) const {
  const TensorData& old = exported_.at(name);
  for (const Initializer& other : initializers_) {
    const auto source = exported_.find(other.source);
    if (source == exported_.end() || !Comparison(source->second, old).Same()) continue;
    if (Comparison(fresh_.at(other.source), fresh_.at(name)).Same()) return true;
    return Fail(ErrorKind::kInput,
                "initializer \"" + other.name + "\" holds both \"" + other.source + "\" and \"" +
                    name + "\", which had the same values and have different ones now; give the " +
                    "model of the new weights as --weights MODEL.onnx");
  }
  return false;
}

// The initializer that most probably holds values of a tensor of this shape: one that keeps its
// values, or else any; null if none has the shape.
const WeightMatch::Initializer* WeightMatch::LikelyHolder(const TensorData& weights) const {
  const Initializer* likely = nullptr;
  for (const Initializer& initializer : initializers_) {
    if (!IsFloat(initializer.dtype) || !MayHold(initializer.dims, weights.dims())) continue;
    if (initializer.source.empty()) return &initializer;
    if (!likely) likely = &initializer;
  }
  return likely;
}

// `name`, a new tensor that replaces no initializer, may be in the model if an initializer has its
// shape: under another name if `exported_` does not tell, or else with values that the exporter has
// computed from it.
Result<void> WeightMatch::CheckNotInModel(const std::string& name) const {
  const TensorData& weights = fresh_.at(name);
  if (!IsFloat(weights.dtype()) || weights.dims().empty()) return {};
  const Initializer* holder = LikelyHolder(weights);
  if (!holder) return {};
  if (exported_.count(name) == 0) {
    return Fail(ErrorKind::kInput,
                "no initializer has the name of the new tensor \"" + name + "\"" +
                    DidYouMean(name, names_) + ", but \"" + holder->name +
                    "\" has its shape: exporters rename tensors that they transpose " +
                    "or share; give the weights that the model was exported with as " +
                    "--exported-with FILE.safetensors, to find tensors by their values");
  }
  if (!holder->source.empty()) return {};
  return Fail(ErrorKind::kInput,
              "no initializer has the values of \"" + name +
                  "\" that the model was exported with, and \"" + holder->name +
                  "\", which has its shape, may have been computed from them; give the model of " +
                  "the new weights as --weights MODEL.onnx");
}

Result<std::vector<std::string>> WeightMatch::Finish() const {
  std::set<std::string> used;
  for (const auto& [initializer, name] : by_name_) used.insert(name);
  for (const Initializer& initializer : initializers_) used.insert(initializer.source);
  std::vector<std::string> unknown;
  bool any_used = false;
  for (const auto& [name, data] : fresh_) {
    const auto old = exported_.find(name);
    bool is_used = used.count(name) != 0;
    if (!is_used && old != exported_.end()) {
      if (Comparison(old->second, data).Same()) continue;
      FUSEC_ASSIGN(is_used, IsShared(name));
    }
    any_used |= is_used;
    if (is_used) continue;
    FUSEC_TRY(CheckNotInModel(name));
    unknown.push_back(name);
  }
  if (unknown.empty()) return std::vector<std::string>();
  const std::string first = "\"" + unknown[0] + "\"" + DidYouMean(unknown[0], names_);
  if (!any_used) {
    return Fail(ErrorKind::kInput,
                "no initializer has the name of any of the new weights, such as " + first);
  }
  return std::vector<std::string>{"ignored " +
                                  Plural(static_cast<int64_t>(unknown.size()), "new tensor") +
                                  " that the model does not have: " + first};
}

}  // namespace fusec
