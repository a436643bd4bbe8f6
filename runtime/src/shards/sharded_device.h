#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/executor.h"

namespace fusec::runtime {

// Whether the steps of the artifact are runs of others, in folders of its own.
bool IsSharded(const Manifest& manifest);

// The parts on the GPUs `ordinals`, in turn, and the last one, which the others work for, on the
// first; on the CPU if there are none. Loads them all.
StatusOr<std::unique_ptr<Device>> CreateShardedDevice(const Artifact& artifact,
                                                      std::vector<int> ordinals);
// What that would find missing on this machine, as CheckCpuDevice has it.
Status CheckShardedDevice(const Artifact& artifact, const std::vector<int>& ordinals);
// Whether CreateShardedDevice(artifact, {0}) is worth trying.
StatusOr<bool> ShardsCanUseCuda(const Artifact& artifact);

}  // namespace fusec::runtime
