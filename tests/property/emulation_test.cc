// The text of tensor-core products, run on the emulated GPU (tests/emulation/README.md). Unchanged, every kernel must be right; with a
// fault in the text, an answer must be wrong. FUSEC_EMULATION=all tries all kernels and faults instead of some; FUSEC_EMULATION=NAME also
// tries the faults whose names begin with NAME.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/property/emulated_products.h"
#include "tests/property/gpu_text_on_cpu.h"

namespace fusec {
namespace {

constexpr int64_t kRows[] = {70, 16, 3};  // each uses different kernels

using Tiles = EmulatedProducts::Tiles;

std::string Wanted() {
  const char* wanted = std::getenv("FUSEC_EMULATION");
  return wanted == nullptr ? "" : wanted;
}

struct Products {
  Tiles tiles;
  Dtype dtype;
  const char* precision;
};

TEST(Emulation, ProductsAreRight) {
  std::vector<Products> all = {{Tiles::kOfWarpgroups, Dtype::kF32, "highest"}, {Tiles::kOfWarps, Dtype::kF16, "highest"},
                               {Tiles::kOfWarpgroups, Dtype::kF32, "fp8"}};
  if (Wanted() == "all") {
    all.push_back({Tiles::kOfWarps, Dtype::kF32, "highest"});
    all.push_back({Tiles::kOfWarps, Dtype::kF32, "high"});
    all.push_back({Tiles::kOfWarpgroups, Dtype::kF32, "high"});
    all.push_back({Tiles::kOfWarpgroups, Dtype::kF16, "highest"});
  }
  for (const auto& [tiles, dtype, precision] : all) {
    const auto products = EmulatedProducts::Make(tiles, dtype, precision);
    ASSERT_TRUE(products.has_value()) << products.error().message;
    for (const int64_t rows : kRows) EXPECT_EQ((*products)->Wrong(rows), "") << DtypeName(dtype) << " " << precision;
  }
}

struct Fault {
  const char* name;
  Dtype dtype;
  const char* precision;
  const char* right;
  const char* wrong;
};

const Fault kFaults[] = {
    {"warpgroup: a stage is filled again while it is used", Dtype::kF32, "highest",
     "      memory.used[stage].Await((round - 1) % 2);\n", ""},
    {"warpgroup: a stage is used before it is filled", Dtype::kF32, "highest",
     "  memory.filled[chunk % Shape::kStages].Await(chunk / Shape::kStages % 2);\n", ""},
    {"warpgroup: it waits for the phase before", Dtype::kF32, "highest",
     "Await(chunk / Shape::kStages % 2)", "Await((chunk / Shape::kStages + 1) % 2)"},
    {"warpgroup: copies are not waited for", Dtype::kF32, "highest", "      filled.ArriveAfterCopies();\n",
     "      filled.Arrive();\n"},
    {"warpgroup: bytes of the units are not expected", Dtype::kF32, "highest", "sizeof(to.b)) + unit_bytes", "sizeof(to.b))"},
    {"warpgroup: too few arrivals", Dtype::kF32, "highest", "Make(Shape::Filling::kThreads + 1)", "Make(Shape::Filling::kThreads)"},
    {"warpgroup: a stage is let go before its products have ended", Dtype::kF16, "highest",
     "    AwaitProducts<1>();  // those of the previous chunk\n", ""},
    {"warpgroup: sums are read before the products have ended", Dtype::kF32, "highest", "      AwaitProducts<0>();\n", ""},
    {"warpgroup: the last products are not waited for", Dtype::kF16, "highest", "  AwaitProducts<0>();\n#pragma unroll\n  for (int block",
     "#pragma unroll\n  for (int block"},
    {"warpgroup: products begin without a fence", Dtype::kF16, "highest", "  BeginProducts();\n", ""},
    {"warpgroup: sums overwrite a stage that is read", Dtype::kF16, "highest",
     "  AwaitBlock();  // no thread reads the chunks, which the sums overwrite\n", ""},
    {"warpgroup: sums are read before all have written", Dtype::kF16, "highest", "  AwaitSums<Shape>();\n}\n#else", "}\n#else"},
    {"warpgroup: lows of the weights take the highs' place", Dtype::kF32, "highest", "high, lows + from, true", "high, highs + from, true"},
    {"warpgroup: the first product of a chunk adds to what was there", Dtype::kF32, "highest", "high, highs + from, step > 0",
     "high, highs + from, true"},
    {"warpgroup: steps of the depth begin one word further", Dtype::kF16, "highest", "panel + PanelWords(8 * step)",
     "panel + PanelWords(8 * step + 4)"},
    {"cluster: parts are read before all blocks have them", Dtype::kF32, "highest", "    AwaitCluster();\n  } else {", "  } else {"},
    {"cluster: a block leaves while its sums are read", Dtype::kF32, "highest", "  LeaveCluster();\n", ""},
    {"cluster: a part is left out", Dtype::kF32, "highest", "for (int block = 1; block < kBlocks; ++block)",
     "for (int block = 2; block < kBlocks; ++block)"},
    {"tile: a chunk is used before it is there", Dtype::kF32, "high", "    AwaitCopies<kStages - 2>();\n", ""},
    {"tile: one chunk too few is waited for", Dtype::kF32, "high", "AwaitCopies<kStages - 2>()", "AwaitCopies<kStages - 1>()"},
    {"tile: threads use a chunk that others still copy", Dtype::kF32, "high",
     "    __syncthreads();  // the chunk has arrived, and no thread reads the one to overwrite\n", ""},
    {"tile: sums overwrite a chunk that is used", Dtype::kF32, "high", "  AwaitCopies<0>();\n  __syncthreads();\n",
     "  AwaitCopies<0>();\n"},
    {"tile: sums are read before all have written", Dtype::kF32, "high", "      }\n    }\n  }\n  __syncthreads();\n}\n",
     "      }\n    }\n  }\n}\n"},
    {"tile: groups of copies are not closed", Dtype::kF32, "high", "    CloseCopies();\n", ""},
    {"tile: zeros behind a row's end are left out", Dtype::kF32, "high", "source, inside && row < rows", "source, row < rows"},
    {"tile: the last steps of a chunk are left out", Dtype::kF32, "high", "step < Shape::kWarpWords; step += 8",
     "step + 8 < Shape::kWarpWords; step += 8"},
};

TEST(Emulation, FaultsAreFound) {
  constexpr size_t kOneOf = 13;  // 2 of them
  size_t number = 0;
  for (const Fault& fault : kFaults) {
    const bool is_named = !Wanted().empty() && std::string(fault.name).starts_with(Wanted());
    if (number++ % kOneOf != 0 && Wanted() != "all" && !is_named) continue;
    const TextFault text(fault.right, fault.wrong);
    const Tiles tiles = std::string(fault.name).starts_with("tile:") ? Tiles::kOfWarps : Tiles::kOfWarpgroups;
    const auto products = EmulatedProducts::Make(tiles, fault.dtype, fault.precision);
    ASSERT_TRUE(products.has_value()) << fault.name << ": " << products.error().message;
    ASSERT_TRUE(text.was_written()) << fault.name;
    std::string found;
    for (const int64_t rows : kRows) {
      if (found.empty()) found = (*products)->Wrong(rows);
    }
    EXPECT_NE(found, "") << fault.name << ": nothing has found it";
    std::printf("%s: %s\n", fault.name, found.c_str());
  }
}

}  // namespace
}  // namespace fusec
