#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Scatters as look-ups, on a GPU. The kernel of a scatter writes the updates one after the other,
// since several may go to one place. Sorted by their places, the updates of each place are side by
// side, so that all places are computed at once, with the updates of each in their order:
//
//   %y = scatter_nd(%data: f32[r, c], %ids: i64[n, 1], %updates: f32[n, c]) {reduction = add}
//     =>  %inside = gather(range(r), %ids)                       fails if an index is out of range
//         %place = cast(%inside) {to = i32}
//         %sorted, %order = top_k(%place) {k = [n], largest = 0}
//         %bounds = lower_bounds(%sorted) {rows = [r]}            i64[r + 1]
//         %bags = segment_reduce(gather(%updates, %order), %bounds[0:r], %bounds[1:r + 1])
//         %y = add(%data, %bags)
//
// The bags are fused with what makes the updates, as those of an embedding bag are. Without a
// reduction, a place gets the last of its updates. If all updates are one number, its bag is that
// number times how many there are. A sum adds up the updates of a place before it adds the data, so
// that rounding differs from that of the scatter.
//
// If a sort made the indices, no place is written twice: the scatter stays, and is marked
// (kDistinct), so that all updates are written at once. As they are stay scatters in place, those
// with few places and updates, products, the greatest and least of integers, and what is combined
// along an axis that is not the last one of several.
Result<bool> SortScatters(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
