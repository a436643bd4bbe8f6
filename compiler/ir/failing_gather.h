#pragma once

namespace fusec {

// An attribute of a gather that fails a run: lengths that do not add up, say, send its indices
// outside of the data. No policy for indices (--index-policy) gives these a meaning.
inline constexpr const char* kFailsOutside = "fails_outside";

}  // namespace fusec
