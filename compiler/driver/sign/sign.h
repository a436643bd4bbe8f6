#pragma once

#include <string>

#include "compiler/support/result.h"

namespace fusec {

// Writes SHA256SUMS, which has a line for each of the artifact's other files, and its signature by
// an OpenSSH key (runtime/src/artifact/signature.h). `key` is the file of a private key, or of a
// public key whose private key an agent holds. Runs sha256sum and ssh-keygen, which asks for the
// passphrase if the key has one. Returns the number of files that were signed. An earlier signature
// is replaced; after an error the artifact may have none.
Result<size_t> SignArtifact(const std::string& artifact, const std::string& key);

}  // namespace fusec
