#include "passes/update_in_place.h"

#include <algorithm>

#include "passes/graph_edit.h"

namespace fusec {

namespace {

class Updater {
 public:
  Updater(Graph& graph, const InPlace& wanted) : graph_(graph), wanted_(wanted) {}

  Result<void> Run() {
    bool found = false;
    for (size_t i = 0; i < graph_.model_output_count(); ++i) {
      const auto input = wanted_.InputOf(graph_.OutputName(i));
      if (!input) continue;
      found = true;
      FUSEC_TRY(Update(i, *input));
    }
    if (found) return {};
    std::vector<std::string> names;
    for (size_t i = 0; i < graph_.model_output_count(); ++i) names.push_back(graph_.OutputName(i));
    return Problem("no output has this name; the model has " + Listed(names));
  }

 private:
  tl::unexpected<Error> Problem(const std::string& text) const {
    return Fail(ErrorKind::kUsage,
                "--in-place " + wanted_.output + "=" + wanted_.input + ": " + text);
  }

  static std::string Listed(const std::vector<std::string>& names) {
    constexpr size_t kMost = 8;
    std::string list;
    for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
      list += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
    return names.size() > kMost ? list + ", ..." : list;
  }

  Result<void> Update(size_t output, const std::string& input_name) {
    const Value* input = nullptr;
    std::vector<std::string> names;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      names.push_back(graph_.InputName(i));
      if (names.back() == input_name) input = graph_.inputs[i].get();
    }
    if (!input)
      return Problem("no input is called \"" + input_name + "\"; the model has " + Listed(names));
    const std::string what = "output \"" + graph_.OutputName(output) +
                             "\" cannot lie in the memory of input \"" + input_name + "\": ";
    const Value* value = graph_.outputs[output];
    if (value->type != input->type)
      return Problem(what + "it is " + value->type.ToString() + ", the input " +
                     input->type.ToString());
    Node* scatter = ProducerOf(value, OpKind::kTensorScatter);
    if (!scatter || scatter->operand(0) != input)
      return Problem(what +
                     "it is not the input with new rows along an axis, as GroupQueryAttention and "
                     "TensorScatter make it");
    if (!HasOneReader(graph_, Readers(graph_), input))
      return Problem(what + "the model also reads the input elsewhere");
    if (std::count(graph_.outputs.begin(), graph_.outputs.end(), value) > 1)
      return Problem(what + "it is an output twice");
    scatter->attributes[kInPlace] = int64_t{1};
    return {};
  }

  Graph& graph_;
  const InPlace& wanted_;
};

}  // namespace

Result<bool> UpdateInPlace(Graph& graph, const PassOptions& options, PassReport&) {
  for (const InPlace& wanted : options.in_place) FUSEC_TRY(Updater(graph, wanted).Run());
  return !options.in_place.empty();
}

}  // namespace fusec
