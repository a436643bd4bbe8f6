#include "compiler/support/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

namespace fusec {
namespace {

// A process that does not poll Interrupted() for a minute after it has caught the signals.
pid_t StartDeafProcess() {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    CatchInterrupts();
    [[maybe_unused]] const ssize_t ready = write(pipe_ends[1], "r", 1);
    sleep(60);
    _exit(0);
  }
  char ready;
  EXPECT_EQ(read(pipe_ends[0], &ready, 1), 1);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return child;
}

int SignalThatEnded(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(Interrupt, OneSignalEndsWorkThatDoesNotPoll) {
  const pid_t child = StartDeafProcess();
  const auto begin = std::chrono::steady_clock::now();
  kill(child, SIGTERM);
  EXPECT_EQ(SignalThatEnded(child), SIGTERM);
  const auto taken = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(taken, std::chrono::seconds(4));  // it had time to end by itself
  EXPECT_LE(taken, std::chrono::seconds(30));
}

TEST(Interrupt, ASecondSignalEndsAtOnce) {
  const pid_t child = StartDeafProcess();
  kill(child, SIGTERM);
  usleep(200'000);
  kill(child, SIGINT);
  EXPECT_EQ(SignalThatEnded(child), SIGINT);
}

}  // namespace
}  // namespace fusec
