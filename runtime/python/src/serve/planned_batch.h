// A batch of planned requests: joins their inputs, and makes their answers from the results.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/python/src/serve/plan.h"

namespace fusec::python {

// A result of a run of the model: the bytes, and the dims behind the first.
struct RunResult {
  std::span<const char> bytes;
  std::vector<int64_t> row_dims;
};

// Durations of requests, counted by upper bounds.
struct Durations {
  std::vector<int64_t> counts;
  double sum = 0;
};

// What the counters of a replica learn of the requests that a run has answered.
struct AnsweredRequests {
  explicit AnsweredRequests(const std::vector<double>& bounds);
  // Counts a request that is answered now; its batch began at `start`.
  void Add(const Waiting& request, Clock::time_point start, const std::vector<double>& bounds);

  int64_t requests = 0, rows = 0;
  Durations waits;   // from arrival to the start of the batch
  Durations wholes;  // from arrival to the answer
};

class PlannedBatch {
 public:
  using Requests = std::vector<std::shared_ptr<PlannedRequest>>;

  PlannedBatch(Requests requests, Clock::time_point start)
      : requests_(std::move(requests)), start_(start) {}

  size_t requests() const { return requests_.size(); }
  int64_t rows() const;
  // The dims behind the first of each input, which are the same in all requests.
  const std::vector<std::vector<int64_t>>& input_row_dims() const {
    return requests_[0]->plan->input_row_dims;
  }

  // Puts requests with equal adapters side by side, whose rows are then computed faster.
  void SortByAdapter();
  size_t InputBytes(size_t input) const;
  // Copies an input of all requests to `out`, which has InputBytes.
  void Join(size_t input, char* out) const;
  // The batch as two batches.
  std::pair<PlannedBatch, PlannedBatch> Halves() const;

  // Makes the answers from the results. `bounds` are the upper bounds of durations, in seconds.
  // Throws std::length_error if the results have too few rows.
  AnsweredRequests Answer(std::string_view version, const std::vector<RunResult>& results,
                          const std::vector<double>& bounds);
  // Makes the same answer for all requests: an error. Returns what Answer does.
  AnsweredRequests Refuse(int status, const std::string& json, const std::vector<double>& bounds);
  // Sends the answers that were made.
  void Send();

 private:
  Requests requests_;
  Clock::time_point start_;
  std::vector<std::pair<std::shared_ptr<AnswerSink>, AnswerSink::Answer>> answers_;
};

}  // namespace fusec::python
