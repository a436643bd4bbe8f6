#include "runtime/python/src/serve/planned_batch.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace fusec::python {
namespace {

void Count(Durations& durations, double seconds, const std::vector<double>& bounds) {
  const auto bound = std::lower_bound(bounds.begin(), bounds.end(), seconds);
  ++durations.counts[bound - bounds.begin()];
  durations.sum += seconds;
}

int32_t AdapterOf(const PlannedRequest& request) {
  int32_t adapter = -1;
  if (request.rows > 0)
    std::memcpy(&adapter, request.data() + *request.plan->adapter_at, sizeof adapter);
  return adapter;
}

// Appends the JSON of an output behind its datatype, and returns the size of its data.
size_t AppendOutput(std::string& json, const PlannedOutput& output, int64_t rows,
                    const RunResult& result, size_t row_size) {
  json += output.json;
  json += '[';
  json += std::to_string(rows);
  for (const int64_t dim : result.row_dims) {
    json += ", ";
    json += std::to_string(dim);
  }
  const size_t size = rows * row_size;
  json += "], \"parameters\": {\"binary_data_size\": ";
  json += std::to_string(size);
  json += "}}";
  return size;
}

}  // namespace

AnsweredRequests::AnsweredRequests(const std::vector<double>& bounds) {
  waits.counts.resize(bounds.size() + 1);
  wholes.counts.resize(bounds.size() + 1);
}

void AnsweredRequests::Add(const Waiting& request, Clock::time_point start,
                           const std::vector<double>& bounds) {
  ++requests;
  rows += request.rows;
  Count(waits, Seconds(start - request.since).count(), bounds);
  Count(wholes, Seconds(Clock::now() - request.since).count(), bounds);
}

int64_t PlannedBatch::rows() const {
  int64_t rows = 0;
  for (const auto& request : requests_) rows += request->rows;
  return rows;
}

void PlannedBatch::SortByAdapter() {
  if (!requests_[0]->plan->adapter_at) return;
  std::stable_sort(requests_.begin(), requests_.end(), [](const auto& one, const auto& other) {
    return AdapterOf(*one) < AdapterOf(*other);
  });
}

size_t PlannedBatch::InputBytes(size_t input) const {
  size_t size = 0;
  for (const auto& request : requests_) size += request->plan->inputs[input].size;
  return size;
}

void PlannedBatch::Join(size_t input, char* out) const {
  for (const auto& request : requests_) {
    const ByteRange range = request->plan->inputs[input];
    std::memcpy(out, request->data() + range.offset, range.size);
    out += range.size;
  }
}

std::pair<PlannedBatch, PlannedBatch> PlannedBatch::Halves() const {
  const auto middle = requests_.begin() + requests_.size() / 2;
  return {PlannedBatch(Requests(requests_.begin(), middle), start_),
          PlannedBatch(Requests(middle, requests_.end()), start_)};
}

AnsweredRequests PlannedBatch::Answer(std::string_view version,
                                      const std::vector<RunResult>& results,
                                      const std::vector<double>& bounds) {
  if (requests_[0]->plan->output_rows.size() != results.size())
    throw std::length_error("the model gave another number of results than it has outputs");
  std::vector<size_t> row_sizes(results.size()), starts(results.size(), 0);
  for (size_t i = 0; i < results.size(); ++i) {
    int64_t rows = 0;
    for (const auto& request : requests_) rows += request->plan->output_rows.at(i);
    row_sizes[i] = rows == 0 ? 0 : results[i].bytes.size() / rows;
    if (row_sizes[i] * rows != results[i].bytes.size())
      throw std::length_error("the model gave another number of rows than it was asked for");
  }
  AnsweredRequests answered(bounds);
  for (const auto& request : requests_) {
    const Plan& plan = *request->plan;
    if (request->End()) {
      answered.Add(*request, start_, bounds);
      AnswerSink::Answer answer{200, {}, plan.before_version};
      answer.body += version;
      answer.body += plan.after_version;
      size_t size = 0;
      for (const PlannedOutput& output : plan.outputs) {
        if (&output != plan.outputs.data()) answer.body += ", ";
        size += AppendOutput(answer.body, output, plan.output_rows[output.index],
                             results[output.index], row_sizes[output.index]);
      }
      answer.body += "]}";
      const size_t json_size = answer.body.size();
      answer.body.reserve(json_size + size);
      for (const PlannedOutput& output : plan.outputs) {
        const size_t i = output.index;
        answer.body.append(results[i].bytes.data() + starts[i], plan.output_rows[i] * row_sizes[i]);
      }
      answer.head = "content-type: application/octet-stream\r\ninference-header-content-length: " +
                    std::to_string(json_size) +
                    "\r\ncontent-length: " + std::to_string(answer.body.size()) + "\r\n";
      answers_.emplace_back(request->sink, std::move(answer));
    }
    for (size_t i = 0; i < results.size(); ++i) starts[i] += plan.output_rows[i] * row_sizes[i];
  }
  return answered;
}

AnsweredRequests PlannedBatch::Refuse(int status, const std::string& json,
                                      const std::vector<double>& bounds) {
  AnsweredRequests answered(bounds);
  for (const auto& request : requests_) {
    if (!request->End()) continue;
    answered.Add(*request, start_, bounds);
    answers_.emplace_back(request->sink, AnswerSink::Json(status, json));
  }
  return answered;
}

void PlannedBatch::Send() {
  for (auto& [sink, answer] : answers_) sink->Send(std::move(answer));
  answers_.clear();
}

}  // namespace fusec::python
