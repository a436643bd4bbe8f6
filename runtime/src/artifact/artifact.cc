#include "runtime/src/artifact/artifact.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/file_hash.h"
#include "runtime/src/artifact/safetensors.h"

namespace fusec::runtime {
namespace {

constexpr size_t kAlignment = 256;
constexpr const char* kWeights = "weights.safetensors";

}  // namespace

void Artifact::AlignedDelete::operator()(std::byte* memory) const { std::free(memory); }

StatusOr<std::unique_ptr<Artifact>> Artifact::Open(const std::string& path) {
  FUSEC_RT_ASSIGN(std::unique_ptr<Artifact> artifact, OpenManifest(path));
  FUSEC_RT_TRY(artifact->LoadConstants());
  return artifact;
}

StatusOr<std::unique_ptr<Artifact>> Artifact::OpenManifest(const std::string& path) {
  std::unique_ptr<Artifact> artifact(new Artifact);
  artifact->path_ = path;
  const std::string file = path + "/manifest.json";
  FUSEC_RT_ASSIGN(const MappedFile json, MappedFile::Open(file));
  FUSEC_RT_ASSIGN(artifact->manifest_, ParseManifest(json.text(), file));
  return artifact;
}

StatusOr<MappedFile> Artifact::ReadFile(const std::string& relative_path) const {
  const auto expected = manifest_.hashes.find(relative_path);
  if (expected == manifest_.hashes.end()) {
    return Fail(FUSEC_BAD_ARTIFACT, path_, "/manifest.json: files has no hash of \"", relative_path,
                "\"");
  }
  const std::string full_path = path_ + "/" + relative_path;
  FUSEC_RT_ASSIGN(MappedFile file, MappedFile::Open(full_path));
  if (const std::string hash = HashOfFile(file); hash != expected->second) {
    return Fail(FUSEC_BAD_ARTIFACT, full_path, ": was altered: its hash is ", hash, ", expected ",
                expected->second);
  }
  return file;
}

Status Artifact::CheckWeights() const {
  if (weights_.IsWhole()) return {};
  return Fail(FUSEC_BAD_ARTIFACT, path_, "/", kWeights,
              ": was truncated while it is in use, expected ", weights_.bytes().size(), " bytes");
}

StatusOr<std::span<std::byte>> Artifact::MakeWritable(int buffer) {
  const std::span<const std::byte> constant = Constant(buffer);
  const std::span<const std::byte> file = weights_.bytes();
  const bool is_mapped =
      constant.data() >= file.data() && constant.data() < file.data() + file.size();
  if (is_mapped) return weights_.MakeWritable(constant);
  return std::span(const_cast<std::byte*>(constant.data()), constant.size());
}

Status Artifact::LoadConstants() {
  constants_.resize(manifest_.buffers.size());
  std::map<std::string, StoredTensor> tensors;
  for (size_t i = 0; i < manifest_.buffers.size(); ++i) {
    const Buffer& buffer = manifest_.buffers[i];
    if (buffer.kind != BufferKind::kConstant) continue;
    const std::string file_name = path_ + "/" + kWeights;
    if (weights_.descriptor() < 0) {
      FUSEC_RT_ASSIGN(weights_, ReadFile(kWeights));
      FUSEC_RT_ASSIGN(tensors, ReadSafetensors(weights_.bytes(), file_name));
    }
    const auto found = tensors.find(buffer.tensor);
    if (found == tensors.end()) {
      return Fail(FUSEC_BAD_ARTIFACT, file_name, ": has no tensor \"", buffer.tensor,
                  "\", which the manifest's buffers[", i, "] names");
    }
    const StoredTensor& tensor = found->second;
    const auto evaluated = buffer.elements.Evaluate({});
    const int64_t elements = evaluated ? *evaluated : -1;
    int64_t bytes = 0;
    const bool overflow = __builtin_mul_overflow(elements, DtypeBytes(buffer.dtype), &bytes);
    if (overflow || bytes < 0 || static_cast<uint64_t>(bytes) != tensor.bytes.size() ||
        tensor.dtype != SafetensorsName(buffer.dtype)) {
      return Fail(FUSEC_BAD_ARTIFACT, file_name, ": tensor \"", buffer.tensor, "\" has ",
                  tensor.bytes.size(), " bytes of ", tensor.dtype, ", expected ", elements, " of ",
                  SafetensorsName(buffer.dtype));
    }
    constants_[i] = tensor.bytes;
    if (reinterpret_cast<uintptr_t>(tensor.bytes.data()) % kAlignment == 0) continue;
    const size_t room = (tensor.bytes.size() / kAlignment + 1) * kAlignment;
    copies_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kAlignment, room)));
    if (!copies_.back()) throw std::bad_alloc();  // c_api.cc converts it to an error
    std::memcpy(copies_.back().get(), tensor.bytes.data(), tensor.bytes.size());
    constants_[i] = {copies_.back().get(), tensor.bytes.size()};
  }
  return {};
}

}  // namespace fusec::runtime
