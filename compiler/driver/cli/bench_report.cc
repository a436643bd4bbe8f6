#include "compiler/driver/cli/bench_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "compiler/support/terminal.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

Json SpreadJson(const Spread& spread) {
  return {{"median", spread.median}, {"p10", spread.p10}, {"p90", spread.p90}, {"p99", spread.p99}};
}

std::string Fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string Microseconds(double us) { return Fixed(us, us < 100 ? 2 : 0); }

// 1e9 bytes or operations per second, from their number and a time in microseconds.
std::string Rate(int64_t count, double us) {
  return Fixed(static_cast<double>(count) / us * 1e-3, 1);
}

std::string Percent(double part, double whole) {
  return whole > 0 && part > 0 ? Fixed(100 * part / whole, 1) + " %" : "-";
}

std::vector<std::string> TimeRow(const Measurement& m, const std::string& what, const Spread& s) {
  return {DimsText(m.dims),           what,
          Microseconds(s.median),     Microseconds(s.p10),
          Microseconds(s.p90),        Microseconds(s.p99),
          std::to_string(m.launches), FormatBytes(static_cast<double>(m.bytes)),
          Rate(m.bytes, s.median),    FormatCount(static_cast<double>(m.flops)),
          Rate(m.flops, s.median)};
}

// The operations that the device could do in the step's time at its peak rate.
double PeakOperations(const StepMeasurement& step, const runtime::DevicePeaks& peaks) {
  return peaks.f32_per_second * step.us.median * 1e-6;
}

std::string StepsText(const BenchReport& report, const Measurement& m) {
  std::vector<std::vector<std::string>> rows = {{"kernel", "median us", "p99", "share", "reads",
                                                 "writes", "GB/s", "of bandwidth", "flops",
                                                 "Gflop/s", "of f32 peak"}};
  double sum_us = 0;
  for (const StepMeasurement& step : m.steps) sum_us += step.us.median;
  for (const StepMeasurement& step : m.steps) {
    rows.push_back({step.name, Microseconds(step.us.median), Microseconds(step.us.p99),
                    Percent(step.us.median, sum_us),
                    FormatBytes(static_cast<double>(step.bytes_read)),
                    FormatBytes(static_cast<double>(step.bytes_written)),
                    Rate(step.bytes_read + step.bytes_written, step.us.median),
                    Percent(FloorMicroseconds(step, report.peaks), step.us.median),
                    FormatCount(static_cast<double>(step.flops)), Rate(step.flops, step.us.median),
                    Percent(static_cast<double>(step.flops), PeakOperations(step, report.peaks))});
  }
  return "\n  " + DimsText(m.dims) + ": each kernel timed " +
         (report.on_gpu ? "alone" : "within whole runs") + ", " + Microseconds(sum_us) +
         " us in all\n" + FormatTable(rows, "lrrrrrrrrrr");
}

std::string CachesText(const Measurement& m) {
  std::vector<std::vector<std::string>> rows = {
      {"table in host memory", "rows", "in the cache", "hit rate", "over the bus per look-up"}};
  for (const CacheUse& cache : m.caches) {
    rows.push_back({cache.table, std::to_string(cache.rows), std::to_string(cache.cached_rows),
                    Percent(cache.HitRate(), 1), Fixed(cache.BusBytes(), 1) + " B"});
  }
  return "\n  " + DimsText(m.dims) + ": look-ups that caches on the GPU answered\n" +
         FormatTable(rows, "lrrrr");
}

Json CacheJson(const CacheUse& cache) {
  return {{"table", cache.table},
          {"rows", cache.rows},
          {"cached_rows", cache.cached_rows},
          {"hits", cache.hits},
          {"misses", cache.misses},
          {"hit_rate", cache.HitRate()},
          {"bus_bytes_per_look_up", cache.BusBytes()}};
}

Json StepJson(const StepMeasurement& step, const runtime::DevicePeaks& peaks) {
  const double floor_us = FloorMicroseconds(step, peaks);
  return {{"name", step.name},
          {"us", SpreadJson(step.us)},
          {"bytes_read", step.bytes_read},
          {"bytes_written", step.bytes_written},
          {"flops", step.flops},
          {"floor_us", floor_us},
          {"of_bandwidth", step.us.median > 0 ? floor_us / step.us.median : 0}};
}

std::string PeaksText(const runtime::DevicePeaks& peaks) {
  if (peaks.bytes_per_second <= 0) return "peak bandwidth unknown";
  std::string text = "peak bandwidth of memory (caches give more) " +
                     Fixed(peaks.bytes_per_second * 1e-9, 0) + " GB/s";
  if (peaks.f32_per_second > 0)
    text += ", f32 without tensor cores " + Fixed(peaks.f32_per_second * 1e-9, 0) + " Gflop/s";
  return text + ": " + peaks.source;
}

Json PeaksJson(const runtime::DevicePeaks& peaks) {
  return {{"bytes_per_second", peaks.bytes_per_second},
          {"f32_per_second", peaks.f32_per_second},
          {"source", peaks.source}};
}

