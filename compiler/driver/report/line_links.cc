#include "compiler/driver/report/line_links.h"

#include <algorithm>
#include <set>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/ir/op_def.h"
#include "compiler/kernel/model_names.h"
#include "compiler/support/adt.h"
#include "compiler/support/words.h"

namespace fusec {

namespace {

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

size_t IndentOf(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Indices of nodes, ascending and without duplicates.
using Places = std::vector<size_t>;
void AddPlaces(Places& places, const Places& more) {
  for (const size_t place : more) {
    const auto at = std::lower_bound(places.begin(), places.end(), place);
    if (at == places.end() || *at != place) places.insert(at, place);
  }
}

class CodeLinker {
 public:
  // Assigns names to values in the order in which kernels do: results, operands, then intermediate
  // values.
  CodeLinker(const Graph& body, std::string_view code) : body_(body), code_(code) {
    ForEachWord(code, [&](std::string_view word, size_t) { words_.insert(word); });
    DenseMap<const Value*, size_t> makers;
    for (size_t i = 0; i < body.nodes.size(); ++i) {
      for (const auto& result : body.nodes[i]->results) makers[result.get()] = i;
    }
    for (const Value* output : body.outputs) {
      if (const auto maker = makers.find(output); maker != makers.end())
        Name(*output, {maker->second});
    }
    for (const auto& input : body.inputs) {
      Places readers;
      for (size_t i = 0; i < body.nodes.size(); ++i) {
        const ValueList& operands = body.nodes[i]->operands;
        if (std::find(operands.begin(), operands.end(), input.get()) != operands.end())
          readers.push_back(i);
      }
      Name(*input, readers);
    }
    for (size_t i = 0; i < body.nodes.size(); ++i) {
      for (const auto& result : body.nodes[i]->results) {
        if (std::find(body.outputs.begin(), body.outputs.end(), result.get()) == body.outputs.end())
          Name(*result, {i});
      }
    }
  }

  std::map<size_t, Places> Link() {
    const std::vector<std::string_view> lines = LinesOf(code_);
    std::string statement;
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string_view line = lines[i].substr(IndentOf(lines[i]));
      if (line.starts_with("// kernel  : ")) has_header_ = true;
      open_.push_back(i);
      const size_t comment = line.find("//");
      std::string_view text = line.substr(0, comment);
      text = text.substr(0, text.find_last_not_of(' ') + 1);
      if (text.empty() && comment == 0) {  // a comment belongs to the statement after it
        comment_ = line;
        continue;
      }
      statement.append(text).push_back(' ');
      const bool is_constant = text.starts_with("constexpr ") && comment != line.npos;
      if (is_constant) statement.append(line.substr(comment));  // the comment names its tensor
      const char last = text.empty() ? ';' : text.back();
      if (last == ';' || last == '{' || last == '}' || text.starts_with('#')) Close(statement);
    }
    return std::move(links_);
  }

 private:
  void Name(const Value& value, const Places& places) {
    const std::string friendly = FriendlyName(value.name);
    // A kernel that uses the word itself calls the tensor so (kernel/model_names.h).
    const std::string aside = friendly + "_tensor";
    const std::string& stem = words_.count(aside) > 0 ? aside : friendly;
    std::string name = stem;
    for (int i = 2; names_.count(name); ++i) name = stem + "_" + std::to_string(i);
    names_[name] = places;
  }

  // The nodes of the value whose name is the longest one with which the word begins; null if none.
  const Places* Find(std::string_view word) const {
    for (size_t length = word.size(); length > 0;) {
      const auto found = names_.find(word.substr(0, length));
      if (found != names_.end()) return &found->second;
      length = word.substr(0, length).find_last_of('_');
      if (length == word.npos) break;
    }
    return nullptr;
  }

  Places FindAll(std::string_view text) const {
    Places places;
    ForEachWord(text, [&](std::string_view word, size_t at) {
      if (at > 0 && text[at - 1] == '.') return;  // a member: threadIdx.x
      if (const Places* found = Find(word)) AddPlaces(places, *found);
    });
    return places;
  }

  // The nodes whose ops a comment lists after a colon: "// The result: add, relu".
  Places ListedIn(std::string_view comment) const {
    Places places;
    const size_t colon = comment.rfind(": ");
    if (colon == comment.npos) return places;
    ForEachWord(comment.substr(colon), [&](std::string_view word, size_t) {
      for (size_t i = 0; i < body_.nodes.size(); ++i) {
        if (GetOpDef(body_.nodes[i]->kind).text == word) AddPlaces(places, {i});
      }
    });
    return places;
  }

  // The position of the first assignment in a statement; its length if there is none.
  static size_t AssignmentIn(std::string_view text) {
    for (size_t at = text.find('='); at != text.npos; at = text.find('=', at + 1)) {
      const char before = at > 0 ? text[at - 1] : ' ';
      const char behind = at + 1 < text.size() ? text[at + 1] : ' ';
      if (behind == '=')
        ++at;
      else if (before != '<' && before != '>' && before != '!')
        return at;
    }
    return text.size();
  }

  // Called at the end of a statement: links its lines to the nodes whose values it assigns, or
  // otherwise to those it names. The header of a loop and that of the kernel belong to no node.
  void Close(std::string& statement) {
    const std::string_view text = statement;
    Places places;
    if (has_header_ && text.find("__global__") == text.npos && !text.starts_with("for ")) {
      places = FindAll(text.substr(0, AssignmentIn(text)));
      if (places.empty()) places = FindAll(text);
      if (places.empty()) places = ListedIn(comment_);
    }
    if (!places.empty()) {
      for (const size_t line : open_) links_[line] = places;
    }
    open_.clear();
    comment_.clear();
    statement.clear();
  }

  const Graph& body_;
  const std::string_view code_;
  std::set<std::string_view> words_;  // all words of the code
  std::map<std::string, Places, std::less<>> names_;
  std::map<size_t, Places> links_;
  std::vector<size_t> open_;  // lines of the current statement
  std::string comment_;       // the last comment before it
  bool has_header_ = false;  // whether the kernel has begun; device functions before it have no ops
};

}  // namespace

std::vector<IrLine> LinkIrLines(std::string_view text, const Graph& graph) {
  constexpr size_t kNodeIndent = 2, kBodyIndent = 6;  // the indentations that Print uses
  const std::vector<const Node*> regions = RegionsOf(graph);
  std::vector<IrLine> links;
  size_t node = 0, op = 0, next_region = 0;
  std::optional<size_t> region;
  for (const std::string_view line : LinesOf(text)) {
    IrLine& link = links.emplace_back();
    const size_t indent = IndentOf(line);
    const bool is_node = indent < line.size() && line[indent] == '%';
    if (is_node && indent == kNodeIndent && node < graph.nodes.size()) {
      const Node& made = *graph.nodes[node++];
      if (made.kind == OpKind::kRegion) {
        region = next_region++;
        op = 0;
      } else {
        region.reset();
        link.value = made.result();
      }
    }
    if (indent < kNodeIndent || (indent == kNodeIndent && !is_node && line.substr(indent) != "}"))
      region.reset();
    link.region = region;
    if (region && is_node && indent == kBodyIndent && op < regions[*region]->body->nodes.size())
      link.op = op++;
  }
  return links;
}

std::map<size_t, std::vector<size_t>> LinkCodeLines(std::string_view code, const Graph& body) {
  return CodeLinker(body, code).Link();
}

}  // namespace fusec
