// The hash of a file with holes is that of the bytes that it reads as.
#include "runtime/src/artifact/file_hash.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/src/artifact/hash.h"

namespace fusec::runtime {
namespace {

TEST(FileHash, TakesHolesForZeros) {
  struct Case {
    std::vector<uintmax_t> data;  // where the file has some
    uintmax_t size;
  };
  constexpr uintmax_t kMegabyte = 1 << 20;
  const std::string path =
      std::filesystem::temp_directory_path() / ("fusec_holes_" + std::to_string(getpid()));
  for (const auto& [data, size] : {Case{{}, 0},
                                   {{}, 5},
                                   {{0}, 3},
                                   {{}, 3 * kMegabyte + 7},
                                   {{0}, 2 * kMegabyte},
                                   {{2 * kMegabyte}, 5 * kMegabyte + 1},
                                   {{0, 4 * kMegabyte - 3}, 4 * kMegabyte}}) {
    std::ofstream file(path, std::ios::binary);
    std::filesystem::resize_file(path, size);
    for (const uintmax_t at : data) file.seekp(static_cast<std::streamoff>(at)) << "abc";
    file.close();
    const auto mapped = MappedFile::Open(path);
    ASSERT_TRUE(mapped);
    EXPECT_EQ(HashOfFile(*mapped), Hash128(mapped->bytes())) << size << ", " << data.size();
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace fusec::runtime
