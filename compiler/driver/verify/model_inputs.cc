#include "compiler/driver/verify/model_inputs.h"

#include <algorithm>
#include <cstring>

#include "passes/adapter_site.h"
#include "passes/request_rows.h"

namespace fusec {

namespace {

// A tensor with row `request_of(item)` of `rows` for each of `items` items.
TensorData RowsOfItems(const TensorData& rows, int64_t items,
                       function_ref<int64_t(int64_t item)> request_of) {
  std::vector<int64_t> dims = rows.dims();
  const int64_t requests = dims[0];
  dims[0] = items;
  TensorData replicated(rows.dtype(), dims);
  const size_t bytes = rows.byte_count() / static_cast<size_t>(std::max<int64_t>(requests, 1));
  for (int64_t item = 0; item < items; ++item) {
    int64_t request = request_of(item);
    if (request < 0) request += requests;  // in bounds, because the program's run has succeeded
    std::memcpy(replicated.mutable_bytes() + static_cast<size_t>(item) * bytes,
                rows.bytes() + static_cast<size_t>(request) * bytes, bytes);
  }
  return replicated;
}

}  // namespace

NamedTensors ModelInputs(const Subject& subject, const Inputs& inputs, const DimValues& dims) {
  const Graph& graph = *subject.graph;
  const runtime::Manifest& manifest = subject.program->manifest();
  const PerRequest& per_request = subject.options.per_request;
  const TensorData* map = nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (per_request.is_mapped && manifest.inputs[i].name == kRequestMap) map = &inputs[i];
  }
  const auto batch = BatchOfItems(graph, per_request);
  NamedTensors named;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = manifest.inputs[i].name;
    if (subject.options.adapters && name == kAdapterInput) continue;
    if (&inputs[i] == map) continue;
    const bool is_per_request = batch && IsPerRequest(name, per_request);
    named.emplace_back(name,
                       is_per_request
                           ? RowsOfItems(inputs[i], map ? map->dims()[0] : dims.at(*batch),
                                         [&](int64_t item) { return map ? map->GetInt(item) : 0; })
                           : inputs[i]);
  }
  for (const auto& [name, data] : subject.options.frozen_inputs) named.emplace_back(name, data);
  return named;
}

}  // namespace fusec
