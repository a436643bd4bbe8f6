#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fusec {

struct Node;

// Which kind of kernel computes a fused region; region_classes.def says what each class means.
enum class RegionClass : uint8_t {
#define FUSEC_REGION_CLASS(Kind, text) k##Kind,
#include "compiler/ir/region_classes.def"
#undef FUSEC_REGION_CLASS
};

// The classes' texts as the words of an AttributeSpec: "pointwise|gather_concat|...".
inline constexpr const char* kRegionClassWords =
#define FUSEC_REGION_CLASS(Kind, text) "|" text
#include "compiler/ir/region_classes.def"
#undef FUSEC_REGION_CLASS
    +1;  // without the first bar

const char* RegionClassText(RegionClass region_class);
// The class spelled `text`, or nullopt.
std::optional<RegionClass> FindRegionClass(std::string_view text);
// The class of a region node that has passed the verifier.
RegionClass RegionClassOf(const Node& region);

}  // namespace fusec
