#include "compiler/plan/kernel_choice.h"

#include <vector>

#include "compiler/region/found_sum.h"

namespace fusec {

namespace {

using Team = LaunchShape::Team;

std::string TeamName(Team team) {
  return team == Team::kThread ? "thread" : team == Team::kWarp ? "warp" : "block";
}

}  // namespace

std::string KernelChoice::Suffix() const {
  std::string suffix = SuffixOf(product);
  if (shape.team != Team::kPlanned) suffix += "_" + TeamName(shape.team);
  if (shape.block_size > 0) suffix += "_block_" + std::to_string(shape.block_size);
  if (shape.lanes > 0) suffix += "_lanes_" + std::to_string(shape.lanes);
  if (shape.rows > 0) suffix += "_rows_" + std::to_string(shape.rows);
  if (shape.chunk > 0) suffix += "_chunk_" + std::to_string(shape.chunk);
  if (shape.cluster_blocks > 0) suffix += "_cluster_" + std::to_string(shape.cluster_blocks);
  if (shape.key_warps > 0) suffix += "_key_warps_" + std::to_string(shape.key_warps);
  if (shape.finds_updates) suffix += "_of_few";
  return suffix;
}

std::string KernelChoice::Words() const {
  std::vector<std::string> words;
  const auto number = [](int64_t n) { return std::to_string(n); };
  if (const std::string of_product = WordsOf(product); !of_product.empty())
    words.push_back(of_product);
  if (shape.team != Team::kPlanned) words.push_back("a " + TeamName(shape.team) + " per row");
  if (shape.block_size > 0) words.push_back("blocks of " + number(shape.block_size) + " threads");
  if (shape.lanes > 0) words.push_back(number(shape.lanes) + " elements per thread");
  if (shape.rows > 0) words.push_back(number(shape.rows) + " rows per block");
  if (shape.chunk > 0) words.push_back("blocks of " + number(shape.chunk) + " elements");
  if (shape.cluster_blocks > 0)
    words.push_back("clusters of " + number(shape.cluster_blocks) + " blocks");
  if (shape.key_warps > 0) words.push_back("keys over " + number(shape.key_warps) + " warps");
  if (shape.finds_updates) words.push_back("blocks find their updates");
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "as planned" : text;
}

int64_t KernelChoice::MostRows() const {
  return shape.finds_updates ? kMostUpdatesFound : MostRowsOf(product);
}

}  // namespace fusec
