#pragma once

#include <string>

namespace fusec {

enum class Mode { kCpu, kCuda, kInterpreter };

// The outcome of a case. `text` has the form of the list of expectations: "pass", "pass (frozen: axes)" or "unsupported: <the importer's
// message>"; or it is a failure: "wrong: ...", "crash: ...".
struct Outcome {
  enum class Kind { kPass, kUnsupported, kFailure };
  Kind kind = Kind::kFailure;
  std::string text;
};

// Runs every data set of an ONNX node test (a folder with model.onnx and
// test_data_set_*/{input,output}_*.pb). Inputs that fusec needs to know at compile time (shapes,
// axes, ...) are frozen, and only as many as needed. Artifacts go to `work_folder` with a number appended.
Outcome RunCase(const std::string& case_folder, Mode mode, const std::string& work_folder);

}  // namespace fusec
