#pragma once

#include <string>
#include <vector>

#include "compiler/driver/artifact/random_flags.h"

namespace fusec {

// The flags of `fusec edit`.
struct EditFlags {
  std::string artifact;
  std::vector<std::string> kernels;
  std::string from;  // a folder with edited files; "" for none
  std::string copy;  // the folder to copy to; "" for OUT.edit
};

// The flags of `fusec rebuild`.
struct RebuildFlags {
  std::string artifact;
  std::string edits;  // the folder of edited files; "" for OUT.edit
  std::string device;
  std::vector<std::string> dims;
  RandomFlags random_flags;
  bool restore = false, keep_wrong = false, json = false;
};

}  // namespace fusec
