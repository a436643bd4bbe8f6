#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// A random graph with a batch, of a seed.
using MakeGraph = std::function<std::unique_ptr<Graph>(uint64_t seed)>;

// Random numbers for constants whose payload is in no file.
void FillPayloads(Graph& graph);

// Three requests, seven of everything else, or what comes nearest in the symbol's range.
std::map<std::string, int64_t> SomeSizes(const Graph& graph);

// Runs `pass` alone on 300 graphs, and expects that these compute the same behind it, to the bit, and that it changes more than one in
// `changes_one_in` of them.
void ExpectSameMeaning(const MakeGraph& make, const std::string& pass, int changes_one_in);

// Expects that none of 300 graphs takes more launches on a GPU with `pass` than without it, and that it saves more than one launch in
// `saves_one_in` graphs.
void ExpectNoMoreLaunches(const MakeGraph& make, const std::string& pass, int saves_one_in);

}  // namespace fusec
