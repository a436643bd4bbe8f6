#pragma once

#include <atomic>

namespace fusec::runtime {

// A lock for readers and writers in which writers have priority. Any number of threads may be
// inside at the same time. A thread that closes the gate waits until those inside have left and is
// then alone; threads that arrive after it wait outside until it opens the gate.
class Gate {
 public:
  // Close sets the flag before it reads the counter; Enter increments the counter before it reads
  // the flag. So at least one of two concurrent calls sees the other.
  void Enter() {
    while (true) {
      ++inside_;
      if (!is_closed_) return;
      Exit();
      is_closed_.wait(true);
    }
  }
  void Exit() {
    if (--inside_ == 0 && is_closed_) inside_.notify_all();
  }
  // Called by one thread at a time.
  void Close() {
    is_closed_ = true;
    for (int inside = inside_; inside != 0; inside = inside_) inside_.wait(inside);
  }
  void Open() {
    is_closed_ = false;
    is_closed_.notify_all();
  }

  // The thread is inside the gate as long as this object exists.
  class Inside {
   public:
    explicit Inside(Gate& gate) : gate_(gate) { gate_.Enter(); }
    ~Inside() { gate_.Exit(); }
    Inside(const Inside&) = delete;

   private:
    Gate& gate_;
  };
  // No thread is inside the gate as long as this object exists.
  class Closed {
   public:
    explicit Closed(Gate& gate) : gate_(gate) { gate_.Close(); }
    ~Closed() { gate_.Open(); }
    Closed(const Closed&) = delete;

   private:
    Gate& gate_;
  };

 private:
  std::atomic<int> inside_ = 0;
  std::atomic<bool> is_closed_ = false;
};

}  // namespace fusec::runtime
