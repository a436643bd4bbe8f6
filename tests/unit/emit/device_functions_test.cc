#include "compiler/emit/device_functions.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codegen_templates/templates.h"
#include "compiler/support/check.h"

namespace fusec {
namespace {

using Kind = DevicePart::Kind;

TEST(DeviceFunctions, EveryTemplateIsItsParts) {
  int files = 0;
  for (const std::string_view path : TemplatePaths()) {
    if (!path.starts_with("device/")) continue;
    ++files;
    const std::string_view file = TemplateText(path).value();
    std::string together;
    for (const DevicePart& part : TakeApart(file)) {
      together += part.text;
      EXPECT_EQ(part.text.back(), '\n') << path << ": " << part.text;
      EXPECT_EQ(part.name.empty(), part.kind != Kind::kDeclaration) << path << ": " << part.text;
      if (part.kind != Kind::kDeclaration) continue;
      EXPECT_TRUE(std::binary_search(part.words.begin(), part.words.end(), part.name)) << part.name;
    }
    EXPECT_EQ(together, file) << path;
  }
  EXPECT_GT(files, 30);
}

TEST(DeviceFunctions, KnowsWhatADeclarationDeclares) {
  const std::vector<DevicePart> parts = TakeApart(
      "// About the file.\n"
      "\n"
      "// A type.\n"
      "template <class T, int kCount>\n"
      "struct alignas(sizeof(T) * kCount < 16 ? 8 : 16) Box {\n  T at[kCount];\n};\n"
      "enum class Way { kUp, kDown };\n"
      "#ifdef __CUDACC__\n"
      "template <class T>\n"
      "constexpr bool kIsBox<const T*> = sizeof(T) > 4;\n"
      "#else\n"
      "// A function, with \"strings}\" and branches.\n"
      "template <class T, bool kWide = (4 > 2)>\n"
      "__device__ Box<T, 2> Make(const Box<T, 2>& box) {\n"
      "#pragma unroll\n"
      "  if (box.at[0]) asm(\"{ not a bracket\");\n"
      "  return box;\n"
      "}\n"
      "#endif\n"
      "#define NAME(...)\n"
      "template <class Shape>\n"
      "using Alias = typename Shape::Box;  // behind it\n"
      "#pragma omp declare reduction(larger : float : omp_out = Make(omp_out)) \\\n"
      "    initializer(omp_priv = omp_orig)\n");
  std::vector<std::string> names;
  for (const DevicePart& part : parts) {
    const bool is_declaration = part.kind == Kind::kDeclaration;
    names.push_back(is_declaration ? std::string(part.name)
                                   : std::to_string(static_cast<int>(part.kind)));
  }
  const std::vector<std::string> expected = {"0", "Box",  "Way", "2",    "kIsBox", "3",
                                             "Make", "4", "NAME", "Alias", "larger"};
  EXPECT_EQ(names, expected);
  const auto& make = parts[6].words;
  EXPECT_TRUE(std::binary_search(make.begin(), make.end(), "Box"));
  EXPECT_FALSE(std::binary_search(make.begin(), make.end(), "bracket")) << "of a string";
  EXPECT_FALSE(std::binary_search(make.begin(), make.end(), "function")) << "of a comment";
}

TEST(DeviceFunctions, SaysWhatItDoesNotKnow) {
  const auto exit = testing::ExitedWithCode(kBugExitCode);
  EXPECT_EXIT(TakeApart("namespace x {\n}\n"), exit, "not a declaration that kernels carry");
  EXPECT_EXIT(TakeApart("enum Way { kUp };\n"), exit, "its values have names");
  EXPECT_EXIT(TakeApart("int a;\n\n// Alone.\n\nint b;\n"), exit, "only the first comment");
  EXPECT_EXIT(TakeApart("int a; int b;\n"), exit, "two declarations in a line");
  EXPECT_EXIT(TakeApart("void F() {\n"), exit, "a declaration without an end");
  EXPECT_EXIT(TakeApart("#ifdef A\nint a;\n"), exit, "ends in the middle");
  EXPECT_EXIT(TakeApart("#include <cmath>\n"), exit, "a directive that device files do not have");
}

TEST(DeviceFunctions, OnlyWhatCodeUses) {
  const std::string larger = DeviceFunctionsFor("x = Max(a, b);  // Min(a, b)", {"minmax.cuh"});
  EXPECT_NE(larger.find("Real Max("), std::string::npos);
  EXPECT_EQ(larger.find("Real Min("), std::string::npos);
  EXPECT_EQ(DeviceFunctionsFor("x = a + b;", {"minmax.cuh"}), "");
  EXPECT_EQ(DeviceFunctionsFor("asm(\"Max\");", {"minmax.cuh"}), "");
}

TEST(DeviceFunctions, WhatFunctionsUseOfOtherFiles) {
  const std::string text =
      DeviceFunctionsFor("y = GeluTanh(x);", {"sigmoid.cuh", "minmax.cuh", "gelu_tanh.cuh"});
  const std::string lines = "// ---- from codegen_templates/device/";
  EXPECT_EQ(text, lines + "sigmoid.cuh ----\n" +
                      std::string(TemplateText("device/sigmoid.cuh").value()) + "\n" + lines +
                      "gelu_tanh.cuh ----\n" +
                      std::string(TemplateText("device/gelu_tanh.cuh").value()) + "\n");
}

TEST(DeviceFunctions, OverloadsAndBranchesGoTogether) {
  const std::string text = DeviceFunctionsFor("x = ToHalf(y);", {"half.cuh"});
  for (const char* kept : {"struct Half {", "#ifdef __CUDACC__\n__device__ __forceinline__ Half To",
                           "#else\n__device__ __forceinline__ Half To", ");\n  return result;\n}\n#else",
                           "(x)}; }\n#endif\n"})
    EXPECT_NE(text.find(kept), std::string::npos) << kept << " in " << text;
  for (const char* left_out : {"BFloat16(", "ToFloat", "\n\n\n"})
    EXPECT_EQ(text.find(left_out), std::string::npos) << left_out << " in " << text;
}

}  // namespace
}  // namespace fusec
