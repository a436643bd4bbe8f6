#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// Makes a random graph with a batch from a seed.
using MakeGraph = std::function<std::unique_ptr<Graph>(uint64_t seed)>;

// Fills constants that have no payload with random numbers.
void FillPayloads(Graph& graph);

// Sizes for the symbols of a graph: three requests and seven of everything else, or the nearest value in the symbol's range.
std::map<std::string, int64_t> SomeSizes(const Graph& graph);

// Runs `pass` alone on 300 graphs, and expects that the results after it have the same bits, and that it changes more than one in
// `changes_one_in` of the graphs.
void ExpectSameMeaning(const MakeGraph& make, const std::string& pass, int changes_one_in);

// Expects that none of 300 graphs takes more launches on a GPU with `pass` than without it, and that the pass saves more than one launch
// per `saves_one_in` graphs.
void ExpectNoMoreLaunches(const MakeGraph& make, const std::string& pass, int saves_one_in);

}  // namespace fusec
