#include <string_view>

#include "compiler/driver/report/origins.h"
#include "compiler/driver/report/report.h"
#include "compiler/support/check.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

struct PageFile {
  std::string_view path, text;
};
constexpr PageFile kPageFiles[] = {
#include "report_page_data.inc"
};

// The scripts in their order in the page: each file comes after those that it uses.
constexpr const char* kScripts[] = {"basics.js",  "layout.js", "highlight.js", "model.js",
                                    "picture.js", "code.js",   "inspector.js", "charts.js",
                                    "tables.js",  "main.js"};

std::string_view FileText(std::string_view path) {
  for (const PageFile& file : kPageFiles) {
    if (file.path == path) return file.text;
  }
  return {};
}

std::string HtmlText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '&')
      escaped += "&amp;";
    else if (static_cast<unsigned char>(c) < 0x20)
      escaped += ' ';
    else
      escaped += c;
  }
  return escaped;
}

// JSON that can be put into a script element: '<', '>' and '&', which occur in strings only, are
// escaped.
std::string ScriptJson(std::string_view json) {
  std::string escaped;
  escaped.reserve(json.size() + json.size() / 16);
  for (const char c : json) {
    if (c == '<')
      escaped += "\\u003c";
    else if (c == '>')
      escaped += "\\u003e";
    else if (c == '&')
      escaped += "\\u0026";
    else
      escaped += c;
  }
  return escaped;
}

}  // namespace

std::string Headline(const Explanation& e) {
  const auto bytes = [](int64_t count) { return FormatBytes(static_cast<double>(count)); };
  const Origins origins(*e.graph);
  return Plural(static_cast<int64_t>(origins.all().size()), "ONNX node") + " became " +
         Plural(static_cast<int64_t>(e.steps.size()), "kernel") + "; " + bytes(e.before_bytes) +
         " of memory traffic became " + bytes(e.after_bytes);
}

std::string ReportPage(const Explanation& explanation, const std::string& json) {
  std::string script;
  for (const char* name : kScripts) script += FileText(name);
  // The marks in page/report.html, in their order there, and the text that replaces each. Inserted
  // text is not searched for further marks.
  const std::pair<std::string_view, std::string> parts[] = {
      {"<!-- title -->", HtmlText(explanation.model)},
      {"/* report.css */", std::string(FileText("report.css"))},
      {"<!-- model -->", HtmlText(explanation.model)},
      {"<!-- headline -->", HtmlText(Headline(explanation))},
      {"<!-- report.json -->", ScriptJson(json)},
      {"/* report.js */", script},
  };
  std::string page;
  std::string_view rest = FileText("report.html");
  for (const auto& [mark, text] : parts) {
    const size_t at = rest.find(mark);
    FUSEC_CHECK(at != rest.npos, std::string(mark));
    page.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + mark.size());
  }
  return page.append(rest);
}

}  // namespace fusec
