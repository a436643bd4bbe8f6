#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/executor.h"

namespace fusec::runtime {

// Whether the artifact is sharded: its steps are runs of other artifacts in its folder.
bool IsSharded(const Manifest& manifest);

// Loads all parts of a sharded artifact, distributed in turn over the GPUs `ordinals`; the last
// part, which uses the results of the others, is on the first GPU. Without ordinals they are on the
// CPU.
StatusOr<std::unique_ptr<Device>> CreateShardedDevice(const Artifact& artifact,
                                                      std::vector<int> ordinals);
// The error that CreateShardedDevice would return on this machine, without reading weights.
Status CheckShardedDevice(const Artifact& artifact, const std::vector<int>& ordinals);
// Whether a sharded artifact should be loaded on the GPU by default: CudaUsable holds for its last
// part, or that part has no CPU target.
StatusOr<bool> ShardsCanUseCuda(const Artifact& artifact);

}  // namespace fusec::runtime
