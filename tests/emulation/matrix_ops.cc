#include "tests/emulation/matrix_ops.h"

#include <cstring>

#include "compiler/ir/dtype.h"
#include "runtime/src/artifact/half.h"
#include "tests/emulation/block.h"

namespace fusec::emulation {
namespace {

using Format = AsyncProducts::Product::Format;

Format FormatOf(const PtxCall& call) {
  if (call.Has(".e4m3")) return Format::kE4M3;
  if (call.Has(".tf32")) return Format::kTf32;
  return call.Has(".bf16") ? Format::kBFloat16 : Format::kHalf;
}

// The number of elements in a 32-bit word.
int NumbersInWord(Format format) {
  return format == Format::kTf32 ? 1 : format == Format::kE4M3 ? 4 : 2;
}

// Element `i` of a word; tensor cores read 19 bits of a float (TF32).
double NumberOf(Format format, unsigned word, int i) {
  if (format == Format::kTf32) {
    word &= ~0x1fffu;
    float number;
    std::memcpy(&number, &word, sizeof number);
    return number;
  }
  if (format == Format::kE4M3) return E4M3ToDouble(static_cast<uint8_t>(word >> 8 * i));
  const auto bits = static_cast<uint16_t>(word >> 16 * i);
  return format == Format::kHalf ? runtime::HalfToFloat(bits) : runtime::BFloat16ToFloat(bits);
}

// 8 words of each of 16 rows, as lanes hold them: rows lane / 4 and lane / 4 + 8, words lane % 4 and lane % 4 + 4.
std::vector<double> LeftOf(Format format, ArrayRef<PtxCall*> lanes, size_t first_argument) {
  const int of_word = NumbersInWord(format), terms = 8 * of_word;
  std::vector<double> left(static_cast<size_t>(16 * terms));
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i % 2 * 8, word = lane % 4 + i / 2 * 4;
      for (int k = 0; k < of_word; ++k)
        left[static_cast<size_t>(row * terms + word * of_word + k)] =
            NumberOf(format, lanes[static_cast<size_t>(lane)]->Word(first_argument + static_cast<size_t>(i)), k);
    }
  }
  return left;
}

// mma.sync.m16n8: arguments 0 to 3 are sums, 4 to 7 words of the left operand, 8 and 9 of the right one, and 10 to 13 the addends.
void Multiply(ArrayRef<PtxCall*> lanes) {
  const Format format = FormatOf(*lanes[0]);
  const int of_word = NumbersInWord(format), terms = 8 * of_word;
  const std::vector<double> left = LeftOf(format, lanes, 4);
  std::vector<double> right(static_cast<size_t>(8 * terms));  // 8 columns
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < of_word; ++k)
        right[static_cast<size_t>(lane / 4 * terms + (lane % 4 + 4 * i) * of_word + k)] =
            NumberOf(format, lanes[static_cast<size_t>(lane)]->Word(8 + static_cast<size_t>(i)), k);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    PtxCall& call = *lanes[static_cast<size_t>(lane)];
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      double sum = call.Float(10 + static_cast<size_t>(i));
      for (int k = 0; k < terms; ++k)
        sum += left[static_cast<size_t>(row * terms + k)] * right[static_cast<size_t>(column * terms + k)];
      *call.Place<float>(static_cast<size_t>(i)) = static_cast<float>(sum);
    }
  }
}

// ldmatrix.x4: lane 8 i + r has the address of row r of matrix i, which has 8 elements of 16 bits. Each lane gets two neighboring elements
// of row lane / 4 of each matrix or, with .trans, of column lane / 4.
void LoadMatrices(Block& block, ArrayRef<PtxCall*> lanes) {
  const bool is_turned = lanes[0]->Has(".trans");
  uint16_t numbers[32][8];
  for (size_t lane = 0; lane < 32; ++lane) {
    const unsigned address = lanes[lane]->Word(4);
    if (address % 16 != 0) block.Complain("ldmatrix reads from an address that is not a multiple of 16");
    std::memcpy(numbers[lane], block.At(address), sizeof numbers[lane]);
  }
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t i = 0; i < 4; ++i) {
      const size_t line = lane / 4, first = lane % 4 * 2;
      const uint16_t low = is_turned ? numbers[8 * i + first][line] : numbers[8 * i + line][first];
      const uint16_t high = is_turned ? numbers[8 * i + first + 1][line] : numbers[8 * i + line][first + 1];
      *lanes[lane]->Place<unsigned>(i) = low | unsigned{high} << 16;
    }
  }
}

// The word at byte `byte` of line `line` of a panel with lines of 128 bytes. The address is swizzled: bits 7 to 9 are XORed into bits 4 to
// 6.
unsigned PanelWord(Block& block, uint64_t description, int line, int byte) {
  constexpr uint64_t kSwizzle128Bytes = uint64_t{1} << 62, kEightLines = uint64_t{1024} / 16 << 32;
  if ((description & ~uint64_t{0x3fff}) != (kSwizzle128Bytes | kEightLines))
    block.Complain("a description of a panel that the emulation does not know");
  unsigned address = static_cast<unsigned>(description & 0x3fff) * 16 + static_cast<unsigned>(line * 128 + byte);
  address ^= (address >> 7 & 7) << 4;
  if (address + 4 > kGivenBytes) block.Complain("tensor cores read behind the shared memory");
  unsigned word;
  std::memcpy(&word, block.shared_memory() + address, sizeof word);
  return word;
}

// Term k of a line of a panel.
double PanelNumber(Block& block, Format format, uint64_t description, int line, int k) {
  const int of_word = NumbersInWord(format);
  return NumberOf(format, PanelWord(block, description, line, k / of_word * 4), k % of_word);
}

