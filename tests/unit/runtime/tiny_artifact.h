#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fusec::runtime {

// A hand-written artifact in a temporary folder, which is removed with the object. The model, for x f32[batch, 3] and index i64[batch, 2]:
//   hidden = relu(x * weight[3, 4] + bias[4]);  y[i, j] = hidden[i, j] + table[index[i, 0], j] + table[index[i, 1], j]
// with weight[k][j] = k + j - 2, bias[j] = j and table[10, 4][r][j] = 100 r + j.
class TinyArtifact {
 public:
  TinyArtifact();
  ~TinyArtifact();
  TinyArtifact(const TinyArtifact&) = delete;

  const std::string& path() const { return path_; }
  std::string Read(const std::string& relative_path) const;
  void Write(const std::string& relative_path, const std::string& bytes) const;
  // Replaces the first `from` in the manifest, which must be there.
  void EditManifest(const std::string& from, const std::string& to) const;

  // The answers of the model.
  static std::vector<float> Expected(const std::vector<float>& x, const std::vector<int64_t>& index);

 private:
  std::string path_;
};

}  // namespace fusec::runtime
