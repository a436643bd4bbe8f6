#include "runtime/python/src/serve/plan.h"

#include <algorithm>

namespace fusec::python {
namespace {

constexpr size_t kMostPlans = 256;

}  // namespace

bool Plan::Takes(std::string_view data) const {
  if (data.size() != data_size) return false;
  return std::all_of(bools.begin(), bools.end(), [&](const ByteRange& range) {
    const std::string_view values = data.substr(range.offset, range.size);
    return std::all_of(values.begin(), values.end(),
                       [](char value) { return value == 0 || value == 1; });
  });
}

AnswerSink::Answer AnswerSink::Json(int status, std::string json) {
  std::string head =
      "content-type: application/json\r\ncontent-length: " + std::to_string(json.size()) + "\r\n";
  return {status, std::move(head), std::move(json)};
}

void Plans::Add(std::string json, std::shared_ptr<const Plan> plan) {
  const std::lock_guard lock(mutex_);
  if (!plans_.insert_or_assign(json, std::move(plan)).second) return;
  oldest_first_.push_back(std::move(json));
  if (oldest_first_.size() > kMostPlans) {
    plans_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
}

std::shared_ptr<const Plan> Plans::Find(std::string_view json) const {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(json);
  return found == plans_.end() ? nullptr : found->second;
}

}  // namespace fusec::python
