#include "compiler/driver/artifact/artifact_ir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <span>

#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/package/weights_file.h"
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/read_file.h"
#include "runtime/src/artifact/hash.h"

namespace fusec {
namespace {

// The error of reading the IR of an artifact with this text, without the file's path.
std::string Verdict(const std::string& text) {
  const std::string folder = *MakeTemporaryFolder();
  const TemporaryFolder cleanup(folder);
  std::filesystem::create_directory(folder + "/ir");
  const std::string hash = runtime::Hash128(std::as_bytes(std::span(text)));
  EXPECT_TRUE(WriteFile(folder + "/ir/cpu.ir", text));
  EXPECT_TRUE(WriteFile(
      folder + "/manifest.json",
      R"({"targets": {"cpu": {"ir": "ir/cpu.ir"}}, "files": {"ir/cpu.ir": ")" + hash + R"("}})"));
  const auto graph = ReadFusedGraph(folder, "cpu");
  if (graph) return "good";
  EXPECT_EQ(graph.error().kind, ErrorKind::kArtifact);
  const std::string file = folder + "/ir/cpu.ir: ";
  EXPECT_TRUE(graph.error().message.starts_with(file)) << graph.error().message;
  return graph.error().message.substr(file.size());
}

std::string Around(const std::string& region_class, const std::string& body) {
  return "graph @g(%x \"x\": f32[b, 4], %w \"w\": f32[4, 4]) symbols(b in 1..8) {\n"
         "  %y = region(%x, %w) {class = \"" +
         region_class +
         "\"} : f32[b, 4] {\n"
         "    graph @body(%x: f32[b, 4], %w: f32[4, 4]) {\n" +
         body + "    }\n  }\n  return %y \"y\"\n}\n";
}

constexpr const char* kProduct =
    "%m = matmul(%x, %w) {transpose_a = 0, transpose_b = 0} : f32[b, 4]\n";

TEST(ArtifactIr, TakesFusedGraphs) {
  EXPECT_EQ(Verdict(Around("matmul", kProduct + std::string("return %m\n"))), "good");
  EXPECT_EQ(Verdict(Around("matmul", kProduct + std::string("%r = relu(%m) : f32[b, 4]\n"
                                                            "return %r\n"))),
            "good");
}

TEST(ArtifactIr, RefusesClassesThatAreNone) {
  EXPECT_NE(Verdict(Around("fast", "%a = add(%x, %x) : f32[b, 4]\nreturn %a\n"))
                .find("class is \"fast\", expected one of pointwise|"),
            std::string::npos);
}

TEST(ArtifactIr, RefusesGraphsThatAreNotFused) {
  EXPECT_EQ(Verdict("graph @g(%x \"x\": f32[4]) {\n%y = relu(%x) : f32[4]\nreturn %y \"y\"\n}\n"),
            "%y = relu(%x) : f32[4]: is no region, as all nodes of a fused graph are");
  EXPECT_EQ(Verdict("graph @g(%x \"x\": f32[4]) {\nreturn %x \"y\"\n}\n"),
            "output %x: expected a result of a region of its own");
  EXPECT_EQ(Verdict("graph @g() {\nreturn\n}\n"), "good");
}

}  // namespace
}  // namespace fusec
