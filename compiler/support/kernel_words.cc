#include "compiler/support/kernel_words.h"

#include <algorithm>
#include <cctype>

namespace fusec {

namespace {

constexpr std::string_view kWords[] = {
    "alignas",   "and",      "asm",       "auto",      "bool",     "break",    "case",
    "catch",     "char",     "class",     "const",     "continue", "default",  "delete",
    "do",        "double",   "else",      "enum",      "explicit", "export",   "extern",
    "false",     "float",    "for",       "friend",    "goto",     "if",       "inline",
    "int",       "long",     "mutable",   "namespace", "new",      "not",      "operator",
    "or",        "private",  "protected", "public",    "register", "return",   "short",
    "signed",    "sizeof",   "static",    "struct",    "switch",   "template", "this",
    "throw",     "true",     "try",       "typedef",   "typeid",   "typename", "union",
    "unsigned",  "using",    "virtual",   "void",      "volatile", "while",    "xor",
    "threadIdx", "blockIdx", "blockDim",  "gridDim",   "min",      "max",      "abs",
    "signbit",   "isnan",    "isinf",
};

// With and without the f of their float form.
constexpr std::string_view kMath[] = {
    "sqrt",  "exp",   "log",      "sin",   "cos",   "tan",   "asin",  "acos",
    "atan",  "sinh",  "cosh",     "tanh",  "asinh", "acosh", "atanh", "erf",
    "ceil",  "floor", "pow",      "fmod",  "rint",  "round", "fabs",  "expm1",
    "log1p", "trunc", "copysign", "rsqrt", "fmin",  "fmax",  "fma",
};

constexpr std::string_view kVariables[] = {
    "i",
    "k",
    "row",
    "first",
    "last",
    "first_row",
    "last_row",
    "part",
    "tables",
    "rows",
    "scratch",
    "errors",
    "rows_here",
    "row_in_block",
    "element",
    "column",
    "first_column",
    "tile_row",
    "tile_column",
    "tile_vector",
    "sums",
    "tile_rows_here",
    "matrix",
    "product",
    "memory",
    "shared_memory",
    "lane",
    "vector",
    "step",
    "head",
    "queries",
    "results",
    "query_row",
    "first_query",
    "query_in_tile",
    "key_row",
    "first_key",
    "key_in_tile",
    "value_row",
    "value_in_tile",
    "tile_scores",
    "attention",
    "place",
    "piece",
    "copy",
    "attended",
    "tile",
    "query_tiles",
    "key_tiles",
    "here",
    "next",
};

// One per axis, place or step of a sum: k_0, inner_1.
constexpr std::string_view kNumberedVariables[] = {"k_",          "inner_", "axis_",
                                                   "data_index_", "step_",  "rows_"};

template <class List>
bool Contains(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool IsNumbered(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || name.size() == prefix.size()) return false;
  name.remove_prefix(prefix.size());
  return std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c); });
}

}  // namespace

bool IsKernelWord(std::string_view name) {
  if (Contains(kWords, name) || Contains(kVariables, name) || Contains(kMath, name)) return true;
  if (name.ends_with('f') && Contains(kMath, name.substr(0, name.size() - 1))) return true;
  return std::any_of(std::begin(kNumberedVariables), std::end(kNumberedVariables),
                     [&](std::string_view prefix) { return IsNumbered(name, prefix); });
}

}  // namespace fusec
