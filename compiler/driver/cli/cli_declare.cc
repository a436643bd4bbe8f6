#include "compiler/driver/cli/cli_declare.h"

#include <memory>

#include "compiler/driver/cli/cli.h"
#include "compiler/driver/cli/cli_flags.h"

namespace fusec {

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

Command DeclareShard(CLI::App& app) {
  auto flags = std::make_shared<ShardFlags>();
  app.description(
      "Compiles a model whose embedding tables are spread over several machines or GPUs. OUT gets "
      "an "
      "artifact for each\n"
      "shard (shard_0, shard_1, ...), which answers the look-ups in its tables, and one for all "
      "the "
      "rest (dense). OUT itself\n"
      "is loaded like any artifact and runs all of them in one process; fusec.serve in Python runs "
      "them on several.");
  app.add_option("MODEL.onnx", flags->compile.model, "the model")->required()->type_name("");
  app.add_option("--shards", flags->shards, "how many there are")
      ->required()
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  app.add_option("-o,--output", flags->compile.output, "the folder to write")
      ->required()
      ->type_name("OUT");
  app.add_option(
         "--profile", flags->profile,
         "ids of real requests, an array for each input: tables are put and cut by the rows "
         "that these look up (default: as if every row were as likely)")
      ->type_name("FILE.npz");
  AddRepeated(app, "--plan-dim", flags->plan_dims,
              "size of a symbolic dim that the plan is made for (default: 1024)", "NAME=SIZE");
  app.add_option("--wire", flags->wire,
                 "how f32 rows and sums cross from shards: f32 (the default), rounded to f16 or "
                 "bf16, or int8 with a scale for each row")
      ->type_name("WORD")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8"}));
  app.add_option("--shard-memory", flags->shard_memory,
                 "most bytes of tables on a shard, as in 16GB (default: no limit)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false));
  app.add_option(
         "--replicate-below", flags->replicate_below,
         "tables of at most this size stay in the dense part, which every replica of it has "
         "(default: 1MB)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--row-bandwidth", flags->row_gigabytes,
                 "GB/s with which a shard reads rows of random ids, for the plan (default: 10)")
      ->type_name("X")
      ->check(CLI::PositiveNumber);
  app.add_option("--network-bandwidth", flags->network_gigabits,
                 "Gbit/s into or out of a machine, for the plan (default: 25)")
      ->type_name("X")
      ->check(CLI::PositiveNumber);
  app.add_option("--message-time", flags->message_us,
                 "us of a request to a shard and its answer beside their bytes, for the plan "
                 "(default: 50)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--dense-gflops", flags->dense_gigaflops,
                 "GFLOP/s of a replica of the dense part, for the plan (default: 100)")
      ->type_name("X")
      ->check(CLI::PositiveNumber);
  AddBuildFlags(app, flags->compile);
  app.add_flag("--json", flags->json, "print the plan as JSON, as OUT/manifest.json has it");
  app.footer(
      "example: fusec shard ranker.onnx --shards 4 --profile ids.npz --shard-memory 64GB -o "
      "ranker\n"
      "         fusec explain ranker && fusec run ranker --random --output out");
  return [flags] { return RunShard(*flags); };
}

Command DeclareSign(CLI::App& app) {
  auto flags = std::make_shared<SignFlags>();
  app.description(
      "Signs an artifact with an OpenSSH key: OUT/SHA256SUMS lists its files, and "
      "OUT/SHA256SUMS.sig is the signature.\n"
      "A runtime whose environment names those who may sign, in FUSEC_ALLOWED_SIGNERS, loads "
      "nothing else. Whatever changes\n"
      "the artifact later (refit, tune, rebuild) takes the signature's worth away: sign it again.");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  app.add_option("--key", flags->key,
                 "the private key, or the public one if an agent holds the private one")
      ->required()
      ->type_name("FILE");
  app.footer(
      "example: fusec sign ranker --key ~/.ssh/id_ed25519\n"
      "         echo \"ann@example.org $(cat ~/.ssh/id_ed25519.pub)\" > signers\n"
      "         FUSEC_ALLOWED_SIGNERS=signers fusec run ranker --random --output out");
  return [flags] { return RunSign(*flags); };
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
  app.add_flag(
      "--json", flags->json,
      "print JSON, for scripts: result, pass, kernels[], checks[] with outputs[] and times[], "
      "not_checked[]");
  app.footer(
      "example: fusec rebuild dlrm --dim batch=1,128\n"
      "         fusec rebuild dlrm --restore");
  return [flags] { return RunRebuild(*flags); };
}

}  // namespace fusec
