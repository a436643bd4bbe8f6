#include "compiler/support/watchdog.h"

#include <gtest/gtest.h>

#include <chrono>

namespace fusec {
namespace {

TEST(Watchdog, LetsWorkBeThatEnds) { const Watchdog watchdog(3600, "never said"); }

TEST(WatchdogDeathTest, EndsTheProcessWithItsMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang = [] {
    const Watchdog watchdog(0.05, "the kernel does not end");
    std::this_thread::sleep_for(std::chrono::hours(1));
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(70), "error: the kernel does not end");
}

}  // namespace
}  // namespace fusec
