#include "runtime/src/cuda/cuda_rows.h"

#include <algorithm>
#include <cstring>

#include "runtime/src/cuda/cuda_device.h"

namespace fusec::runtime {
namespace {

constexpr unsigned kBlockSize = 256;
constexpr const char* kPurpose = "an update of rows";

}  // namespace

CudaRows::~CudaRows() {
  if (!stream_) return;
  const ScopedContext scope(device_.context());
  const CudaDriver& driver = device_.context().driver();
  static_cast<void>(driver.cuStreamSynchronize(stream_.get()));
  for (const Room& room : rooms_) {
    if (room.written) static_cast<void>(driver.cuEventSynchronize(room.written.get()));
  }
}

Status CudaRows::Launch(CUfunction kernel, const char* name, int64_t threads, const Piece& piece,
                        CUstream stream) {
  static_assert(sizeof(Piece) == 88, "as update_rows.cu has it");
  CUdeviceptr first_bad = first_bad_.get();
  void* arguments[] = {const_cast<Piece*>(&piece), &first_bad};  // check_rows uses the second
  const auto blocks = static_cast<unsigned>((threads + kBlockSize - 1) / kBlockSize);
  return FUSEC_CUDA(device_.context(), Text("kernel ", name), cuLaunchKernel, kernel, blocks, 1, 1,
                    kBlockSize, 1, 1, 0, stream, arguments, nullptr);
}

Status CudaRows::AcquireKernels() {
  if (module_) return {};
  FUSEC_RT_ASSIGN(CudaModule module, device_.LoadRowKernels());
  FUSEC_RT_TRY(LoadFunctions(device_.context(), module,
                             {{&kernels_.check, "check_rows"},
                              {&kernels_.clear, "clear_slots"},
                              {&kernels_.claim, "claim_rows"},
                              {&kernels_.copy_16, "copy_rows_16"},
                              {&kernels_.copy_2, "copy_rows_2"},
                              {&kernels_.store, "store_rows"}}));
  module_ = std::move(module);
  return {};
}

// Acquires everything that an update of such rows needs, so that nothing can fail for lack of
// memory after the first row is written.
Status CudaRows::Acquire(int64_t row_bytes, bool needs_staging) {
  const CudaContext& context = device_.context();
  FUSEC_RT_TRY(AcquireKernels());
  if (!found_) {
    FUSEC_RT_ASSIGN(stream_, CreateStream(context));
    FUSEC_RT_ASSIGN(ready_, CreateEvent(context, false));
    FUSEC_RT_ASSIGN(first_bad_, AllocateDevice(context, sizeof(uint64_t), kPurpose));
    for (Room& room : rooms_) {
      FUSEC_RT_ASSIGN(room.arrived, CreateEvent(context, false));
      FUSEC_RT_ASSIGN(room.written, CreateEvent(context, false));
    }
    FUSEC_RT_ASSIGN(found_, AllocatePinned(context, sizeof(uint64_t), kPurpose));
  }
  const auto bytes = static_cast<size_t>(std::max(kPieceBytes, row_bytes));
  const bool needs_room = bytes > room_bytes_,
             grows_staging = needs_staging && bytes > staging_bytes_;
  if (!needs_room && !grows_staging) return {};
  for (Room& room : rooms_) {  // earlier pieces no longer use it
    for (const CudaEvent* event : {&room.arrived, &room.written})
      FUSEC_RT_TRY(FUSEC_CUDA(context, kPurpose, cuEventSynchronize, event->get()));
  }
  for (Room& room : rooms_) {
    if (needs_room) {
      room_bytes_ = 0;
      room.memory = {};
      FUSEC_RT_ASSIGN(room.memory, AllocateDevice(context, kRowsOffset + bytes, kPurpose));
    }
    if (grows_staging) {
      staging_bytes_ = 0;
      room.staging = {};
      FUSEC_RT_ASSIGN(room.staging, AllocatePinned(context, kIdsBytes + bytes, kPurpose));
    }
  }
  if (needs_room) room_bytes_ = bytes;
  if (grows_staging) staging_bytes_ = bytes;
  return {};
}

// The argument of kernels for the whole update, if it is in device memory.
CudaRows::Piece CudaRows::PieceOf(const RowUpdate& update) const {
  const Table& table = *update.table;
  Piece piece{};
  piece.ids = reinterpret_cast<CUdeviceptr>(update.ids);
  piece.rows = reinterpret_cast<CUdeviceptr>(update.rows);
  piece.stored = device_.weights().Address(table.buffer);
  piece.factors = table.factors >= 0 ? device_.weights().Address(table.factors) : 0;
  piece.count = update.count;
  piece.table_rows = table.rows;
  piece.id_bytes = update.id_dtype == FUSEC_I32 ? 4 : 8;
  piece.columns = static_cast<int32_t>(table.columns);
  piece.row_bytes = static_cast<int32_t>(table.row_bytes());
  piece.stored_bytes = static_cast<int32_t>(table.stored_bytes());
  piece.factor_count = table.factor_count();
  piece.slot_mask = kSlots - 1;
  piece.from = table.model_form();
  piece.to = table.form;
  return piece;
}

Status CudaRows::CheckOnDevice(const RowUpdate& update) {
  const CudaContext& context = device_.context();
  const CUstream stream = stream_.get();
  auto& found = *static_cast<uint64_t*>(found_.get());
  const auto fetch = [&](CUdeviceptr from, size_t bytes) -> Status {
    FUSEC_RT_TRY(FUSEC_CUDA(context, kPurpose, cuMemcpyDtoHAsync, &found, from, bytes, stream));
    return FUSEC_CUDA(context, kPurpose, cuStreamSynchronize, stream);
  };
  const Piece piece = PieceOf(update);
  found = UINT64_MAX;
  FUSEC_RT_TRY(FUSEC_CUDA(context, kPurpose, cuMemcpyHtoDAsync, first_bad_.get(), &found,
                          sizeof(found), stream));
  FUSEC_RT_TRY(Launch(kernels_.check, "check_rows", piece.count, piece, stream));
  FUSEC_RT_TRY(fetch(first_bad_.get(), sizeof(found)));
  if (found == UINT64_MAX) return {};
  const auto i = static_cast<int64_t>(found / 2);
  const bool is_outside = found % 2 == 0;
  const auto id_bytes = static_cast<size_t>(piece.id_bytes);
  FUSEC_RT_TRY(fetch(piece.ids + static_cast<size_t>(i) * id_bytes, id_bytes));
  int64_t id = static_cast<int64_t>(found);
  if (id_bytes == 4) id = static_cast<int32_t>(static_cast<uint32_t>(found));
  return is_outside ? BadId(update, i, id) : BadRow(update, i, id);
}

// Copies rows first .. first + count - 1 to the memory from which kernels read them, and records in
// its slots the last row of each id.
Status CudaRows::Send(const Source& update, int64_t first, int64_t count, Room& room,
                      Piece& piece) {
  const CudaContext& context = device_.context();
  const CUstream stream = stream_.get();
  const size_t ids_bytes = static_cast<size_t>(count * piece.id_bytes);
  const size_t rows_bytes = static_cast<size_t>(count * piece.row_bytes);
  const size_t ids_offset = static_cast<size_t>(first * piece.id_bytes);
  const size_t rows_offset = static_cast<size_t>(first * piece.row_bytes);
  piece.count = count;
  piece.slots = room.memory.get() + kIdsBytes;
  // Wait until the previous piece in this room has been written to its table.
  FUSEC_RT_TRY(FUSEC_CUDA(context, kPurpose, cuStreamWaitEvent, stream, room.written.get(),
                          CU_EVENT_WAIT_DEFAULT));
  if (update.on_device) {
    piece.ids += ids_offset;
    piece.rows += rows_offset;
  } else {
    const auto* ids = static_cast<const std::byte*>(update.ids) + ids_offset;
    const auto* rows = static_cast<const std::byte*>(update.rows) + rows_offset;
    const auto send = [&](CUdeviceptr to, const std::byte* from, size_t bytes, bool is_page_locked,
                          size_t staging_offset) -> Status {
      if (!is_page_locked) {
        auto* staged = static_cast<std::byte*>(room.staging.get()) + staging_offset;
        std::memcpy(staged, from, bytes);
        from = staged;
      }
      return FUSEC_CUDA(context, kPurpose, cuMemcpyHtoDAsync, to, from, bytes, stream);
    };
    // Wait until earlier copies have read the staging memory. An event that was never recorded
    // counts as complete.
    FUSEC_RT_TRY(FUSEC_CUDA(context, kPurpose, cuEventSynchronize, room.arrived.get()));
    piece.ids = room.memory.get();
    piece.rows = room.memory.get() + kRowsOffset;
    FUSEC_RT_TRY(send(piece.ids, ids, ids_bytes, update.ids_page_locked, 0));
    FUSEC_RT_TRY(send(piece.rows, rows, rows_bytes, update.rows_page_locked, kIdsBytes));
  }
  FUSEC_RT_TRY(Launch(kernels_.clear, "clear_slots", kSlots, piece, stream));
  FUSEC_RT_TRY(Launch(kernels_.claim, "claim_rows", count, piece, stream));
  return FUSEC_CUDA(context, kPurpose, cuEventRecord, room.arrived.get(), stream);
}

Status CudaRows::Write(const Source& update) {
  constexpr int32_t kVectorBytes = 16;
  const CudaContext& context = device_.context();
  const int64_t row_bytes = update.table->row_bytes();
  const int64_t most_rows = std::clamp<int64_t>(kPieceBytes / row_bytes, 1, kMostRows);
  for (int64_t first = 0; first < update.count; first += most_rows) {
    Room& room = rooms_[next_room_++ % rooms_.size()];
    Piece piece = PieceOf(update);
    FUSEC_RT_TRY(Send(update, first, std::min(most_rows, update.count - first), room, piece));
    const bool by_16 = piece.row_bytes % kVectorBytes == 0 && piece.rows % kVectorBytes == 0;
    const int64_t words = piece.count * piece.row_bytes / (by_16 ? kVectorBytes : 2);
    FUSEC_RT_TRY(device_.weights_switch().Enqueue([&](CUstream stream) -> Status {
      FUSEC_RT_TRY(FUSEC_CUDA(context, kPurpose, cuStreamWaitEvent, stream, room.arrived.get(),
                              CU_EVENT_WAIT_DEFAULT));
      if (piece.from != piece.to)
        FUSEC_RT_TRY(Launch(kernels_.store, "store_rows", piece.count, piece, stream));
      else if (by_16)
        FUSEC_RT_TRY(Launch(kernels_.copy_16, "copy_rows_16", words, piece, stream));
      else
        FUSEC_RT_TRY(Launch(kernels_.copy_2, "copy_rows_2", words, piece, stream));
      for (const int buffer : {update.table->buffer, update.table->factors})
        FUSEC_RT_TRY(device_.row_caches().EnqueueCopyOfRows(buffer, piece.ids, piece.id_bytes,
                                                            piece.count, stream));
      return FUSEC_CUDA(context, kPurpose, cuEventRecord, room.written.get(), stream);
    }));
  }
  return {};
}

Status CudaRows::Update(const RowUpdate& update) {
  const CudaContext& context = device_.context();
  const int64_t row_bytes = update.table->row_bytes();
  const size_t id_bytes = update.id_dtype == FUSEC_I32 ? 4 : 8;
  const auto is_page_locked = [&](const void* memory, size_t item_bytes) {
    return device_.IsPageLocked(memory, static_cast<size_t>(update.count) * item_bytes);
  };
  Source source{update, true, true};
  if (!update.on_device) {
    source.ids_page_locked = is_page_locked(update.ids, id_bytes);
    source.rows_page_locked = is_page_locked(update.rows, static_cast<size_t>(row_bytes));
  }
  if (!update.on_device) FUSEC_RT_TRY(CheckRows(update));
  FUSEC_RT_TRY(Acquire(row_bytes, !source.ids_page_locked || !source.rows_page_locked));
  const auto caller = static_cast<CUstream>(update.stream);
  if (caller || update.on_device) {  // null is the default stream
    FUSEC_RT_TRY(FUSEC_CUDA(context, kPurpose, cuEventRecord, ready_.get(), caller));
    FUSEC_RT_TRY(FUSEC_CUDA(context, kPurpose, cuStreamWaitEvent, stream_.get(), ready_.get(),
                            CU_EVENT_WAIT_DEFAULT));
  }
  if (update.on_device) FUSEC_RT_TRY(CheckOnDevice(update));
  written_.insert(update.table->buffer);
  if (update.table->factors >= 0) written_.insert(update.table->factors);
  const Status written = Write(source);
  if (!written) {
    // After an error the caller may free memory that enqueued copies still read, so wait for them.
    static_cast<void>(context.driver().cuStreamSynchronize(stream_.get()));
    return written;
  }
  return caller ? device_.weights_switch().MakeWait(caller) : device_.weights_switch().Wait();
}

}  // namespace fusec::runtime
