#include "compiler/ir/name_table.h"

#include <gtest/gtest.h>

#include "compiler/ir/graph.h"

namespace fusec {
namespace {

TEST(NameTable, GivesTheLeastFreeNumber) {
  NameTable names;
  names.Add("x_2");
  EXPECT_EQ(names.Take("x"), "x");
  EXPECT_EQ(names.Take("x"), "x_1");
  EXPECT_EQ(names.Take("x"), "x_3");
  EXPECT_EQ(names.Take("y"), "y");
}

TEST(NameTable, GivesNamesAgainThatBecomeFree) {
  NameTable names;
  for (int i = 0; i < 5; ++i) names.Take("x");
  names.Remove("x_2");
  names.Remove("x_99");
  names.Remove("x_");
  EXPECT_EQ(names.Take("x"), "x_2");
  EXPECT_EQ(names.Take("x"), "x_5");
  names.Remove("x");
  EXPECT_EQ(names.Take("x"), "x");
}

// A graph finds the same names with its name table as by searching its values.
TEST(NameTable, GivesWhatALookAtAllValuesGives) {
  Graph looks, remembers;
  remembers.RememberNames();
  for (const char* wanted : {"a", "a", "a_1", "a", "b_7", "b", "b", "a_1", "a_1_1", "1", "c.d", "/e/f", "a"}) {
    looks.AddInput(wanted, {});
    remembers.AddInput(wanted, {});
  }
  looks.Rename(looks.inputs[1].get(), "b");
  remembers.Rename(remembers.inputs[1].get(), "b");
  looks.AddInput("a", {});
  remembers.AddInput("a", {});
  for (size_t i = 0; i < looks.inputs.size(); ++i) EXPECT_EQ(looks.inputs[i]->name, remembers.inputs[i]->name);
}

}  // namespace
}  // namespace fusec
