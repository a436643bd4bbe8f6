#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "compiler/support/adt.h"

namespace fusec {

// Output for people. stdout carries only results. The three Print functions write the lines of a
// message to stderr; each line is shortened to about 2,000 bytes.
void PrintError(const std::string& message);    // "fusec: error: ..."
void PrintWarning(const std::string& message);  // "fusec: warning: ..."
void PrintNote(const std::string& message);     // "fusec: ..."

// These add terminal colors if stdout is a terminal and NO_COLOR is not set; otherwise they return
// the text unchanged.
std::string Bold(const std::string& text);
std::string Dim(const std::string& text);
std::string Green(const std::string& text);
std::string Red(const std::string& text);

std::string FormatBytes(double bytes);   // "12.3 MB", in steps of 1000
std::string FormatCount(double count);   // "1.23 G", in steps of 1000
std::string FormatNumber(double value);  // "1.2e-07", "0"; "nan", "inf"
std::string FormatValue(double value);   // "1.2345678": enough digits to tell floats apart
std::string Join(ArrayRef<std::string> items, const std::string& separator);
// The first `limit` items, and the number of the others.
std::string Shorten(ArrayRef<std::string> items, size_t limit);
// "gather x26, concat" for 26 gathers and a concat, in order of first appearance.
std::string CountedText(ArrayRef<std::string> items);
std::string Plural(int64_t count, const std::string& noun);  // "1 launch", "3 launches"

// Formats rows of cells in aligned columns, two spaces apart: column i is right-aligned if
// alignment[i] is 'r', else left-aligned. Each line is indented by two spaces. Cells must be plain
// text; the first row is a heading.
std::string FormatTable(ArrayRef<std::vector<std::string>> rows, const std::string& alignment);

// A progress line on stderr that is redrawn while something takes longer than a second; nothing is
// drawn if stderr is not a terminal.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // erases the line
  ProgressLine(const ProgressLine&) = delete;
  void Update(const std::string& stage, double fraction);

 private:
  void Redraw();

  const bool enabled_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string stage_;
  double fraction_ = 0;
  bool done_ = false, drawn_ = false;
  std::thread thread_;
};

}  // namespace fusec
