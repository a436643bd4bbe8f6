#include "compiler/ir/region_class.h"

#include <iterator>

#include "compiler/ir/graph.h"
#include "compiler/support/check.h"

namespace fusec {
namespace {

constexpr const char* kTexts[] = {
#define FUSEC_REGION_CLASS(Kind, text) text,
#include "compiler/ir/region_classes.def"
#undef FUSEC_REGION_CLASS
};

}  // namespace

const char* RegionClassText(RegionClass region_class) {
  return kTexts[static_cast<size_t>(region_class)];
}

std::optional<RegionClass> FindRegionClass(std::string_view text) {
  for (size_t i = 0; i < std::size(kTexts); ++i) {
    if (text == kTexts[i]) return static_cast<RegionClass>(i);
  }
  return std::nullopt;
}

RegionClass RegionClassOf(const Node& region) {
  const auto found = FindRegionClass(region.Get<std::string>("class"));
  FUSEC_CHECK(found.has_value(), PrintNode(region) + "\nis of no known class");
  return *found;
}

}  // namespace fusec
