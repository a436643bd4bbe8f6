#include "tests/emulation/cluster.h"

#include <algorithm>
#include <utility>

namespace fusec::emulation {
namespace {

std::mutex complaint_mutex;
std::string first_complaint;

}  // namespace

void Cluster::Arrive() {
  const std::lock_guard lock(mutex_);
  if (++arrived_ < members_.size()) return;
  arrived_ = 0;
  ++phases_ended_;
  changed_.notify_all();
}

uint64_t Cluster::PhasesEnded() {
  const std::lock_guard lock(mutex_);
  return phases_ended_;
}

bool Cluster::Send(size_t block, std::function<void(Block&)> task) {
  const std::lock_guard lock(mutex_);
  if (members_[block].has_ended) return false;
  members_[block].tasks.push_back(std::move(task));
  changed_.notify_all();
  return true;
}

std::vector<std::function<void(Block&)>> Cluster::Take(size_t block) {
  const std::lock_guard lock(mutex_);
  return std::exchange(members_[block].tasks, {});
}

bool Cluster::IsStuck() const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return member.has_ended || (member.waits && !HasNews(member)); });
}

bool Cluster::Await(size_t block, uint64_t phases) {
  std::unique_lock lock(mutex_);
  Member& member = members_[block];
  member.waits = true;
  member.phases = phases;
  if (IsStuck()) changed_.notify_all();
  changed_.wait(lock, [&] { return HasNews(member) || has_failed_ || IsStuck(); });
  const bool is_stuck = IsStuck();
  if (!is_stuck) member.waits = false;
  return !is_stuck || has_failed_;
}

void Cluster::End(size_t block) {
  const std::lock_guard lock(mutex_);
  members_[block].has_ended = true;
  changed_.notify_all();
}

void Cluster::Fail(const std::string& complaint) {
  {
    const std::lock_guard lock(complaint_mutex);
    if (first_complaint.empty()) first_complaint = complaint;
  }
  const std::lock_guard lock(mutex_);
  has_failed_ = true;
  changed_.notify_all();
}

bool Cluster::has_failed() {
  const std::lock_guard lock(mutex_);
  return has_failed_;
}

std::string TakeComplaint() {
  const std::lock_guard lock(complaint_mutex);
  return std::exchange(first_complaint, "");
}

}  // namespace fusec::emulation
