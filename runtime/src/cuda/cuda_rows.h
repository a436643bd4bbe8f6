#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>

#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/row_update.h"

namespace fusec::runtime {

class CudaDevice;

// Updates of rows on a GPU. An update is checked as a whole and then written in pieces. The rows of
// a piece are copied to memory of this class on a separate stream, while runs continue; the kernel
// that writes them into the table is ordered like a switch of weights (weights_switch.h). There are
// two pieces in flight, so that one is copied while the other is written.
//
// The first update allocates the resources: the kernels of
// codegen_templates/runtime/update_rows.cu, a stream, and for each of the two pieces memory for 8
// MiB of rows on the GPU. The first update from pageable memory also allocates as much page-locked
// memory. One thread uses the class at a time.
class CudaRows {
 public:
  explicit CudaRows(CudaDevice& device) : device_(device) {}
  ~CudaRows();  // waits for updates that have not finished

  // As Device::UpdateRows. After a device error, earlier pieces may have been written to the table.
  Status Update(const RowUpdate& update);

  // The buffers that updates have written to since ForgetWritten.
  const std::set<int>& written() const { return written_; }
  void ForgetWritten() { written_.clear(); }

 private:
  // The argument of kernels, with the layout that update_rows.cu declares.
  struct Piece {
    CUdeviceptr ids, rows, stored, factors, slots;
    int64_t count, table_rows;
    int32_t id_bytes, columns, row_bytes, stored_bytes, factor_count, slot_mask;
    RowForm from, to;
  };
  // An update, and which of its memory the GPU's copies can read directly.
  struct Source : RowUpdate {
    bool ids_page_locked, rows_page_locked;
  };
  // The memory of a piece in flight.
  struct Room {
    DeviceMemory memory;   // ids, slots, rows
    PinnedMemory staging;  // ids, rows
    CudaEvent arrived, written;
  };
  struct Kernels {
    CUfunction check = nullptr, clear = nullptr, claim = nullptr, copy_16 = nullptr,
               copy_2 = nullptr, store = nullptr;
  };
  static constexpr int64_t kPieceBytes = 8 << 20;
  static constexpr int64_t kMostRows = 1 << 16;  // rows of a piece; kernels support up to 2^20
  static constexpr int32_t kSlots = 2 << 16;
  static constexpr size_t kIdsBytes = kMostRows * sizeof(int64_t);
  static constexpr size_t kRowsOffset = kIdsBytes + kSlots * sizeof(uint64_t);

  Status Acquire(int64_t row_bytes, bool needs_staging);
  Status AcquireKernels();
  Status CheckOnDevice(const RowUpdate& update);
  Piece PieceOf(const RowUpdate& update) const;
  Status Write(const Source& update);
  Status Send(const Source& update, int64_t first, int64_t count, Room& room, Piece& piece);
  Status Launch(CUfunction kernel, const char* name, int64_t threads, const Piece& piece,
                CUstream stream);

  CudaDevice& device_;
  CudaModule module_;
  Kernels kernels_;
  CudaStream stream_;
  CudaEvent ready_;         // recorded on the caller's stream before the update
  DeviceMemory first_bad_;  // result of check_rows on the GPU
  PinnedMemory found_;      // its copy for the host
  std::array<Room, 2> rooms_;
  size_t room_bytes_ = 0;  // capacity for the rows of a piece
  size_t staging_bytes_ = 0;
  size_t next_room_ = 0;
  std::set<int> written_;
};

}  // namespace fusec::runtime
