#pragma once

#include <string>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/support/adt.h"

namespace fusec {

// The inputs that --input NAME=FILE, --input FILE.npz and --random with --dim ask for. Errors list
// the inputs that exist. An array of an .npz file that is not an input is ignored with a note; an
// input without data is an error unless `random` fills it.
Result<Inputs> ChooseInputs(const runtime::Manifest& manifest, ArrayRef<std::string> input_flags,
                            bool random, ArrayRef<std::string> dim_flags,
                            const RandomFlags& random_flags);

// The inputs in an .npz file, which must have an array for every input.
Result<Inputs> InputsFromNpz(const runtime::Manifest& manifest, const std::string& path);
// The value of every symbol that is a dim of `inputs`.
DimValues DimsOf(const runtime::Manifest& manifest, const Inputs& inputs);

}  // namespace fusec
