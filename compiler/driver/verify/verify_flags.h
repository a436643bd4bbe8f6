#pragma once

#include <string>
#include <vector>

#include "compiler/driver/artifact/random_flags.h"
#include "compiler/driver/build/model_flags.h"

namespace fusec {

// The flags of `fusec verify`.
struct VerifyFlags {
  std::string subject;  // a model or an artifact
  std::string model;    // of an artifact
  std::string device, inputs;
  ModelFlags model_flags;
  std::vector<std::string> dims;  // "batch=1,2,5"
  RandomFlags random_flags;
  bool per_fusion = false, bisect = false, json = false;
};

}  // namespace fusec
