// Inference requests over HTTP that need no Python of their own: their tensors are all binary, and
// their JSON, which clients repeat byte for byte, has been parsed before.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/python/src/serve/batch_queue.h"

namespace fusec::python {

struct ByteRange {
  size_t offset, size;
};

// An output of the answers, with its part of their JSON: {"name": "y", "datatype": "FP32", "shape":
struct PlannedOutput {
  size_t index;  // among the model's outputs
  std::string json;
};

// The contents of the JSON of a request.
struct Plan {
  int64_t key, rows;                                 // as in Waiting
  std::vector<int64_t> sizes;                        // as in Waiting
  size_t data_size;                                  // bytes of the binary data
  std::vector<ByteRange> inputs;                     // in the binary data, in the model's order
  std::vector<std::vector<int64_t>> input_row_dims;  // the dims behind the first of each input
  std::vector<ByteRange> bools;      // those of dtype bool, whose bytes must be 0 or 1
  std::optional<size_t> adapter_at;  // the offset of the first row's adapter, an i32
  double timeout_ms = 0;             // 0: none
  // The JSON of an answer: `before_version`, the version, `after_version`, and the outputs.
  std::string before_version, after_version;
  std::vector<PlannedOutput> outputs;
  std::vector<int64_t> output_rows;  // of all outputs of the model
  bool may_be_compressed = false;    // whether answers are large enough for that

  // Whether the binary data can be run without being looked at by Python.
  bool Takes(std::string_view data) const;
};

// The plans of a loaded model, by their JSON. The methods may be called by any thread.
class Plans : public std::enable_shared_from_this<Plans> {
 public:
  void Add(std::string json, std::shared_ptr<const Plan> plan);
  std::shared_ptr<const Plan> Find(std::string_view json) const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Plan>, Hash, std::equal_to<>> plans_;
  std::deque<std::string> oldest_first_;
};

// The body of a request.
struct Body {
  std::unique_ptr<char[]> bytes;
  size_t size = 0;

  std::string_view text() const { return {bytes.get(), size}; }
};

// Where the answer to a planned request goes. The methods may be called by any thread.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  // `head` has the lines of HTTP without the last ones, `body` follows them.
  struct Answer {
    int status;
    std::string head, body;
  };
  virtual void Send(Answer answer) = 0;

  static Answer Json(int status, std::string json);
};

class PlannedRequest : public Waiting {
 public:
  PlannedRequest(std::shared_ptr<const Plan> plan, Body body, size_t json_size,
                 std::shared_ptr<AnswerSink> sink)
      : Waiting(plan->key, plan->rows, plan->sizes),
        plan(std::move(plan)),
        body(std::move(body)),
        json_size(json_size),
        sink(std::move(sink)) {}

  const char* data() const { return body.bytes.get() + json_size; }

  const std::shared_ptr<const Plan> plan;
  Body body;
  const size_t json_size;
  const std::shared_ptr<AnswerSink> sink;
};

}  // namespace fusec::python
