// ---- from codegen_templates/runtime/update_rows.cu ----
// The kernels that fusec_update_rows launches: check_rows if the ids are in device memory; then
// clear_slots, claim_rows, and one of copy_rows_16, copy_rows_2 and store_rows for each piece of an
// update.

// A piece of an update, and the table that it changes. Sizes of rows are in bytes.
struct RowPiece {
  const void* ids;  // i32 or i64
  const unsigned char* rows;
  unsigned char* stored;
  float* factors;             // scales and biases, or null
  unsigned long long* slots;  // a hash table of the ids, see claim_rows
  long long count;            // of rows in the piece, below 2^20
  long long table_rows;
  int id_bytes, columns, row_bytes, stored_bytes, factor_count, slot_mask;
  RowForm from, to;
};

constexpr unsigned long long kEmptySlot = ~0ULL;
constexpr int kPositionBits = 20;  // low bits of a slot; the id is above them

__device__ __forceinline__ long long IdAt(const void* ids, int id_bytes, long long i) {
  return id_bytes == 4 ? static_cast<const int*>(ids)[i] : static_cast<const long long*>(ids)[i];
}
__device__ __forceinline__ long long IdAt(const RowPiece& piece, long long i) {
  return IdAt(piece.ids, piece.id_bytes, i);
}

// The slot at which the search for an id begins: a Fibonacci hash, bits of the product of the id
// and 2^64 / golden ratio.
__device__ __forceinline__ int FirstSlot(unsigned long long id, int slot_mask) {
  return static_cast<int>(id * 0x9e3779b97f4a7c15ULL >> 32) & slot_mask;
}

// Finds the first bad row, with one thread per row. `first_bad` receives the minimum of 2 * i for
// each id i that is outside of the table, and 2 * i + 1 for each row i that the table's form cannot
// represent.
extern "C" __global__ void __launch_bounds__(256)
check_rows(const __grid_constant__ RowPiece piece, unsigned long long* first_bad) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i >= piece.count) return;
  const long long id = IdAt(piece, i);
  const bool is_outside = id < 0 || id >= piece.table_rows;
  const bool is_copy = piece.from == piece.to;
  const bool fits =
      is_copy ||
      FactorsOf(piece.from, piece.rows + i * piece.row_bytes, piece.to, piece.columns).fits;
  if (is_outside || !fits) atomicMin(first_bad, 2ULL * i + (is_outside ? 0 : 1));
}

// Empties the hash table, with one thread per slot.
extern "C" __global__ void __launch_bounds__(256)
clear_slots(const __grid_constant__ RowPiece piece) {
  const int slot = blockIdx.x * blockDim.x + threadIdx.x;
  if (slot <= piece.slot_mask) piece.slots[slot] = kEmptySlot;
}

// Inserts the ids into the hash table, with one thread per row. The slot of an id keeps the last
// position of the id in the piece, because the last of equal ids counts. There are more slots than
// ids; an id is stored in the first slot from FirstSlot on that no other id has taken (linear
// probing).
extern "C" __global__ void __launch_bounds__(256)
claim_rows(const __grid_constant__ RowPiece piece) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i >= piece.count) return;
  const unsigned long long id = static_cast<unsigned long long>(IdAt(piece, i));
  const unsigned long long claim = id << kPositionBits | static_cast<unsigned long long>(i);
  for (int slot = FirstSlot(id, piece.slot_mask);; slot = (slot + 1) & piece.slot_mask) {
    const unsigned long long found = atomicCAS(&piece.slots[slot], kEmptySlot, claim);
    if (found == kEmptySlot) return;
    if (found >> kPositionBits != id) continue;
    atomicMax(&piece.slots[slot], claim);
    return;
  }
}

// Whether position `i` is the last one of its id.
__device__ __forceinline__ bool IsLast(const RowPiece& piece, long long i) {
  const unsigned long long id = static_cast<unsigned long long>(IdAt(piece, i));
  int slot = FirstSlot(id, piece.slot_mask);
  while (piece.slots[slot] >> kPositionBits != id) slot = (slot + 1) & piece.slot_mask;
  return piece.slots[slot] == (id << kPositionBits | static_cast<unsigned long long>(i));
}

// Copies a row without converting it, with one thread per word.
template <class Word>
__device__ __forceinline__ void CopyWord(const RowPiece& piece) {
  const long long words = piece.row_bytes / static_cast<int>(sizeof(Word));
  const long long thread = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  const long long i = thread / words, word = thread % words;
  if (i >= piece.count || !IsLast(piece, i)) return;
  const auto* from = reinterpret_cast<const Word*>(piece.rows + i * piece.row_bytes);
  auto* to = reinterpret_cast<Word*>(piece.stored + IdAt(piece, i) * piece.stored_bytes);
  to[word] = from[word];
}

// Rows begin at multiples of 16 bytes.
extern "C" __global__ void __launch_bounds__(256)
copy_rows_16(const __grid_constant__ RowPiece piece) { CopyWord<uint4>(piece); }

// Rows begin at multiples of 2 bytes.
extern "C" __global__ void __launch_bounds__(256)
copy_rows_2(const __grid_constant__ RowPiece piece) { CopyWord<unsigned short>(piece); }

// Converts rows to the form of the table, with one thread per row.
extern "C" __global__ void __launch_bounds__(256)
store_rows(const __grid_constant__ RowPiece piece) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i >= piece.count || !IsLast(piece, i)) return;
  const long long id = IdAt(piece, i);
  StoreRow(piece.from, piece.rows + i * piece.row_bytes, piece.to, piece.columns,
           piece.stored + id * piece.stored_bytes, piece.factors + id * piece.factor_count);
}
