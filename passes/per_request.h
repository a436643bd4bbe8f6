#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// Inputs of which a call has one row per request, for the items of the batch to share
// (--per-request).
struct PerRequest {
  std::vector<std::string> inputs;  // patterns of names, as shells have them; empty for none
  // Whether a call has several requests (--request-map). Item i then belongs to request
  // request_of_item[i], which is an input.
  bool is_mapped = false;
  bool operator==(const PerRequest&) const = default;
};

// The input that maps items to requests, and the dim that says how many requests there are.
inline constexpr const char* kRequestMap = "request_of_item";
inline constexpr const char* kRequests = "requests";

// The input request_of_item, or null where a call has one request.
Value* FindRequestMap(const Graph& graph);

// Whether the input of that name has one row per request.
bool IsPerRequest(const std::string& input, const PerRequest& per_request);

// Gives the inputs that `per_request` names one row per request, and replicates it in front of
// their readers, so that the graph means what it meant:
//
//   graph @g(%u: f32[batch, 8], %i: f32[batch, 4])     graph @g(%u: f32[1, 8], %i: f32[batch, 4])
//                                                 =>     %u_of_item = expand(%u) : f32[batch, 8]
//
// With is_mapped, %u is f32[requests, 8] and %u_of_item a gather by the new input request_of_item,
// i64[batch], of which the dim `requests` runs over `requests`. A usage error names the pattern
// that matches no input, the input whose first dim is not the batch, and a batch that no input is
// left to tell.
Result<void> DeclarePerRequest(Graph& graph, const PerRequest& per_request,
                               const DimSymbol& requests = {kRequests});

// What became of the ops that read inputs per request, for `fusec explain`.
struct RequestSplit {
  struct Op {
    std::string value;  // its first result
    std::string op;
  };
  // An op that is computed per item although it reads `value`, which is computed per request.
  struct Stop {
    std::string value;
    Op reader;
    std::string reason;
  };
  // A product over columns of both kinds, which is split between them.
  struct Seam {
    std::string value;
    int64_t columns_of_request = 0, columns_of_items = 0;
  };
  std::vector<Op> per_request;
  std::vector<Stop> stops;
  std::vector<Seam> seams;
};

}  // namespace fusec
