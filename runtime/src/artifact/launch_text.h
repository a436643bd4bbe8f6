#pragma once

#include <string>
#include <string_view>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// The text by which compiled code declares how it is launched: a line for each dim and each kernel
// of a target, such as
//
//   dim batch 1..65536
//   k01_softmax(const f32[batch*8], f32[batch*8], i32 batch, errors) in floordiv(batch + 3, 4)
//   blocks
//
// A struct of buffers is in braces: {const f32[80], const f32[80]}.
std::string LaunchTexts(const Manifest& manifest, const Target& target);

// Checks that `declared`, the LaunchTexts in the code, agree with the manifest by which it is
// launched. `where` names the manifest in errors.
Status CheckLaunches(const Manifest& manifest, const Target& target, std::string_view declared,
                     const std::string& where);

}  // namespace fusec::runtime
