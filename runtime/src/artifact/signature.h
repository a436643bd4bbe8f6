#pragma once

#include <string>

#include "runtime/src/status.h"

namespace fusec::runtime {

// The files that `fusec sign` writes into an artifact: a line `SHA-256  path` for every other file,
// and the signature of these lines in OpenSSH's format, with this namespace.
inline constexpr const char* kSums = "SHA256SUMS";
inline constexpr const char* kSignature = "SHA256SUMS.sig";
inline constexpr const char* kSignatureNamespace = "fusec-artifact";

// If the environment variable FUSEC_ALLOWED_SIGNERS names a file of allowed signers (in the format
// of ssh-keygen's ALLOWED SIGNERS), returns an error unless one of them has signed this artifact
// and all of its files are the signed ones. Runs ssh-keygen and sha256sum, which reads all bytes.
Status CheckSignature(const std::string& artifact);

}  // namespace fusec::runtime
