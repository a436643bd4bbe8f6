#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/emulation/async_groups.h"
#include "tests/emulation/ptx.h"

namespace fusec::emulation {

class Block;

// Executes the matrix instructions of a warp: ldmatrix, mma, wgmma. Returns false for any other instruction.
bool RunMatrixOp(Block& block, PtxCall& call);

// Asynchronous products (wgmma), by warp. Sums are overwritten with a fill pattern from the start of a product until the wait for it.
class AsyncProducts {
 public:
  explicit AsyncProducts(Block& block) : block_(block) {}

  // A product of a warp: 16 rows and 64 or 128 columns.
  struct Product {
    std::vector<float*> sums;  // lane by lane; each lane has half as many sums as there are columns
    std::vector<double> left;  // the left operand, 16 rows; empty if it is read when the product completes
    uint64_t left_description = 0, right_description = 0;
    bool adds = false, is_turned = false;
    int terms = 0, columns = 64;
    enum class Format { kTf32, kHalf, kBFloat16, kE4M3 } format = Format::kHalf;
  };
  void Fence(unsigned warp) { of_[warp].is_fenced = true; }
  void Start(unsigned warp, Product product);
  void Close(unsigned warp) { of_[warp].groups.Close(); }
  void Await(unsigned warp, size_t pending);

 private:
  struct OfWarp {
    AsyncGroups groups;
    std::map<float*, std::pair<float, int>> held;  // by sum: its true value, and how many running products change it
    bool is_fenced = false;
    uint64_t last = 0;
  };
  void End(OfWarp& warp, unsigned warp_number, const Product& product);
  Block& block_;
  std::map<unsigned, OfWarp> of_;
};

}  // namespace fusec::emulation
