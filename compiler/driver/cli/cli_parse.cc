#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "compiler/driver/cli/cli.h"
#include "compiler/driver/cli/cli_declare.h"
#include "compiler/driver/cli/cli_flags.h"
#include "compiler/support/adt.h"
#include "compiler/support/nearest_name.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

constexpr const char* kOverview =
    R"(fusec compiles DLRM- and LoRA-style ONNX models into fused CUDA C and runs them.

usage: fusec MODEL.onnx -o OUT          compile a model into the folder OUT (an artifact)
       fusec run OUT                    run it on files or on random data
       fusec verify MODEL.onnx|OUT      compare its answers with the interpreter and onnxruntime
       fusec bench OUT                  measure how long it takes
       fusec tune OUT                   choose its kernels by timing them on this machine
       fusec explain OUT                show its kernels, and what was not fused and why
       fusec report OUT -o FILE.html    write an HTML page that shows its kernels
       fusec refit OUT --weights FILE   replace its weights, without compiling kernels again
       fusec shard MODEL.onnx -o OUT    compile a model with its tables spread over machines
       fusec edit OUT [KERNEL]          copy kernels into a folder where you can edit them
       fusec rebuild OUT                compile, check and time edited kernels, or undo the edits
       fusec sign OUT --key FILE        sign it, for runtimes that load only signed artifacts
       fusec opt FILE.ir --passes=A,B   run compiler passes on a graph in text form (IR)
       fusec --list-ops [--json]        list every supported operator
       fusec --version                  print versions, and which parts of CUDA were found

fusec VERB -h lists the flags of a verb. The first line is short for fusec compile MODEL.onnx -o
OUT; fusec compile -h lists its flags.

exit codes: 0 success, 1 a comparison failed, 2 bad usage, 3 bad or unsupported model, 4 device or
toolchain missing, 5 damaged artifact, 6 bad input data, 70 a bug in fusec, 130 interrupted

example: fusec models/dlrm_dot.ts.onnx -o dlrm && fusec run dlrm --random --output out
)";

Command Done(int code) {
  return [code]() -> Result<int> { return code; };
}

using Declare = Command (*)(CLI::App& app);

Command DeclareCompile(CLI::App& app) {
  auto flags = std::make_shared<CompileFlags>();
  app.description(
      "Compiles an ONNX model into a folder, the artifact, which `fusec run` and the runtime "
      "execute.");
  app.add_option("MODEL.onnx", flags->model, "the model")->required()->type_name("");
  app.add_option("-o,--output", flags->output, "the folder to write")->required()->type_name("OUT");
  AddBuildFlags(app, *flags);
  app.add_option("--dump-ir", flags->dump_ir, "write the graph after every pass that changed it")
      ->type_name("DIR");
  app.add_option("--dump-kernels", flags->dump_kernels, "write the generated .cu files")
      ->type_name("DIR");
  app.add_flag("--time-passes", flags->time_passes, "print on stderr how long each pass took");
  app.add_flag("--tune", flags->tune,
               "choose kernels by timing them on this machine, as fusec tune does");
  app.footer(
      "example: fusec models/dlrm_dot.ts.onnx -o dlrm --target cpu,sm_90a --dim batch=1..4096");
  return [flags] { return RunCompile(*flags); };
}

Command DeclareRun(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  app.description(
      "Runs an artifact once, on files or on random data, and prints a summary of every output.\n"
      "With --output DIR, it writes each output to DIR/NAME.npy.");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  AddRepeated(app, "--input", flags->inputs,
              "the data of one input (.npy or .pb), or of all inputs (.npz)", "NAME=FILE|FILE.npz");
  app.add_flag("--random", flags->random, "fill the inputs that have no file with random data");
  AddRepeated(
      app, "--adapter", flags->adapters,
      "load a LoRA adapter (a folder or file that PEFT saved) into a slot before the run; for an "
      "artifact that was compiled with --adapters",
      "SLOT=PATH");
  AddRepeated(app, "--dim", flags->dims, "with --random: size of a symbolic dim (default: 64)",
              "NAME=SIZE");
  AddRandomFlags(app, flags->random_flags);
  app.add_option("--output", flags->output,
                 "write the outputs to this folder (default: they are not written)")
      ->type_name("DIR");
  AddDevice(app, flags->device);
  app.footer("example: fusec run dlrm --input in0=dense.npy --input in1=ids.npy --output out");
  return [flags] { return RunRun(*flags); };
}

