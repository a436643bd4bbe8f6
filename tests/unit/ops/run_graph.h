#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "compiler/ir/op_def.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/adt.h"

// Helpers for tests that give a graph as IR text and check the interpreter's results.
namespace fusec {

inline ReferenceTensor Reals(std::vector<int64_t> dims, std::vector<double> values,
                             Dtype dtype = Dtype::kF32) {
  ReferenceTensor tensor(dtype, std::move(dims));
  EXPECT_EQ(tensor.reals.size(), values.size());
  tensor.reals = std::move(values);
  return tensor;
}

inline ReferenceTensor Integers(std::vector<int64_t> dims, std::vector<int64_t> values,
                                Dtype dtype = Dtype::kI64) {
  ReferenceTensor tensor(dtype, std::move(dims));
  EXPECT_EQ(tensor.ints.size(), values.size());
  tensor.ints = std::move(values);
  return tensor;
}

// Pseudo-random numbers that are the same on every machine: a linear congruential generator, scaled to -1..1.
inline ReferenceTensor Noise(std::vector<int64_t> dims, uint32_t seed, Dtype dtype = Dtype::kF32) {
  ReferenceTensor tensor(dtype, std::move(dims));
  uint32_t state = seed * 2654435761u + 1;
  for (double& value : tensor.reals) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<double>(state >> 8) / (1 << 23) - 1;
  }
  return tensor;
}

inline std::unique_ptr<Graph> ParseGraph(const std::string& text) {
  Result<std::unique_ptr<Graph>> graph = Parse(text);
  if (!graph) throw std::runtime_error(graph.error().message);
  if (const Result<void> good = Verify(**graph); !good)
    throw std::runtime_error(good.error().message);
  return *std::move(graph);
}

inline std::vector<ReferenceTensor> RunGraph(const Graph& graph,
                                             ArrayRef<ReferenceTensor> inputs) {
  Result<std::vector<ReferenceTensor>> results = Interpret(graph, inputs);
  if (!results) throw std::runtime_error(results.error().message);
  return *std::move(results);
}

inline std::vector<ReferenceTensor> RunText(const std::string& text,
                                            ArrayRef<ReferenceTensor> inputs) {
  return RunGraph(*ParseGraph(text), inputs);
}

// The error that parsing or verifying the text gives.
inline std::string ErrorOfText(const std::string& text) {
  const Result<std::unique_ptr<Graph>> graph = Parse(text);
  if (!graph) return graph.error().message;
  const Result<void> good = Verify(**graph);
  return good ? "no error" : good.error().message;
}

// Replaces every composite node by its decomposition.
inline void DecomposeAll(Graph& graph) {
  for (size_t i = 0; i < graph.nodes.size();) {
    const OpDef& op = GetOpDef(graph.nodes[i]->kind);
    if (op.op_class != OpClass::kComposite) {
      ++i;
      continue;
    }
    Builder builder(graph, i);
    const Result<ValueList> values = op.functions.decompose(*graph.nodes[i], builder);
    if (!values) throw std::runtime_error(values.error().message);
    const size_t at = builder.insert_at();
    const Node& node = *graph.nodes[at];
    ASSERT_EQ(values->size(), node.results.size());
    for (size_t k = 0; k < values->size(); ++k) {
      EXPECT_EQ((*values)[k]->type, node.result(static_cast<int>(k))->type);
      graph.ReplaceAllUses(node.result(static_cast<int>(k)), (*values)[k]);
    }
    graph.nodes.erase(graph.nodes.begin() + static_cast<int64_t>(at));
  }
  const Result<void> good = Verify(graph);
  EXPECT_TRUE(good.has_value()) << good.error().message << "\n" << Print(graph);
}

// Expects equal values up to 1e-12 relative to values of about 1; both are computed in double, so that only the order of operations
// differs.
inline void ExpectClose(const ReferenceTensor& found, const ReferenceTensor& expected,
                        double tolerance = 1e-12) {
  EXPECT_EQ(found.dtype, expected.dtype);
  EXPECT_EQ(found.dims, expected.dims);
  EXPECT_EQ(found.ints, expected.ints);
  ASSERT_EQ(found.reals.size(), expected.reals.size());
  for (size_t i = 0; i < found.reals.size(); ++i) {
    const double a = found.reals[i], b = expected.reals[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    EXPECT_NEAR(a, b, tolerance * (1 + std::abs(b))) << "at " << i;
  }
}

// Returns " symbols(n in 0..9)" if the text has a dim n.
inline std::string SymbolsOf(const std::string& types) {
  for (const char* place : {"[n", " n,", " n]"}) {
    if (types.find(place) != std::string::npos) return " symbols(n in 0..9)";
  }
  return "";
}

// Runs a graph as it is and with composite ops decomposed; the results must agree, and are returned. A decomposition in f16 rounds its
// result once, by up to 2^-11.
inline std::vector<ReferenceTensor> RunBothWays(const std::string& text,
                                                ArrayRef<ReferenceTensor> inputs) {
  const std::unique_ptr<Graph> graph = ParseGraph(text);
  std::vector<ReferenceTensor> direct = RunGraph(*graph, inputs);
  DecomposeAll(*graph);
  const std::vector<ReferenceTensor> parts = RunGraph(*graph, inputs);
  EXPECT_EQ(direct.size(), parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    ExpectClose(parts[i], direct[i], parts[i].dtype == Dtype::kF16 ? 0x1p-11 : 1e-12);
  }
  return direct;
}

}  // namespace fusec
