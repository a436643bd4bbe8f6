#pragma once

#include <string>

#include "compiler/support/result.h"

namespace fusec {

// Writes SHA256SUMS, a line for each of the artifact's other files, and its signature by an OpenSSH
// key (runtime/src/artifact/signature.h). `key` is a private key, or a public one whose private one
// an agent holds. Runs sha256sum and ssh-keygen, which asks for the key's passphrase where it has
// one. Gives how many files were signed. A signature that was there is replaced; after an error
// there is none.
Result<size_t> SignArtifact(const std::string& artifact, const std::string& key);

}  // namespace fusec
