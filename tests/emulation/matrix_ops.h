#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/emulation/async_groups.h"
#include "tests/emulation/ptx.h"

namespace fusec::emulation {

class Block;

// What the threads of a warp do together with matrices: ldmatrix, mma, wgmma. Whether the instruction is one.
bool RunMatrixOp(Block& block, PtxCall& call);

// Products that run beside the threads (wgmma), by warp. Sums are spoiled from the start of a product until the wait for it.
class AsyncProducts {
 public:
  explicit AsyncProducts(Block& block) : block_(block) {}

  // A product of a warp: 16 rows and 64 or 128 columns.
  struct Product {
    std::vector<float*> sums;  // half as many of each lane as there are columns, lane by lane
    std::vector<double> left;  // 16 rows; none: read at the end
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
    std::map<float*, std::pair<float, int>> held;  // sums, and how many products will change them
    bool is_fenced = false;
    uint64_t last = 0;
  };
  void End(OfWarp& warp, unsigned warp_number, const Product& product);
  Block& block_;
  std::map<unsigned, OfWarp> of_;
};

}  // namespace fusec::emulation
