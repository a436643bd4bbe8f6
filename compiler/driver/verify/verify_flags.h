#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/artifact/random_flags.h"
#include "compiler/driver/build/model_flags.h"

namespace fusec {

// The flags of `fusec verify`.
struct VerifyFlags {
  std::string subject;  // a model or an artifact
  std::string model;    // the model of the artifact; "" if the subject is a model
  std::string device, inputs;
  ModelFlags model_flags;
  std::vector<std::string> dims;  // "batch=1,2,5"
  RandomFlags random_flags;
  // For an artifact with tables in --table-storage: the largest difference of outputs from those of
  // the model with its own tables, and a file with the labels of scores.
  std::optional<double> drift_bound;
  std::string labels;
  bool per_fusion = false, bisect = false, special_values = false, json = false;
};

}  // namespace fusec
