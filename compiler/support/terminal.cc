#include "compiler/support/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "compiler/support/adt.h"

namespace fusec {

namespace {

bool ColourOn(int descriptor) {
  const char* off = std::getenv("NO_COLOR");
  return isatty(descriptor) && !(off && *off);
}

std::string Painted(const std::string& text, const char* code, int descriptor) {
  return ColourOn(descriptor) ? std::string("\033[") + code + "m" + text + "\033[0m" : text;
}

// Shortens a line, because names and attributes of models may have any length.
std::string Bounded(const std::string& line) {
  constexpr size_t kMostBytes = 2000, kEndBytes = 300;
  if (line.size() <= kMostBytes) return line;
  const auto begins_character = [&](size_t at) { return (line[at] & 0xc0) != 0x80; };  // of UTF-8
  size_t head = kMostBytes - kEndBytes, tail = line.size() - kEndBytes;
  while (head > 0 && !begins_character(head)) --head;
  while (tail < line.size() && !begins_character(tail)) ++tail;
  return line.substr(0, head) + "..." + line.substr(tail);
}

void PrintLine(const std::string& prefix, const std::string& message) {
  std::string lines;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = message.find('\n', begin);
    lines += Bounded(message.substr(begin, end - begin)) + "\n";
  }
  std::fflush(stdout);
  std::fputs((prefix + lines).c_str(), stderr);
}

// Three significant digits and the unit prefix for a thousand, a million, ...
std::string Scaled(double value, const char* const* units, int count) {
  int unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < count) {
    value /= 1000;
    ++unit;
  }
  char text[48];
  const int decimals = unit == 0 || std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f%s%s", decimals, value, *units[unit] ? " " : "",
                units[unit]);
  return text;
}

}  // namespace

void PrintError(const std::string& message) {
  PrintLine("fusec: " + Painted("error:", "1;31", 2) + " ", message);
}
void PrintWarning(const std::string& message) {
  PrintLine("fusec: " + Painted("warning:", "1;33", 2) + " ", message);
}
void PrintNote(const std::string& message) { PrintLine("fusec: ", message); }

std::string Bold(const std::string& text) { return Painted(text, "1", 1); }
std::string Dim(const std::string& text) { return Painted(text, "2", 1); }
std::string Green(const std::string& text) { return Painted(text, "32", 1); }
std::string Red(const std::string& text) { return Painted(text, "31", 1); }

std::string FormatBytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  return Scaled(bytes, kUnits, 6);
}

std::string FormatCount(double count) {
  static constexpr const char* kUnits[] = {"", "K", "M", "G", "T", "P"};
  return Scaled(count, kUnits, 6);
}

std::string FormatNumber(double value) {
  if (value == 0) return "0";
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

std::string FormatValue(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.8g", value);
  return text;
}

std::string Join(ArrayRef<std::string> items, const std::string& separator) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) text += (i ? separator : "") + items[i];
  return text;
}

std::string Shorten(ArrayRef<std::string> items, size_t limit) {
  if (items.size() <= limit) return Join(items, ", ");
  const std::vector<std::string> first(items.begin(), items.begin() + static_cast<long>(limit));
  return Join(first, ", ") + ", and " + std::to_string(items.size() - limit) + " more";
}

std::string CountedText(ArrayRef<std::string> items) {
  std::vector<std::pair<std::string, int>> counts;
  for (const std::string& item : items) {
    bool found = false;
    for (auto& [name, count] : counts) {
      if (name != item) continue;
      ++count;
      found = true;
    }
    if (!found) counts.emplace_back(item, 1);
  }
  std::string text;
  for (const auto& [name, count] : counts) {
    text += (text.empty() ? "" : ", ") + name + (count > 1 ? " x" + std::to_string(count) : "");
  }
  return text;
}

std::string Plural(int64_t count, const std::string& noun) {
  const bool hisses = noun.ends_with("ch") || noun.ends_with("s");
  return std::to_string(count) + " " + noun + (count == 1 ? "" : hisses ? "es" : "s");
}

std::string FormatTable(ArrayRef<std::vector<std::string>> rows, const std::string& alignment) {
  std::vector<size_t> widths(alignment.size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line = " ";
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const std::string padding(widths[i] - rows[r][i].size(), ' ');
      line += " " + std::string(i ? 1 : 0, ' ');
      line += alignment[i] == 'r' ? padding + rows[r][i] : rows[r][i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (r == 0 ? Dim(line) : line) + "\n";
  }
  return text;
}

ProgressLine::ProgressLine() : enabled_(isatty(STDERR_FILENO)) {
  if (!enabled_) return;
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    auto next = start_ + std::chrono::seconds(1);
    while (!wake_.wait_until(lock, next, [this] { return done_; })) {
      Redraw();
      next = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
    }
  });
}

ProgressLine::~ProgressLine() {
  if (!enabled_) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::Update(const std::string& stage, double fraction) {
  const std::lock_guard lock(mutex_);
  stage_ = stage;
  fraction_ = fraction;
}

void ProgressLine::Redraw() {
  if (stage_.empty()) return;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  std::fprintf(stderr, "\r\033[K%3.0f %%  %s  %.0f s", fraction_ * 100, stage_.c_str(),
               spent.count());
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace fusec
