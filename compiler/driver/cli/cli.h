#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/driver/artifact/random_flags.h"
#include "compiler/driver/build/model_flags.h"
#include "compiler/driver/edit/edit_flags.h"
#include "compiler/driver/verify/verify_flags.h"
#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

struct CompileOptions;

// The command line program: one struct of flags and one function per verb. Flags that another
// folder of the driver reads are declared there. Each function prints its results to stdout and
// everything else to stderr, and returns the exit code: 0, or 1 if a comparison failed. An error
// exits with the number of its ErrorKind, an interrupt with 130.

struct CompileFlags {
  std::string model, output;
  ModelFlags model_flags;
  std::vector<std::string> targets;
  std::vector<std::string> dims;  // "batch=1..4096"
  std::string cpu_level = "both";
  std::string dump_ir, dump_kernels;
  bool time_passes = false;
  bool tune = false;
};
Result<int> RunCompile(const CompileFlags& flags);
// The options that the flags ask for. Creates the folders of --dump-ir and --dump-kernels.
Result<CompileOptions> CompileOptionsOf(const CompileFlags& flags);

struct ShardFlags {
  CompileFlags compile;
  int64_t shards = 0;
  std::vector<std::string> plan_dims;  // "batch=2048"
  std::string profile;
  std::string wire = "f32";
  uint64_t shard_memory = 0;           // bytes; 0: no limit
  uint64_t replicate_below = 1 << 20;  // bytes of a table
  double row_gigabytes = 10, network_gigabits = 25, message_us = 50, dense_gigaflops = 100;
  bool json = false;
};
Result<int> RunShard(const ShardFlags& flags);

struct RunFlags {
  std::string artifact, device, output;
  std::vector<std::string> inputs;    // NAME=FILE, or FILE.npz
  std::vector<std::string> adapters;  // SLOT=PATH
  bool random = false;
  std::vector<std::string> dims;
  RandomFlags random_flags;
};
Result<int> RunRun(const RunFlags& flags);

Result<int> RunVerify(const VerifyFlags& flags);

// The most sets of inputs that runs of bench use in turn; each set has a CUDA graph of its own.
inline constexpr int kMostInputSets = 8;

struct BenchFlags {
  std::string artifact, device;
  std::vector<std::string> dims;
  std::vector<std::string> inputs;  // FILE.npz
  std::string output;
  std::string trace;  // a file to write
  double seconds = 1;
  int rotate = kMostInputSets;  // sets of random inputs
  int contexts = 0;             // contexts that run at the same time; 0: no throughput is measured
  int threads = 0;              // 0: the runtime's own choice
  RandomFlags random_flags;
  bool per_kernel = false, json = false;
  bool pageable = false;  // inputs of calls to a GPU are in pageable host memory
};
Result<int> RunBench(const BenchFlags& flags);

struct TuneFlags {
  std::string artifact, device;
  std::vector<std::string> dims;
  double time_limit_s = 60;
  bool table = false;
};
Result<int> RunTune(const TuneFlags& flags);

struct ExplainFlags {
  std::string artifact, kernel, target;
  std::string tensor;  // with `weights`: a pattern of names
  std::vector<std::string> dims;
  bool dot = false, ptx = false, weights = false, json = false;
};
Result<int> RunExplain(const ExplainFlags& flags);

struct ReportFlags {
  std::string artifact, output, target;
  std::vector<std::string> dims;
  std::string bench;  // a file that RunBench wrote
};
Result<int> RunReport(const ReportFlags& flags);

struct RefitFlags {
  std::string artifact, output, weights, model, exported_with;
  std::vector<std::string> freezes;
};
Result<int> RunRefit(const RefitFlags& flags);

struct SignFlags {
  std::string artifact, key;
};
Result<int> RunSign(const SignFlags& flags);

Result<int> RunEdit(const EditFlags& flags);
Result<int> RunRebuild(const RebuildFlags& flags);

struct OptFlags {
  std::string file, output;  // "-" reads stdin
  std::vector<std::string> passes;
};
Result<int> RunOpt(const OptFlags& flags);

Result<int> RunListOps(bool json);
Result<int> RunVersion();

// Returns the command that the arguments (without the program's name) ask for. If they ask for help
// or are wrong, the help or the error is printed here, and the returned function only gives the
// exit code.
std::function<Result<int>()> ParseCommandLine(ArrayRef<std::string> arguments);

}  // namespace fusec
