#pragma once

#include <atomic>

namespace fusec::runtime {

// Lets any number of threads in at a time, until one closes it: that one is alone then, once those
// inside have left, and others wait before the gate. It comes first, however many keep entering.
class Gate {
 public:
  // Closing first raises the flag and then counts, entering counts first and then looks: one of the
  // two sees the other.
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
  // By one thread at a time.
  void Close() {
    is_closed_ = true;
    for (int inside = inside_; inside != 0; inside = inside_) inside_.wait(inside);
  }
  void Open() {
    is_closed_ = false;
    is_closed_.notify_all();
  }

  // While one lives, its thread is inside.
  class Inside {
   public:
    explicit Inside(Gate& gate) : gate_(gate) { gate_.Enter(); }
    ~Inside() { gate_.Exit(); }
    Inside(const Inside&) = delete;

   private:
    Gate& gate_;
  };
  // While one lives, nobody else is inside.
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