// wgmma.m64n64 or m64n128: 32 or 64 sums, the left operand as 4 words or a description, a description of the right operand, whether
// to add, ...
void StartProduct(Block& block, unsigned warp, ArrayRef<PtxCall*> lanes) {
  const PtxCall& call = *lanes[0];
  AsyncProducts::Product product;
  product.format = FormatOf(call);
  product.terms = 8 * NumbersInWord(product.format);
  product.columns = call.Is("wgmma.mma_async.sync.aligned.m64n128") ? 128 : 64;
  const auto sums = static_cast<size_t>(product.columns / 2);  // sums per lane
  size_t next = sums;
  const bool reads_words = call.instruction->arguments[sums + 1].kind == PtxArgument::Kind::kOperand &&
                           call.instruction->arguments[sums + 2].kind == PtxArgument::Kind::kOperand;
  if (reads_words) {
    product.left = LeftOf(product.format, lanes, next);
    next += 4;
  } else {
    product.left_description = call.Bits(next++);
  }
  product.right_description = call.Bits(next++);
  product.adds = call.Bits(next++) != 0;
  const size_t signs = next;  // of both operands: 1 and 1
  if (call.Bits(signs) != 1 || call.Bits(signs + 1) != 1) block.Complain("products of other signs");
  next += 2;
  const size_t more = call.count() - next;
  if (!reads_words && more > 0 && call.Bits(next) != 0) block.Complain("a turned left operand");
  product.is_turned = more > 0 && call.Bits(call.count() - 1) != 0;
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t i = 0; i < sums; ++i) product.sums.push_back(lanes[lane]->Place<float>(i));
  }
  block.products().Start(warp, std::move(product));
}

}  // namespace

void AsyncProducts::Start(unsigned warp_number, Product product) {
  OfWarp& warp = of_[warp_number];
  if (!warp.is_fenced) block_.Complain("products begin without a wgmma.fence since the last wait");
  for (float* sum : product.sums) {
    auto [held, is_new] = warp.held.try_emplace(sum, *sum, 0);
    ++held->second.second;
    block_.Spoil(reinterpret_cast<char*>(sum), sizeof *sum);
  }
  const uint64_t before = warp.last;
  warp.last = block_.Start([this, &warp, warp_number, product = std::move(product)] { End(warp, warp_number, product); },
                           [this, before] { return block_.HasEnded(before); });
  warp.groups.Add(warp.last);
}

void AsyncProducts::Await(unsigned warp_number, size_t pending) {
  OfWarp& warp = of_[warp_number];
  warp.groups.Await(block_, pending);
  warp.is_fenced = false;
}

void AsyncProducts::End(OfWarp& warp, unsigned warp_number, const Product& product) {
  const int first_row = static_cast<int>(warp_number % 4 * 16);  // of the warpgroup
  const auto left = [&](int row, int k) {
    if (!product.left.empty()) return product.left[static_cast<size_t>(row * product.terms + k)];
    return PanelNumber(block_, product.format, product.left_description, first_row + row, k);
  };
  const auto right = [&](int column, int k) {
    if (!product.is_turned) return PanelNumber(block_, product.format, product.right_description, column, k);
    return NumberOf(product.format, PanelWord(block_, product.right_description, k, column / 2 * 4), column % 2);
  };
  std::vector<double> rights(static_cast<size_t>(product.columns * product.terms));
  for (int column = 0; column < product.columns; ++column) {
    for (int k = 0; k < product.terms; ++k) rights[static_cast<size_t>(column * product.terms + k)] = right(column, k);
  }
  std::vector<double> lefts(static_cast<size_t>(16 * product.terms));
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < product.terms; ++k) lefts[static_cast<size_t>(row * product.terms + k)] = left(row, k);
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < product.columns / 2; ++i) {
      const int row = lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      const auto held = warp.held.find(product.sums[static_cast<size_t>(lane * product.columns / 2 + i)]);
      auto& [value, changes] = held->second;
      double sum = product.adds ? value : 0.0;
      for (int k = 0; k < product.terms; ++k)
        sum += lefts[static_cast<size_t>(row * product.terms + k)] * rights[static_cast<size_t>(column * product.terms + k)];
      value = static_cast<float>(sum);
      if (--changes > 0) continue;
      *held->first = value;
      warp.held.erase(held);
    }
  }
}

bool RunMatrixOp(Block& block, PtxCall& call) {
  const unsigned warp = block.thread() / 32;
  if (call.Is("mma.sync.aligned.m16n8")) {
    block.Together(call, Multiply);
  } else if (call.Is("ldmatrix.sync.aligned.m8n8.x4")) {
    block.Together(call, [&](ArrayRef<PtxCall*> lanes) { LoadMatrices(block, lanes); });
  } else if (call.Is("wgmma.mma_async.sync.aligned.m64n64") || call.Is("wgmma.mma_async.sync.aligned.m64n128")) {
    block.Together(call, [&](ArrayRef<PtxCall*> lanes) { StartProduct(block, warp, lanes); });
  } else if (call.Is("wgmma.fence")) {
    block.Together(call, [&](ArrayRef<PtxCall*>) { block.products().Fence(warp); });
  } else if (call.Is("wgmma.commit_group")) {
    block.Together(call, [&](ArrayRef<PtxCall*>) { block.products().Close(warp); });
  } else if (call.Is("wgmma.wait_group")) {
    block.Together(call, [&](ArrayRef<PtxCall*>) { block.products().Await(warp, call.Bits(0)); });
  } else {
    return false;
  }
  return true;
}

}  // namespace fusec::emulation
