#include "runtime/python/src/serve/batch_queue.h"

#include <algorithm>

namespace fusec::python {
namespace {

// The requests from which Crowd draws conclusions, and the least of a lane's share.
constexpr size_t kMany = 8;

}  // namespace

bool Crowd::IsAll(size_t present, Clock::time_point now) {
  if (now >= end_) {
    most_before_ = now < end_ + lately_ ? most_ : 0;
    end_ = now + lately_;
    most_ = 0;
  }
  most_ = std::max(most_, present);
  return present >= most_before_ && most_before_ >= kMany && present >= most_;
}

bool BatchQueue::Push(std::shared_ptr<Waiting> waiting) {
  const std::lock_guard lock(mutex_);
  if (queue_.size() >= limits_.waiting) DropEnded();
  if (is_closed_ || queue_.size() >= limits_.waiting) return false;
  queued_rows_ += waiting->rows;
  const Clock::time_point now = waiting->since;
  queue_.push_back(std::move(waiting));
  const bool is_all = crowd_.IsAll(queue_.size() + running_, now);
  // A lane that waits for the delay of the first request wakes by itself.
  if (queue_.size() == 1 || is_all || queued_rows_ >= limits_.rows || !limits_.can_join)
    has_changed_.notify_one();
  return true;
}

Batch BatchQueue::Take() {
  std::unique_lock lock(mutex_);
  ++idle_lanes_;
  while (true) {
    while (!queue_.empty() && queue_.front()->is_done()) {
      queued_rows_ -= queue_.front()->rows;
      queue_.pop_front();
    }
    if (queue_.empty()) {
      if (is_closed_) {
        --idle_lanes_;
        return {};
      }
      has_changed_.wait(lock);
      continue;
    }
    if (IsDue(Clock::now())) {
      Batch batch = TakeBatch();
      running_ += batch.size();
      --idle_lanes_;
      if (!queue_.empty()) has_changed_.notify_one();
      return batch;
    }
    has_changed_.wait_until(lock, queue_.front()->since + limits_.delay);
  }
}

void BatchQueue::Finish(size_t requests) {
  const std::lock_guard lock(mutex_);
  running_ -= requests;
}

void BatchQueue::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  has_changed_.notify_all();
}

bool BatchQueue::is_closed() const {
  const std::lock_guard lock(mutex_);
  return is_closed_;
}

size_t BatchQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

void BatchQueue::DropEnded() {
  std::erase_if(queue_, [](const auto& waiting) { return waiting->is_done(); });
  queued_rows_ = 0;
  for (const auto& waiting : queue_) queued_rows_ += waiting->rows;
}

// Whether the first request need not wait for others.
bool BatchQueue::IsDue(Clock::time_point now) {
  if (is_closed_ || !limits_.can_join || queued_rows_ >= limits_.rows) return true;
  return now >= queue_.front()->since + limits_.delay ||
         crowd_.IsAll(queue_.size() + running_, now);
}

// The most requests of the next batch.
size_t BatchQueue::Share() const {
  if (!limits_.shares) return queue_.size();
  const size_t lanes = std::clamp(queue_.size() / kMany, size_t{1}, idle_lanes_);
  return (queue_.size() + lanes - 1) / lanes;
}

// Takes the first request, and the later ones that may share its run and fit into it.
Batch BatchQueue::TakeBatch() {
  const size_t most = Share();
  Batch batch = {std::move(queue_.front())};
  queue_.pop_front();
  int64_t rows = batch[0]->rows;
  std::vector<int64_t> sizes = batch[0]->sizes;
  std::deque<std::shared_ptr<Waiting>> left;
  int64_t left_rows = 0;
  for (std::shared_ptr<Waiting>& waiting : queue_) {
    if (waiting->is_done()) continue;
    if (batch.size() < most && waiting->key == batch[0]->key &&
        rows + waiting->rows <= limits_.rows && Fits(*waiting, sizes)) {
      rows += waiting->rows;
      batch.push_back(std::move(waiting));
    } else {
      left_rows += waiting->rows;
      left.push_back(std::move(waiting));
    }
  }
  queue_ = std::move(left);
  queued_rows_ = left_rows;
  return batch;
}

// Adds the sizes of a request to those of a batch if they fit; returns whether they do.
bool BatchQueue::Fits(const Waiting& waiting, std::vector<int64_t>& sizes) const {
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] + waiting.sizes[i] > limits_.sizes[i]) return false;
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] += waiting.sizes[i];
  return true;
}

}  // namespace fusec::python
