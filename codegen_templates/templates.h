#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace fusec {

// The text of the file at `path` inside codegen_templates (such as "device/gelu.cuh"), as embedded
// when fusec was built; nullopt if there is no such file.
std::optional<std::string_view> TemplateText(std::string_view path);

// The paths of all embedded files, sorted.
std::vector<std::string_view> TemplatePaths();

}  // namespace fusec
