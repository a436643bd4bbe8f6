#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/src/artifact/adapters.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// The bytes of each part of a slot (PartsOfSlot) that holds a LoRA adapter.
using SlotContents = std::vector<std::vector<std::byte>>;

// Reads an adapter as PEFT saves it: adapter_model.safetensors with adapter_config.json beside it,
// given as the file or as the folder of both. What is read:
//
//   PATH.lora_A.weight [rank, inputs], PATH.lora_B.weight [outputs, rank]   PEFT; a name may stand
//                      behind lora_A and lora_B ("lora_A.default.weight")
//   PATH.lora_A, PATH.lora_B                                                loralib, the same
//   shapes PATH.A [inputs, rank], PATH.B [rank, outputs]
//
// PATH and the module of a layer mean each other where one ends with the other, "base_model.model."
// in front aside. lora_B is multiplied by the scale: lora_alpha / rank of the config, or
// lora_alpha / sqrt(rank) with use_rslora, and by module with alpha_pattern; without a config, the
// scale of the model's own adapter there. Layers that the file does not name get zeros.
// FUSEC_BAD_INPUT names the file, and the tensor: one of another shape, of more columns than a slot
// has, or of a layer that the model lacks; DoRA, biases and other kinds of adapters.
StatusOr<SlotContents> ReadAdapter(const Adapters& adapters, const std::string& path);

}  // namespace fusec::runtime
