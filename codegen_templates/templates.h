#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace fusec {

// The text of a file of codegen_templates, by its path there ("device/gelu.cuh"), as it was when the program was built.
std::optional<std::string_view> TemplateText(std::string_view path);

// All paths, sorted.
std::vector<std::string_view> TemplatePaths();

}  // namespace fusec
