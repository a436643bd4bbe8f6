#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/explain/explanation.h"
#include "compiler/driver/explain/ptx_summary.h"
#include "compiler/driver/report/bench_file.h"
#include "compiler/support/result.h"

namespace fusec {

// Everything that a report shows of an artifact.
struct ReportContents {
  Explanation explanation;
  std::vector<KernelResources> resources;  // resources of kernels, for a GPU target
  std::vector<MeasuredRun> runs;           // measurements at all sizes
  std::optional<MeasuredRun> measured;     // measurements at the explained sizes
};

// `bench`, if it is not "", is a file that `fusec bench` wrote. The defaults of dims and target are
// then the last sizes that were measured, and the target on which they were measured.
Result<ReportContents> ReadReport(const std::string& artifact, const std::string& target,
                                  ArrayRef<std::string> dim_flags, const std::string& bench);

// The report as one JSON document. It has the keys of ExplanationJson, and adds
//
//   opset
//   nodes     [{name, op, module, line}]: the ONNX nodes from which kernels were made
//   values    [{name, label (the user's name), type, bytes, kind: "input"|"weight"|"memory",
//             outputs: [user's names], producer (kernel), readers: [kernel]}]
//   kernels   each with body: [{op, value, type, nodes, from: [place in the body],
//             reads: [value], line (of ir)}], writes: [{value, from}], source,
//             other_sizes: [{name, launch, source}], measured {us, p99_us}, ptx
//   not_fused each with value, from and to (kernels)
//   ir        {file, text, links: {line: [kernel, place in the body]}, values: {line: value}}
//   sources   [{file, function, parts: [text], ops: {line: [place in the body]}}]
//   texts     [parts of sources]
//   peaks     {bytes_per_second, f32_per_second, tf32_per_second, f16_per_second, source}
//   runs      [{device, dims, device_us, call_us}]
//
// where kernels, nodes, values, sources, texts and lines are referred to by their indices in these
// lists, from 0. "place in the body" is the index of an op in the kernel's list `body`.
Result<std::string> ReportJson(const std::string& artifact, const ReportContents& contents);

// The page: one HTML file that contains the document, the scripts and the styles.
std::string ReportPage(const Explanation& explanation, const std::string& json);

// "38 ONNX nodes became 5 kernels; 12.4 MB of memory traffic became 3.1 MB".
std::string Headline(const Explanation& explanation);

}  // namespace fusec
