#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/src/artifact/adapters.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// The bytes of a LoRA adapter in a slot: one entry for each part of the slot (PartsOfSlot).
using SlotContents = std::vector<std::vector<std::byte>>;

// Reads an adapter as PEFT saves it: adapter_model.safetensors with adapter_config.json beside it,
// given as the file or as the folder of both. These tensors are read:
//
//   PATH.lora_A.weight [rank, inputs], PATH.lora_B.weight [outputs, rank]   PEFT; a name may stand
//                      behind lora_A and lora_B ("lora_A.default.weight")
//   PATH.lora_A, PATH.lora_B                                                loralib, the same
//   shapes PATH.A [inputs, rank], PATH.B [rank, outputs]
//
// A PATH belongs to the module of a layer if one of the two ends with the other, after a leading
// "base_model.model." is removed. lora_B is multiplied by a scale: lora_alpha / rank of the config,
// or lora_alpha / sqrt(rank) with use_rslora; alpha_pattern gives a module its own lora_alpha.
// Without a config the scale is that of the ONNX model's adapter in the layer. Layers that the file
// does not name get zeros. FUSEC_BAD_INPUT: a tensor has a wrong shape, a rank above that of a
// slot, or belongs to no layer of the model, or the file has DoRA, biases or another kind of
// adapter; the error names the file and the tensor.
StatusOr<SlotContents> ReadAdapter(const Adapters& adapters, const std::string& path);

}  // namespace fusec::runtime
