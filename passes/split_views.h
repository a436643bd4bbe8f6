#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Gives every reader its own copy of a view, of nodes without operands, such as a range, of ids of
// the caller that are cast, and of masks of ids. Copies cost nothing inside a kernel, while what is
// shared would have to be stored. Ids and masks that a product or a sequential op reads from memory
// are stored once.
//
//   %t = transpose(%x) {...}           %t = transpose(%x) {...}
//   %a = add(%t, %b)             =>    %t_1 = transpose(%x) {...}
//   %c = mul(%t, %d)                   %a = add(%t, %b)
//                                      %c = mul(%t_1, %d)
Result<bool> SplitViews(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
