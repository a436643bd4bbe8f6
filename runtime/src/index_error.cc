#include "runtime/src/index_error.h"

#include <string>
#include <vector>

namespace fusec::runtime {
namespace {

// The index of the element at row-major position `position` of a tensor of `shape`, such as
// "[5, 3]", or the plain number if the position is outside the tensor.
std::string Unravel(const std::vector<DimExpression>& shape, std::span<const int64_t> symbols,
                    long long position) {
  std::string text;
  long long rest = position;
  for (size_t i = shape.size(); i-- > 0;) {
    const auto dim = shape[i].Evaluate(symbols);
    if (!dim || *dim <= 0) return Text(position);
    text = Text(rest % *dim, text.empty() ? "" : ", ", text);
    rest /= *dim;
  }
  return rest == 0 && position >= 0 ? Text("[", text, "]") : Text(position);
}

const char* WordFor(IndexValues values) {
  if (values == IndexValues::kLength) return "length";
  return values == IndexValues::kSlot ? "slot" : "index";
}

}  // namespace

Status CheckIndexError(const Manifest& manifest, std::span<const int64_t> symbols,
                       const IndexError& error) {
  if (error.site == 0) return {};
  if (error.site < 0 || static_cast<size_t>(error.site) > manifest.index_sites.size()) {
    return Fail(FUSEC_BAD_ARTIFACT, "a kernel reports index ", error.value, " at the unknown site ",
                error.site);
  }
  const IndexSite& site = manifest.index_sites[static_cast<size_t>(error.site) - 1];
  const std::string where =
      Text("node \"", site.node, "\": ", WordFor(site.values), " ", error.value, " at position ",
           Unravel(site.shape, symbols, error.position), " of \"",
           site.input.empty() ? site.tensor : site.input, "\"");
  if (site.values == IndexValues::kLength)
    return Fail(FUSEC_BAD_INPUT, where, " is outside 0..", error.extent);
  if (site.values == IndexValues::kSlot)
    return Fail(FUSEC_BAD_INPUT, where, " is outside -1..", error.extent - 1);
  if (error.extent == 0) return Fail(FUSEC_BAD_INPUT, where, " reads an empty axis");
  return Fail(FUSEC_BAD_INPUT, where, " is outside ", -error.extent, "..", error.extent - 1);
}

}  // namespace fusec::runtime
