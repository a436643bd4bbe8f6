#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>

#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/row_update.h"

namespace fusec::runtime {

class CudaDevice;

// Updates of rows on a GPU. An update is checked as a whole and then written in pieces. For each,
// its rows travel to memory of this class on a stream of their own, while runs go on; the kernel
// that puts them into the table is enqueued as a switch of weights is (weights_switch.h). Two
// pieces are under way at a time, so that one travels while the other is written.
//
// What it owns comes with the first update: the kernels of
// codegen_templates/runtime/update_rows.cu, a stream, and for each of two pieces room for 8 MiB of
// rows on the GPU and, once an update comes from pageable memory, as much that is page-locked. One
// thread uses it at a time.
class CudaRows {
 public:
  explicit CudaRows(CudaDevice& device) : device_(device) {}
  ~CudaRows();  // waits for updates that are still under way

  // As Device::UpdateRows. After an error of the device, pieces before it may be in the table.
  Status Update(const RowUpdate& update);

  // The buffers that updates have written to since ForgetWritten.
  const std::set<int>& written() const { return written_; }
  void ForgetWritten() { written_.clear(); }

 private:
  // What kernels are given, as update_rows.cu declares it.
  struct Piece {
    CUdeviceptr ids, rows, stored, factors, slots;
    int64_t count, table_rows;
    int32_t id_bytes, columns, row_bytes, stored_bytes, factor_count, slot_mask;
    RowForm from, to;
  };
  // An update, and which of its host memory copies may read in place.
  struct Source : RowUpdate {
    bool ids_page_locked, rows_page_locked;
  };
  // Room for a piece under way.
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
  static constexpr int64_t kMostRows = 1 << 16;  // of a piece; kernels take up to 2^20
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
  CudaEvent ready_;         // what the caller's stream had before the update
  DeviceMemory first_bad_;  // where check_rows writes, and where the host reads it
  PinnedMemory found_;
  std::array<Room, 2> rooms_;
  size_t room_bytes_ = 0;  // for the rows of a piece
  size_t staging_bytes_ = 0;
  size_t next_room_ = 0;
  std::set<int> written_;
};

}  // namespace fusec::runtime