Command DeclareVerify(CLI::App& app) {
  auto flags = std::make_shared<VerifyFlags>();
  app.description(
      "Compares the answers of an artifact, or of a model that it compiles first, with those of\n"
      "an interpreter that computes in double precision. It also compares them with onnxruntime\n"
      "if it finds a python3 that has it (FUSEC_PYTHON names one). The exit code is 1 if an\n"
      "answer differs by more than its tolerance.");
  app.add_option("MODEL.onnx|OUT", flags->subject, "a model, or an artifact")
      ->required()
      ->type_name("");
  app.add_option("--model", flags->model, "the model that the artifact was made from")
      ->type_name("MODEL.onnx");
  AddRepeated(app, "--dim", flags->dims,
              "sizes of a symbolic dim, tried in this order (default: 1,2,5,64)", "NAME=SIZE,...");
  app.add_option("--inputs", flags->inputs, "use this input data instead of random data")
      ->type_name("FILE.npz");
  AddRandomFlags(app, flags->random_flags);
  AddModelFlags(app, flags->model_flags);
  app.add_option("--drift-bound", flags->drift_bound,
                 "with --table-storage: fail if an output differs by more than X from that of the "
                 "model with its own tables (default: the difference is only reported)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--labels", flags->labels,
                 "with --table-storage and --inputs: the true class of every score (.npy of 0 and "
                 "1), to report how the AUC changes")
      ->type_name("FILE.npy");
  AddDevice(app, flags->device);
  CLI::Option* per_fusion =
      app.add_flag("--per-fusion", flags->per_fusion,
                   "compare every kernel alone with its unfused ops; needs no --model");
  CLI::Option* json = app.add_flag("--json", flags->json, "print JSON, for scripts");
  app.add_flag(
         "--bisect", flags->bisect,
         "find the kernel or the pass that makes an answer wrong, and the flag that avoids it")
      ->excludes(per_fusion)
      ->excludes(json);
  app.add_flag(
         "--special-values", flags->special_values,
         "put special values into about every second row of the inputs: with NaN, denormals and "
         "zeros of both signs, every element is compared; with infinities and the greatest finite "
         "numbers, only elements that do not depend on them")
      ->excludes(per_fusion)
      ->excludes("--bisect")
      ->excludes("--drift-bound")
      ->excludes("--labels");
  app.footer(
      "example: fusec verify models/lora_mlp.ts.onnx --dim batch=1,64\n"
      "         fusec verify lora --per-fusion --device cuda\n"
      "         fusec verify lora --model models/lora_mlp.ts.onnx --bisect");
  return [flags] { return RunVerify(*flags); };
}

