#pragma once

#include <string>

namespace fusec {

enum class Mode { kCpu, kCuda, kInterpreter };

// What became of a case. `text` is what the list of expectations says: "pass", "pass (frozen:
// axes)", "unsupported: <the importer's words>", or else a failure: "wrong: ...", "crash: ...".
struct Outcome {
  enum class Kind { kPass, kUnsupported, kFailure };
  Kind kind = Kind::kFailure;
  std::string text;
};

// Runs every data set of an ONNX node test (a folder with model.onnx and
// test_data_set_*/{input,output}_*.pb). Inputs that fusec needs to know at compile time (shapes,
// axes, ...) are frozen, no more of them than it takes. `work_folder` with a number behind it is
// where artifacts go.
Outcome RunCase(const std::string& case_folder, Mode mode, const std::string& work_folder);

}  // namespace fusec
