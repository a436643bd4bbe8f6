#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fusec {

// What a drawing in graphviz's DOT language declares.
struct DotDrawing {
  std::vector<std::string> nodes;
  std::vector<std::pair<std::string, std::string>> edges;
  std::set<std::string> clusters;
  std::string error;  // "" if the drawing is well-formed; otherwise place and kind of the error
};

// Parses the part of the language that a single directed graph needs: `digraph "name" { ... }` with attributes, nodes, edges and subgraphs.
DotDrawing ParseDot(const std::string& text);

}  // namespace fusec
