#include "compiler/plan/kernel_name.h"

#include <algorithm>
#include <cstdio>

#include "compiler/ir/op_def.h"
#include "compiler/region/op_groups.h"

namespace fusec {

namespace {

constexpr size_t kMostWords = 3;
constexpr size_t kMostCharacters = 40;
// Kinds of words, see RegionName.
constexpr int kLastToldTogether = 4;
constexpr int kLastKind = 7;

struct Word {
  std::string text;
  int kind = 0;  // 1 to 7, as RegionName lists them
  bool taken = false;
};

int KindOf(const Node& node, bool is_fixed) {
  const OpDef& def = GetOpDef(node.kind);
  switch (def.op_class) {
    case OpClass::kView:
      return node.kind != OpKind::kConcat ? 7 : is_fixed ? 5 : 2;
    case OpClass::kGather:
    case OpClass::kReduction:
      return 2;
    case OpClass::kPointwise:
      break;
    default:
      return 1;
  }
  if (node.kind == OpKind::kCast || node.kind == OpKind::kSymbolicDims) return 6;
  if (is_fixed) return 5;
  if (node.kind == OpKind::kMod || (def.algebra & (kExpensive | kActivation)) != 0) return 3;
  return IsFloat(node.result()->type.dtype) ? 4 : 5;
}

// The words of a region in order. The word of a group is at the place of its last op.
std::vector<Word> WordsOf(const Node& region) {
  const std::vector<OpGroup> groups = FindOpGroups(region);
  const ValueSet fixed = FixedValues(region);
  DenseMap<const Node*, const OpGroup*> group_of;
  DenseMap<const OpGroup*, size_t> left;  // ops of the group still to come
  for (const OpGroup& group : groups) {
    for (const Node* node : group.nodes) group_of[node] = &group;
    left[&group] = group.nodes.size();
  }
  std::vector<Word> words;
  const auto add = [&](const std::string& text, int kind) {
    for (Word& word : words) {
      if (word.text != text) continue;
      word.kind = std::min(word.kind, kind);
      return;
    }
    words.push_back({text, kind});
  };
  for (const auto& node : region.body->nodes) {
    if (const auto found = group_of.find(node.get()); found != group_of.end()) {
      const OpGroup& group = *found->second;
      if (--left[&group] == 0) add(group.name, group.name == "embedding" ? 2 : 1);
      continue;
    }
    const OpDef& def = GetOpDef(node->kind);
    if (def.op_class == OpClass::kConstant) continue;
    const bool chooses = def.op_class == OpClass::kGather && fixed.count(node->operand(1)) != 0;
    add(def.text, chooses ? 7 : KindOf(*node, fixed.count(node->result()) != 0));
  }
  return words;
}

}  // namespace

std::string RegionName(const Node& region, size_t number) {
  char prefix[24];
  std::snprintf(prefix, sizeof prefix, "k%02zu", number);
  std::string name = prefix;
  std::vector<Word> words = WordsOf(region);
  size_t taken = 0, length = name.size();
  for (int kind = 1; kind <= kLastKind && (kind <= kLastToldTogether || taken == 0); ++kind) {
    for (Word& word : words) {
      const size_t longer = length + 1 + word.text.size();
      if (word.kind != kind || taken == kMostWords || longer > kMostCharacters) continue;
      word.taken = true;
      length = longer;
      ++taken;
    }
  }
  for (const Word& word : words) {
    if (word.taken) name += "_" + word.text;
  }
  return name;
}

std::vector<std::string> OpNames(const Node& region) {
  std::vector<std::string> ops, views;
  for (const auto& node : region.body->nodes) {
    const OpDef& def = GetOpDef(node->kind);
    if (def.op_class == OpClass::kConstant) continue;
    const bool is_view = def.op_class == OpClass::kView && node->kind != OpKind::kConcat;
    auto& list = is_view ? views : ops;
    if (std::find(list.begin(), list.end(), def.text) == list.end()) list.push_back(def.text);
  }
  return ops.empty() ? views : ops;
}

}  // namespace fusec
