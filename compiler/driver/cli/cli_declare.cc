#include "compiler/driver/cli/cli_declare.h"

#include <charconv>
#include <cstdint>
#include <memory>

#include "compiler/driver/cli/cli.h"

namespace fusec {

// Flags that take one value and may be repeated; commas separate values where `delimiter` is one.
void AddRepeated(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                 const std::string& help, const std::string& type, char delimiter) {
  CLI::Option* option = app.add_option(name, values, help);
  option->allow_extra_args(false)->type_name(type);
  if (delimiter) option->delimiter(delimiter);
}

void AddDevice(CLI::App& app, std::string& device) {
  app.add_option("--device", device, "run on cpu, cuda or cuda:N (default: a GPU if there is one)")
      ->type_name("NAME")
      ->check([](const std::string& name) {
        const bool good = name == "cpu" || name == "cuda" ||
                          (name.rfind("cuda:", 0) == 0 && name.size() > 5 &&
                           name.find_first_not_of("0123456789", 5) == std::string::npos);
        return good ? std::string() : "\"" + name + "\" is none of cpu, cuda, cuda:N";
      });
}

void AddModelFlags(CLI::App& app, ModelFlags& flags) {
  AddRepeated(app, "--freeze", flags.freezes, "make an input a constant (.npy or .pb)",
              "NAME=FILE");
  app.add_option(
         "--matmul-precision", flags.matmul_precision,
         "arithmetic of f32 products: highest (f32, the default), high (TF32), medium (bf16)")
      ->type_name("WORD")
      ->check(CLI::IsMember({"highest", "high", "medium"}));
  app.add_option("--index-policy", flags.index_policy,
                 "what an id outside its table means: error (the run fails and names the id, the "
                 "default), clamp (the nearest row), wrap (the id modulo the rows), zero (a row of "
                 "zeros)")
      ->type_name("WORD")
      ->check(CLI::IsMember({"error", "clamp", "wrap", "zero"}));
  AddRepeated(app, "--disable-fusion", flags.disabled_fusions,
              "switch off a fusion or a rewrite of weights (fusec opt --passes=help lists them)",
              "NAME", ',');
  app.add_flag(
      "--keep-lora", flags.keep_lora,
      "keep LoRA adapters as layers of their own instead of merging them into the weights");
  app.add_flag("--round-every-op", flags.round_every_op,
               "round f16 and bf16 values after every op, as unfused ops would, instead of only "
               "where a kernel stores; weights then stay unmerged");
}

void AddRandomFlags(CLI::App& app, RandomFlags& flags) {
  app.add_option("--seed", flags.seed, "seed of the random data (default: 0)")
      ->type_name("N")
      ->check([](const std::string& text) {
        uint64_t seed = 0;
        const char* end = text.data() + text.size();
        const auto [read, error] = std::from_chars(text.data(), end, seed);
        const bool good = error == std::errc() && read == end;
        return good ? std::string() : text + " is no whole number from 0 to 2^64 - 1";
      });
  app.add_option(
         "--ids", flags.ids,
         "how random ids spread over a table: uniform (the default), or zipf (skewed: a few ids "
         "dominate)")
      ->type_name("WORD")
      ->check(CLI::IsMember({"uniform", "zipf"}));
}

Command DeclareTune(CLI::App& app) {
  auto flags = std::make_shared<TuneFlags>();
  app.description(
      "Measures on this machine the kernels that can compute each part of an artifact, and builds "
      "the artifact again\n"
      "with the fastest. Times are kept in the kernel cache, so that equal parts of other models "
      "need no measuring.");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  AddRepeated(app, "--dim", flags->dims,
              "sizes of a symbolic dim to measure at (default: 1,16,128,1024,4096; if "
              "there are several dims, these are their product)",
              "NAME=SIZE,...");
  app.add_option("--time-limit", flags->time_limit_s,
                 "start no measurement after S seconds (default: 60); the next call continues from "
                 "there")
      ->type_name("S")
      ->check(CLI::Range(0.0, 86400.0));
  AddDevice(app, flags->device);
  app.add_flag("--table", flags->table, "print every kernel that was measured, with its time");
  app.footer("example: fusec tune dlrm --dim batch=1,128,2048 --table");
  return [flags] { return RunTune(*flags); };
}

Command DeclareRefit(CLI::App& app) {
  auto flags = std::make_shared<RefitFlags>();
  app.description(
      "Writes an artifact again with other weights: those of the same model after more training. "
      "Kernels, tuning and edits\n"
      "stay; the result is what compiling the model with these weights would give. Programs that "
      "run the artifact take it with\n"
      "fusec_update_weights, or model.update_weights in Python, between two of their runs.");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  app.add_option("--weights", flags->weights,
                 "the model with new weights, or tensors that replace the initializers of their "
                 "names in --model (those that are not there stay as --model has them)")
      ->required()
      ->type_name("MODEL.onnx|FILE.safetensors");
  app.add_option("--model", flags->model, "with a .safetensors file: the model it belongs to")
      ->type_name("MODEL.onnx");
  AddRepeated(app, "--freeze", flags->freezes,
              "the tensor of an input that was frozen when the artifact was compiled", "NAME=FILE");
  app.add_option("-o,--output", flags->output, "the folder to write (default: OUT itself)")
      ->type_name("OUT2");
  app.footer(
      "example: fusec refit ranker --weights ranker.monday.onnx -o ranker.monday\n"
      "         fusec refit ranker --weights monday.safetensors --model ranker.onnx");
  return [flags] { return RunRefit(*flags); };
}

Command DeclareEdit(CLI::App& app) {
  auto flags = std::make_shared<EditFlags>();
  app.description(
      "Copies the code of kernels into the folder OUT.edit, where you edit it: KERNEL.cu for a "
      "GPU, "
      "and kernels.cc with\n"
      "all kernels for the CPU. On a terminal, the editor of $VISUAL or $EDITOR opens them. Copies "
      "that are there stay as\n"
      "they are. The launch of a kernel stands in its header comment behind \"launch  :\", and is "
      "edited there, too; dynamic\n"
      "shared memory is added at its end as \", 4096 bytes of dynamic shared memory\".");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  CLI::Option* kernels =
      app.add_option("KERNEL", flags->kernels, "the kernels (default: all)")->type_name("");
  app.add_option("--from", flags->from, "take edited files from this folder instead")
      ->type_name("DIR")
      ->excludes(kernels);
  app.add_option("--copy", flags->copy, "the folder to copy to (default: OUT.edit)")
      ->type_name("DIR");
  app.footer("example: fusec edit dlrm k01_linear_relu && fusec rebuild dlrm");
  return [flags] { return RunEdit(*flags); };
}

Command DeclareRebuild(CLI::App& app) {
  auto flags = std::make_shared<RebuildFlags>();
  app.description(
      "Compiles the kernels whose code was edited, in OUT.edit (fusec edit) or in OUT itself, for "
      "every target that has\n"
      "them. Then it compares each of them alone with its unfused ops in double precision, as "
      "verify --per-fusion does,\n"
      "and times it beside the original. OUT stays as it was, and the exit code is 1, if an answer "
      "differs by more than\n"
      "its tolerance. Kernels for a GPU are checked where there is one. OUT/original keeps the "
      "files "
      "that edits replace;\n"
      "the original of a kernel that was edited in OUT itself is generated again from the graph in "
      "OUT/ir.");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  CLI::Option* edits =
      app.add_option("--edits", flags->edits, "the folder of edited files (default: OUT.edit)")
          ->type_name("DIR");
  CLI::Option* keep = app.add_flag("--keep-wrong", flags->keep_wrong,
                                   "take the edits into OUT even if their check fails");
  app.add_flag("--restore", flags->restore, "take the original kernels back; OUT.edit stays")
      ->excludes(edits)
      ->excludes(keep);
  AddRepeated(app, "--dim", flags->dims,
              "sizes of a symbolic dim to check and time at (default: check at 1,2,5,64 and at "
              "several blocks, time at 64)",
              "NAME=SIZE,...");
  AddRandomFlags(app, flags->random_flags);
  AddDevice(app, flags->device);
  app.get_option("--device")
      ->description("check and time only on cpu, cuda or cuda:N (default: on each that is here)");
  app.footer(
      "example: fusec rebuild dlrm --dim batch=1,128\n"
      "         fusec rebuild dlrm --restore");
  return [flags] { return RunRebuild(*flags); };
}

}  // namespace fusec