Command DeclareBench(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  app.description(
      "Measures how long an artifact takes on random or given data. It times whole calls of one\n"
      "context, from inputs in host memory to outputs in host memory. On a GPU it also times the\n"
      "device alone, in two ways: with a CUDA graph of one run, and with one CUDA graph that runs\n"
      "every set of inputs. Calls to a GPU read page-locked inputs (fusec_allocate_host) and\n"
      "leave their outputs in memory of the context.");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  AddRepeated(app, "--dim", flags->dims, "sizes of a symbolic dim to measure (default: 64)",
              "NAME=SIZE,...");
  AddRepeated(app, "--inputs", flags->inputs,
              "use this input data instead of random data: up to 8 files per size, which runs use "
              "in turn",
              "FILE.npz");
  app.add_option("--output", flags->output,
                 "write the outputs of each size's first inputs to DIR/0, DIR/1, ...")
      ->type_name("DIR");
  app.add_option("--seconds", flags->seconds, "how long each measurement takes (default: 1)")
      ->type_name("S")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option(
         "--rotate", flags->rotate,
         "number of sets of random inputs, which runs use in turn, so that look-ups do not find "
         "their rows in a warm cache (default: 8)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostInputSets));
  app.add_option("--contexts", flags->contexts,
                 "also measure the throughput of N contexts that run at the same time, each in a "
                 "thread of its own")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--pageable", flags->pageable,
               "use inputs in ordinary (pageable) host memory instead of page-locked memory");
  app.add_flag("--per-kernel", flags->per_kernel,
               "also time every kernel, and compare it with the device's peak bandwidth and flops");
  app.add_option(
         "--trace", flags->trace,
         "write every kernel's time to a file in Chrome's trace format, which Perfetto opens")
      ->type_name("FILE");
  app.add_option("--threads", flags->threads, "CPU threads of a run (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  AddRandomFlags(app, flags->random_flags);
  AddDevice(app, flags->device);
  app.add_flag("--json", flags->json,
               "print JSON, for scripts: a list with an entry for every size");
  app.footer("example: fusec bench dlrm --dim batch=1,128,2048");
  return [flags] { return RunBench(*flags); };
}

Command DeclareExplain(CLI::App& app) {
  auto flags = std::make_shared<ExplainFlags>();
  app.description(
      "Shows the kernels that an artifact launches, what was fused into each of them, and what\n"
      "was not fused and why.");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  CLI::Option* kernel = app.add_option("--kernel", flags->kernel,
                                       "show one kernel: its ONNX nodes, its IR and its code")
                            ->type_name("NAME");
  app.add_option("--target", flags->target,
                 "explain the kernels of this target: cpu, sm_90a, ... (default: a GPU)")
      ->type_name("NAME");
  AddRepeated(app, "--dim", flags->dims,
              "size of a symbolic dim, for which bytes and flops are shown (default: 128)",
              "NAME=SIZE");
  CLI::Option* dot =
      app.add_flag("--dot", flags->dot,
                   "print the graph as Graphviz text with one cluster per kernel, for dot -Tsvg");
  CLI::Option* ptx = app.add_flag("--ptx", flags->ptx,
                                  "show registers, spills, shared memory, occupancy and "
                                  "instructions of every GPU kernel")
                         ->excludes(dot)
                         ->excludes(kernel);
  CLI::Option* weights =
      app.add_flag("--weights", flags->weights,
                   "show what each stored tensor was made of, and where each initializer went")
          ->excludes(dot)
          ->excludes(kernel)
          ->excludes(ptx);
  app.add_option("--tensor", flags->tensor,
                 "with --weights: only initializers and tensors whose names match a pattern, such "
                 "as 'layers.*.weight'")
      ->type_name("PATTERN")
      ->needs(weights);
  app.add_flag("--json", flags->json, "print JSON, for scripts")->excludes(dot)->excludes(kernel);
  dot->excludes(kernel);
  app.footer(
      "example: fusec explain dlrm --kernel k01_linear_relu\n"
      "         fusec explain dlrm --dot | dot -Tsvg -o dlrm.svg\n"
      "         fusec explain dlrm --ptx --target sm_90a\n"
      "         fusec explain dlrm --weights --tensor 'top.*'");
  return [flags] { return RunExplain(*flags); };
}

Command DeclareReport(CLI::App& app) {
  auto flags = std::make_shared<ReportFlags>();
  app.description(
      "Writes one HTML file, which works without a network. It draws the model as a graph with\n"
      "its ONNX nodes inside the kernels that they became, says which tensors still cross memory\n"
      "between kernels and why, and shows each kernel's IR, code, bytes and flops.\n"
      "With --bench, it also shows measured times.");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  app.add_option("-o,--output", flags->output, "the page to write")
      ->required()
      ->type_name("FILE.html");
  app.add_option("--target", flags->target,
                 "show the kernels of this target: cpu, sm_90a, ... (default: the one that --bench "
                 "measured, or a GPU)")
      ->type_name("NAME");
  AddRepeated(app, "--dim", flags->dims,
              "size of a symbolic dim, for which bytes and flops are shown (default: the last one "
              "of --bench, or 128)",
              "NAME=SIZE");
  app.add_option("--bench", flags->bench,
                 "show the times in this file, the output of `fusec bench OUT --per-kernel --json` "
                 "or a file of `fusec bench OUT --trace`")
      ->type_name("FILE.json");
  app.footer(
      "example: fusec report dlrm -o dlrm.html\n"
      "         fusec bench dlrm --per-kernel --json >times.json && fusec report dlrm --bench "
      "times.json -o dlrm.html");
  return [flags] { return RunReport(*flags); };
}

Command DeclareOpt(CLI::App& app) {
  auto flags = std::make_shared<OptFlags>();
  app.description("Runs compiler passes on a graph in text form (IR) and prints the result.");
  app.add_option("FILE.ir", flags->file, "the graph; - reads it from stdin")->type_name("");
  AddRepeated(app, "--passes", flags->passes,
              "the passes to run, in order; --passes=help lists them", "A,B,...", ',');
  app.get_option("--passes")->required();
  app.add_option("-o,--output", flags->output, "write the result to this file (default: stdout)")
      ->type_name("FILE");
  app.footer(
      "example: fusec opt dump/07-canonicalize.ir --passes=fuse-row-reduction,fuse-pointwise");
  return [flags] { return RunOpt(*flags); };
}

Command DeclareOverview(CLI::App& app) {
  struct Flags {
    bool list_ops = false, version = false, json = false;
  };
  auto flags = std::make_shared<Flags>();
  app.add_flag("--list-ops", flags->list_ops);
  app.add_flag("--version", flags->version);
  app.add_flag("--json", flags->json);
  return [flags] { return flags->version ? RunVersion() : RunListOps(flags->json); };
}

struct Verb {
  const char* name;
  Declare declare;
};
constexpr Verb kVerbs[] = {
    {"compile", &DeclareCompile}, {"run", &DeclareRun},     {"verify", &DeclareVerify},
    {"bench", &DeclareBench},     {"tune", &DeclareTune},   {"explain", &DeclareExplain},
    {"report", &DeclareReport},   {"refit", &DeclareRefit}, {"edit", &DeclareEdit},
    {"rebuild", &DeclareRebuild}, {"sign", &DeclareSign},   {"shard", &DeclareShard},
    {"opt", &DeclareOpt}};

// The text of a parse error. CLI11 reports missing arguments first, but the cause is mostly an
// option whose name is unknown, so that one is reported if there is one.
std::string Problem(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining();
  if (unknown.empty()) return error.what();
  for (const std::string& argument : unknown) {
    if (!argument.starts_with('-')) continue;
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    const std::string name = argument.substr(0, argument.find('='));
    return "there is no option " + name + DidYouMean(name, names);
  }
  return "unexpected argument \"" + unknown[0] + "\"";
}

Command Parse(const std::string& name, Declare declare, std::vector<std::string> arguments) {
  CLI::App app("", name);
  app.get_formatter()->column_width(34);
  const Command command = declare(app);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes arguments in reverse order
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return Done(0);
  } catch (const CLI::ParseError& error) {
    PrintError(Problem(app, error) + " (see " + name + " -h)");
    return Done(static_cast<int>(ErrorKind::kUsage));
  }
  return command;
}

}  // namespace

