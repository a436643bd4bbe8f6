#include "runtime/src/cuda/weights_switch.h"

namespace fusec::runtime {

void WeightsSwitch::Join(Member& member) {
  const std::lock_guard lock(mutex_);
  members_.push_back(&member);
}

void WeightsSwitch::Leave(Member& member) {
  const std::lock_guard lock(mutex_);
  std::erase(members_, &member);
}

Status WeightsSwitch::WaitForLast(Member& member, CUstream stream) {
  const uint64_t last = switches_;
  if (member.seen == last) return {};
  FUSEC_RT_TRY(MakeWait(stream));
  member.seen = last;
  return {};
}

Status WeightsSwitch::Switch(const std::function<Status(CUstream)>& enqueue) {
  const Status enqueued = Enqueue(enqueue);
  if (enqueued) return Wait();
  // After an error the caller may free memory that enqueued copies still read, so wait for them.
  if (stream_) static_cast<void>(context_.driver().cuStreamSynchronize(stream_.get()));
  return enqueued;
}

Status WeightsSwitch::Wait() const {
  return FUSEC_CUDA(context_, "new weights", cuEventSynchronize, switched_.get());
}

Status WeightsSwitch::MakeWait(CUstream stream) const {
  return FUSEC_CUDA(context_, "new weights", cuStreamWaitEvent, stream, switched_.get(),
                    CU_EVENT_WAIT_DEFAULT);
}

Status WeightsSwitch::Enqueue(const std::function<Status(CUstream)>& enqueue) {
  if (!stream_) {
    FUSEC_RT_ASSIGN(switched_, CreateEvent(context_, false));
    FUSEC_RT_ASSIGN(stream_, CreateStream(context_));
  }
  const std::lock_guard lock(mutex_);  // so that members neither join nor leave
  const Gate::Closed alone(gate_);
  return EnqueueBehindRuns(enqueue);
}

Status WeightsSwitch::EnqueueBehindRuns(const std::function<Status(CUstream)>& enqueue) {
  const CUstream stream = stream_.get();
  for (const Member* member : members_) {
    // Runs on an executor's own stream record no event, so it is recorded here.
    if (member->is_on_own_stream) {
      FUSEC_RT_TRY(
          FUSEC_CUDA(context_, "new weights", cuEventRecord, member->done, member->own_stream));
    }
    FUSEC_RT_TRY(FUSEC_CUDA(context_, "new weights", cuStreamWaitEvent, stream, member->done,
                            CU_EVENT_WAIT_DEFAULT));
  }
  FUSEC_RT_TRY(enqueue(stream));
  FUSEC_RT_TRY(FUSEC_CUDA(context_, "new weights", cuEventRecord, switched_.get(), stream));
  ++switches_;
  return {};
}

}  // namespace fusec::runtime
