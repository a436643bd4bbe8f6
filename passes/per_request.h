#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// Which inputs have one row per request in a call, shared by all items of that request
// (--per-request).
struct PerRequest {
  std::vector<std::string> inputs;  // shell-style globs for names of inputs; empty for none
  // Whether a call has several requests (--request-map). Item i then belongs to request
  // request_of_item[i]; request_of_item is an input of the graph.
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

// Gives the inputs that `per_request` names one row per request, and replicates the row in front of
// their readers, so that the graph keeps its meaning:
//
//   graph @g(%u: f32[batch, 8], %i: f32[batch, 4])     graph @g(%u: f32[1, 8], %i: f32[batch, 4])
//                                                 =>     %u_of_item = expand(%u) : f32[batch, 8]
//
// With is_mapped, %u is f32[requests, 8], and %u_of_item is a gather by the new input
// request_of_item, i64[batch]. The argument `requests` gives the name and range of the dim that
// counts requests. It is a usage error if a pattern matches no input, if the first dim of a matched
// input is not the batch, or if no input is left whose shape gives the batch.
Result<void> DeclarePerRequest(Graph& graph, const PerRequest& per_request,
                               const DimSymbol& requests = {kRequests});

// What became of the ops that read inputs per request, for `fusec explain`.
struct RequestSplit {
  struct Op {
    std::string value;  // its first result
    std::string op;
  };
  // An op that is computed per item although its operand `value` is computed per request.
  struct Stop {
    std::string value;
    Op reader;
    std::string reason;
  };
  // A product over columns of the request and columns of items, which is split in two.
  struct Seam {
    std::string value;
    int64_t columns_of_request = 0, columns_of_items = 0;
  };
  std::vector<Op> per_request;
  std::vector<Stop> stops;
  std::vector<Seam> seams;
};

}  // namespace fusec
