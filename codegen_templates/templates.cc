#include "codegen_templates/templates.h"

#include <algorithm>

namespace fusec {
namespace {

struct Template {
  std::string_view path, text;
};
constexpr Template kTemplates[] = {
#include "templates_data.inc"
};

}  // namespace

std::optional<std::string_view> TemplateText(std::string_view path) {
  for (const Template& entry : kTemplates) {
    if (entry.path == path) return entry.text;
  }
  return std::nullopt;
}

std::vector<std::string_view> TemplatePaths() {
  std::vector<std::string_view> paths;
  for (const Template& entry : kTemplates) paths.push_back(entry.path);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace fusec