std::function<Result<int>()> ParseCommandLine(ArrayRef<std::string> arguments) {
  if (arguments.empty()) {
    std::fputs(kOverview, stderr);
    return Done(static_cast<int>(ErrorKind::kUsage));
  }
  if (arguments[0] == "-h" || arguments[0] == "--help" || arguments[0] == "help") {
    std::fputs(kOverview, stdout);
    return Done(0);
  }
  for (const Verb& verb : kVerbs) {
    if (arguments[0] != verb.name) continue;
    return Parse(std::string("fusec ") + verb.name, verb.declare,
                 {arguments.begin() + 1, arguments.end()});
  }
  const bool is_overview =
      std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
        return argument == "--list-ops" || argument == "--version";
      });
  if (is_overview) return Parse("fusec", &DeclareOverview, arguments);
  if (arguments[0].find_first_of("./-") == std::string::npos &&
      !std::filesystem::exists(arguments[0])) {
    std::vector<std::string> verbs;
    for (const Verb& verb : kVerbs) verbs.push_back(verb.name);
    PrintError("\"" + arguments[0] + "\" is neither a verb" + DidYouMean(arguments[0], verbs) +
               " nor a file (see fusec -h)");
    return Done(static_cast<int>(ErrorKind::kUsage));
  }
  return Parse("fusec compile", &DeclareCompile, arguments);
}

}  // namespace fusec
