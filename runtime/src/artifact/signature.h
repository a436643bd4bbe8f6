#pragma once

#include <string>

#include "runtime/src/status.h"

namespace fusec::runtime {

// What `fusec sign` writes into an artifact: a line `SHA-256  path` for every other file, and the
// signature of these lines in OpenSSH's format, for this namespace.
inline constexpr const char* kSums = "SHA256SUMS";
inline constexpr const char* kSignature = "SHA256SUMS.sig";
inline constexpr const char* kSignatureNamespace = "fusec-artifact";

// Where the environment names a file of those who may sign artifacts (FUSEC_ALLOWED_SIGNERS, in the
// format of ssh-keygen's ALLOWED SIGNERS): an error unless one of them has signed this one, and all
// of its files are what was signed. Runs ssh-keygen and sha256sum, which reads all bytes.
Status CheckSignature(const std::string& artifact);

}  // namespace fusec::runtime
