// NumPy files: fusec and NumPy read each other's files, and damaged files are errors.
#include "compiler/driver/artifact/tensor_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "compiler/driver/artifact/zip_archive.h"
#include "compiler/support/child_process.h"

namespace fusec {
namespace {

class Files : public testing::Test {
 protected:
  Files() : folder_(*MakeTemporaryFolder()) {}
  ~Files() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  // Runs Python code with NumPy as np in the folder; returns whether it succeeded.
  void Python(const std::string& script) const {
    const ChildResult child = RunChild(
        {FUSEC_PYTHON, "-c", "import os, numpy as np; os.chdir('" + folder_ + "')\n" + script});
    ASSERT_EQ(child.exit_code, 0) << child.errors;
  }
  std::string folder_;
};

std::string ErrorOf(const std::string& bytes) {
  const auto data = ParseNpy(bytes, "x.npy");
  return data ? "none" : data.error().message;
}

TEST_F(Files, EveryDtypeAndShapeComesBack) {
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    for (const std::vector<int64_t>& dims :
         std::vector<std::vector<int64_t>>{{}, {3}, {2, 0}, {2, 3}}) {
      TensorData data(dtype, dims);
      for (int64_t k = 0; k < data.element_count(); ++k) data.SetInt(k, k % 2);
      const auto again = ParseNpy(NpyBytes(data), "x.npy");
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_EQ(again->Hash(), data.Hash()) << DtypeName(dtype);
    }
  }
}

TEST_F(Files, NumpyReadsWhatWeWrite) {
  const auto floats = TensorData::From<double>(Dtype::kF32, {2, 2}, {1.5, -0.0, INFINITY, NAN});
  ASSERT_TRUE(WriteNpy(Path("a.npy"), floats));
  ASSERT_TRUE(WriteNpy(Path("b.npy"), TensorData::From<int64_t>(Dtype::kI64, {}, {INT64_MIN})));
  Python(
      "a = np.load('a.npy'); b = np.load('b.npy')\n"
      "assert a.dtype == np.float32 and a.shape == (2, 2), a\n"
      "assert a[0, 0] == 1.5 and np.signbit(a[0, 1]) and np.isinf(a[1, 0]) and np.isnan(a[1, 1])\n"
      "assert b.dtype == np.int64 and b.shape == () and b == -2**63");
}

TEST_F(Files, ReadsWhatNumpyWrites) {
  Python(
      "x = np.arange(6, dtype=np.float16).reshape(2, 3)\n"
      "np.savez('plain.npz', x=x, y=np.asfortranarray(x), z=np.zeros((0, 4), dtype=bool))\n"
      "np.savez_compressed('packed.npz', x=x, y=np.zeros(100000))");
  const auto plain = ReadNpz(Path("plain.npz"));
  ASSERT_TRUE(plain) << plain.error().message;
  ASSERT_EQ(plain->size(), 3u);
  EXPECT_EQ((*plain)[0].first, "x");
  EXPECT_EQ((*plain)[0].second.GetDouble(4), 4);
  EXPECT_EQ((*plain)[1].second.Hash(), (*plain)[0].second.Hash());
  EXPECT_EQ((*plain)[2].second.dims(), (std::vector<int64_t>{0, 4}));
  const auto packed = ReadNpz(Path("packed.npz"));
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_EQ((*packed)[0].second.Hash(), (*plain)[0].second.Hash());
  EXPECT_EQ((*packed)[1].second.element_count(), 100000);
}

TEST_F(Files, DamageIsAnErrorEverywhere) {
  const std::string good = NpyBytes(TensorData::From<double>(Dtype::kF32, {3}, {1, 2, 3}));
  EXPECT_EQ(ErrorOf(""), "x.npy: is not a .npy file");
  EXPECT_EQ(ErrorOf(good.substr(0, good.size() - 1)),
            "x.npy: is cut short: it has 11 bytes of data, expected 12");
  std::string odd = good;
  odd.replace(odd.find("<f4"), 3, ">f4");
  EXPECT_EQ(ErrorOf(odd), "x.npy: has elements of type '>f4', which fusec does not read");
  odd = good;
  odd.replace(odd.find("(3,)"), 4, "(-3)");
  EXPECT_EQ(ErrorOf(odd), "x.npy: has a damaged .npy header");
  for (size_t cut = 0; cut < good.size(); ++cut) EXPECT_FALSE(ParseNpy(good.substr(0, cut), "x"));
  EXPECT_FALSE(ReadNpy(Path("missing.npy")));

  Python("np.savez_compressed('a.npz', x=np.arange(9))");
  std::ifstream file(Path("a.npz"), std::ios::binary);
  const std::string zip((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_TRUE(ReadZip(zip, "a.npz"));
  for (size_t cut = 0; cut < zip.size(); ++cut) EXPECT_FALSE(ReadZip(zip.substr(0, cut), "a"));
  for (size_t at = 0; at < zip.size(); ++at) {  // any answer, but no crash
    std::string flipped = zip;
    flipped[at] = static_cast<char>(~flipped[at]);
    if (const auto members = ReadZip(flipped, "a"); members && !members->empty()) {
      const auto array = ParseNpy((*members)[0].bytes, "x");
      if (array) {
        EXPECT_EQ(array->element_count(), 9);
      }
    }
  }
}

}  // namespace
}  // namespace fusec
