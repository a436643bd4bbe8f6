#include "compiler/index/reshape.h"

#include <algorithm>
#include <utility>

namespace fusec {

namespace {

// The sizes of the smallest groups of consecutive dims, beginning at `from_in` and `from_out`, with
// equal numbers of elements; all remaining dims if there are none.
std::pair<size_t, size_t> NextGroup(ArrayRef<Expr> in, size_t from_in, ArrayRef<Expr> out,
                                    size_t from_out, const Ranges& ranges) {
  const size_t in_left = in.size() - from_in;
  const size_t out_left = out.size() - from_out;
  for (size_t dims = 1; dims < in_left + out_left; ++dims) {
    for (size_t of_in = dims > out_left ? dims - out_left : 0; of_in <= std::min(dims, in_left);
         ++of_in) {
      const auto in_begin = in.begin() + from_in;
      const auto out_begin = out.begin() + from_out;
      if (ProvenEqual(Product(Exprs(in_begin, in_begin + of_in)),
                      Product(Exprs(out_begin, out_begin + (dims - of_in))), ranges)) {
        return {of_in, dims - of_in};
      }
    }
  }
  return {in_left, out_left};
}

}  // namespace

bool ProvenEqual(const Expr& a, const Expr& b, const Ranges& ranges) {
  return a == b || SimplifySum(a - b, ranges).IsConstant(0);
}

Exprs IndexBeforeReshape(ArrayRef<Expr> index, ArrayRef<Expr> from, ArrayRef<Expr> to,
                         const Ranges& ranges) {
  Exprs source;
  for (size_t i = 0, o = 0; i < from.size() || o < to.size();) {
    const auto [of_in, of_out] = NextGroup(from, i, to, o, ranges);
    const auto group = index.slice(o, of_out);
    if (of_in == 1 && of_out == 1) {
      source.push_back(group[0]);
    } else {
      const Expr position = Linearize(group, to.slice(o, of_out), ranges);
      for (Expr& coordinate : Delinearize(position, from.slice(i, of_in), ranges))
        source.push_back(std::move(coordinate));
    }
    i += of_in;
    o += of_out;
  }
  return source;
}

}  // namespace fusec
