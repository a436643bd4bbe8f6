#include "runtime/src/cuda/host_constant.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "runtime/src/cuda/copy_threads.h"

namespace fusec::runtime {

StatusOr<HostConstant> HostConstant::Allocate(const CudaContext& context, size_t bytes,
                                              const std::string& constant) {
  bytes = std::max<size_t>(bytes, 1);
  HostConstant made;
  auto pinned = AllocatePinned(context, bytes, Text("constant \"", constant, "\""));
  if (pinned) {
    made.pinned_ = *std::move(pinned);
    made.bytes_ = {static_cast<std::byte*>(made.pinned_.get()), bytes};
  } else {
    FUSEC_RT_TRY(context.Usable());
    const Status locked = made.LockPageable(context, bytes);
    if (!locked) {
      return Fail(FUSEC_NO_DEVICE, pinned.error().message,
                  "; pageable memory in its place: ", locked.error().message,
                  "; --table-placement wants as much host memory that may be locked (ulimit -l)");
    }
    std::fprintf(stderr,
                 "fusec: warning: constant \"%s\" (%zu bytes) lies in pageable memory that was "
                 "locked: %s\n",
                 constant.c_str(), bytes, pinned.error().message.c_str());
  }
  FUSEC_RT_TRY(FUSEC_CUDA(context, constant, cuMemHostGetDevicePointer, &made.address_,
                          made.bytes_.data(), 0));
  return made;
}

Status HostConstant::LockPageable(const CudaContext& context, size_t bytes) {
  constexpr size_t kPageBytes = 4096;
  const size_t room = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  pageable_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, room)));
  if (pageable_ == nullptr) return Fail(FUSEC_NO_DEVICE, "there are no ", room, " bytes");
  const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  FUSEC_RT_TRY(FUSEC_CUDA(context, {}, cuMemHostRegister, pageable_.get(), room, flags));
  registration_ = Registration(context, pageable_.get());
  bytes_ = {pageable_.get(), bytes};
  return {};
}

void CopyOnHost(std::span<const HostCopy> copies) {
  std::vector<HostCopy> pieces;
  size_t total = 0;
  for (const HostCopy& copy : copies) {
    total += copy.from.size();
    for (size_t begin = 0; begin < copy.from.size(); begin += kCopyPieceBytes) {
      const size_t size = std::min(kCopyPieceBytes, copy.from.size() - begin);
      pieces.push_back({copy.to + begin, copy.from.subspan(begin, size)});
    }
  }
  std::atomic<size_t> next = 0;
  InCopyThreads(CopyThreadsFor(total), [&](size_t) {
    for (size_t i = next++; i < pieces.size(); i = next++)
      std::memcpy(pieces[i].to, pieces[i].from.data(), pieces[i].from.size());
  });
}

Status EnqueueCopyOnHost(const CudaContext& context, const std::vector<HostCopy>& copies,
                         CUstream stream) {
  if (copies.empty()) return {};
  const CUhostFn copy = [](void* data) {
    CopyOnHost(*static_cast<const std::vector<HostCopy>*>(data));
  };
  return FUSEC_CUDA(context, "new weights", cuLaunchHostFunc, stream, copy,
                    const_cast<std::vector<HostCopy>*>(&copies));
}

}  // namespace fusec::runtime
