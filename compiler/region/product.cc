#include "compiler/region/product.h"

namespace fusec {

bool IsSplit(Dtype dtype, const std::string& precision) {
  return dtype == Dtype::kF32 && precision == "highest";
}

}  // namespace fusec
