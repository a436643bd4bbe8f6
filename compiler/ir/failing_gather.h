#pragma once

namespace fusec {

// Attribute of a gather whose out-of-range indices must fail the run: they express a violated
// condition, such as part lengths with a wrong sum. The --index-policy does not apply to it.
inline constexpr const char* kFailsOutside = "fails_outside";

}  // namespace fusec