Json TraceEvent(const StepMeasurement& step, const runtime::DevicePeaks& peaks, size_t process,
                double start_us) {
  const int64_t bytes = step.bytes_read + step.bytes_written;
  return {{"name", step.name},
          {"ph", "X"},
          {"cat", "kernel"},
          {"ts", start_us},
          {"dur", step.us.median},
          {"pid", process},
          {"tid", 0},
          {"args",
           {{"bytes read", step.bytes_read},
            {"bytes written", step.bytes_written},
            {"GB/s", Rate(bytes, step.us.median)},
            {"of bandwidth", Percent(FloorMicroseconds(step, peaks), step.us.median)},
            {"flops", step.flops},
            {"Gflop/s", Rate(step.flops, step.us.median)},
            {"p99 us", step.us.p99},
            {"inputs", step.inputs},
            {"outputs", step.outputs}}}};
}

Json NameEvent(const char* what, size_t process, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", 0}, {"args", {{"name", name}}}};
}

// The kind of host memory that holds the inputs of calls.
std::string HostMemory(const BenchReport& report) {
  return report.on_gpu && !report.pageable ? "page-locked" : "pageable";
}

}  // namespace

Spread SpreadOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) {
    return samples[std::min(samples.size() - 1,
                            static_cast<size_t>(share * static_cast<double>(samples.size())))];
  };
  return {at(0.5), at(0.1), at(0.9), at(0.99)};
}

double FloorMicroseconds(const StepMeasurement& step, const runtime::DevicePeaks& peaks) {
  if (peaks.bytes_per_second <= 0) return 0;
  return static_cast<double>(step.bytes_read + step.bytes_written) / peaks.bytes_per_second * 1e6;
}

std::string BenchText(const BenchReport& report) {
  std::vector<std::vector<std::string>> rows = {{"dims", "time of", "median us", "p10", "p90",
                                                 "p99", "launches", "bytes", "GB/s", "flops",
                                                 "Gflop/s"}};
  std::string after;
  for (const Measurement& m : report.measurements) {
    if (report.on_gpu) {
      rows.push_back(TimeRow(m, "device", m.device_us));
      rows.push_back(
          TimeRow(m, "device, " + std::to_string(m.rotate) + " runs in a graph", m.together_us));
    }
    rows.push_back(TimeRow(m, report.on_gpu ? "call, " + HostMemory(report) : "call", m.call_us));
    if (m.throughput) {
      const Throughput& t = *m.throughput;
      const std::string contexts = Plural(t.contexts, "context");
      rows.push_back(TimeRow(m, "call, " + contexts, t.call_us));
      after += "\n  " + DimsText(m.dims) + ": " + Fixed(t.runs_per_second, 0) + " runs/s from " +
               contexts;
    }
    if (!m.steps.empty()) after += StepsText(report, m);
    if (!m.caches.empty()) after += CachesText(m);
  }
  std::string text = FormatTable(rows, "llrrrrrrrrr") + after;
  if (text.back() != '\n') text += "\n";
  if (!report.peaks.source.empty()) text += "\n  " + PeaksText(report.peaks) + "\n";
  return text;
}

std::string BenchJson(const BenchReport& report) {
  Json list = Json::array();
  for (const Measurement& m : report.measurements) {
    Json item = {{"device_us", SpreadJson(m.device_us)},
                 {"call_us", SpreadJson(m.call_us)},
                 {"launches", m.launches},
                 {"bytes", m.bytes},
                 {"flops", m.flops},
                 {"device", report.device},
                 {"dims", m.dims.empty() ? Json::object() : Json(m.dims)},
                 {"rotate", m.rotate},
                 {"ids", report.ids},
                 {"host_memory", HostMemory(report)}};
    if (report.on_gpu) item["device_together_us"] = SpreadJson(m.together_us);
    if (m.throughput) {
      item["throughput"] = {{"contexts", m.throughput->contexts},
                            {"runs_per_second", m.throughput->runs_per_second},
                            {"call_us", SpreadJson(m.throughput->call_us)}};
    }
    if (!m.steps.empty()) {
      item["peak"] = PeaksJson(report.peaks);
      for (const StepMeasurement& step : m.steps)
        item["kernels"].push_back(StepJson(step, report.peaks));
    }
    for (const CacheUse& cache : m.caches) item["caches"].push_back(CacheJson(cache));
    list.push_back(std::move(item));
  }
  return list.dump(1) + "\n";
}

std::string BenchTrace(const BenchReport& report) {
  Json events = Json::array();
  for (size_t process = 0; process < report.measurements.size(); ++process) {
    const Measurement& m = report.measurements[process];
    events.push_back(NameEvent("process_name", process, DimsText(m.dims)));
    events.push_back(NameEvent("thread_name", process, report.device));
    double start_us = 0;
    for (const StepMeasurement& step : m.steps) {
      events.push_back(TraceEvent(step, report.peaks, process, start_us));
      start_us += step.us.median;
    }
  }
  const std::string times = report.on_gpu ? "each kernel was timed alone, replayed on the model's "
                                            "buffers; the slices are the medians, laid out in order"
                                          : "each kernel was timed within whole runs; the slices "
                                            "are the medians, laid out in order";
  const Json trace = {{"traceEvents", events},
                      {"displayTimeUnit", "ns"},
                      {"otherData",
                       {{"device", report.device},
                        {"times", times},
                        {"peak", PeaksText(report.peaks)},
                        {"peaks", PeaksJson(report.peaks)}}}};
  return trace.dump(1) + "\n";
}

}  // namespace fusec
