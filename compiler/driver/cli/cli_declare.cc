#include "compiler/driver/cli/cli_declare.h"

#include <memory>

#include "compiler/driver/cli/cli.h"
#include "compiler/driver/cli/cli_flags.h"

namespace fusec {

Command DeclareTune(CLI::App& app) {
  auto flags = std::make_shared<TuneFlags>();
  app.description(
      "Times on this machine the kernels that can compute each part of an artifact, and builds\n"
      "the artifact again with the fastest ones. Times are kept in the kernel cache, so that a\n"
      "part that another model has as well is not measured again.");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  AddRepeated(app, "--dim", flags->dims,
              "sizes of a symbolic dim to measure at (default: 1,16,128,1024,4096; several dims "
              "without this flag get equal sizes whose product is about these)",
              "NAME=SIZE,...");
  app.add_option("--time-limit", flags->time_limit_s,
                 "start no measurement after S seconds (default: 60); another fusec tune continues "
                 "from there")
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
      "Writes an artifact again with other weights, such as those of the same model after more\n"
      "training. Kernels, tuning and edits stay; the result is what compiling the model with\n"
      "these weights would give. A program that is running the artifact can load the new weights\n"
      "between two runs, with fusec_update_weights (in Python: model.update_weights).");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  app.add_option("--weights", flags->weights,
                 "the model with new weights, or a .safetensors file (or the .index.json of "
                 "several) whose tensors replace the initializers of the same names in --model "
                 "(initializers that the file lacks keep the values of --model)")
      ->required()
      ->type_name("MODEL.onnx|FILE.safetensors");
  app.add_option("--model", flags->model, "with a .safetensors file: the model it belongs to")
      ->type_name("MODEL.onnx");
  app.add_option(
         "--exported-with", flags->exported_with,
         "with a .safetensors file: the values of the same tensors when --model was exported, "
         "by which those are found that the exporter renamed, transposed or rounded")
      ->type_name("OLD.safetensors");
  AddRepeated(app, "--freeze", flags->freezes,
              "the tensor of an input that was frozen when the artifact was compiled", "NAME=FILE");
  app.add_option("-o,--output", flags->output, "the folder to write (default: OUT itself)")
      ->type_name("OUT2");
  app.footer(
      "example: fusec refit ranker --weights ranker.monday.onnx -o ranker.monday\n"
      "         fusec refit ranker --weights monday.safetensors --model ranker.onnx \\\n"
      "           --exported-with sunday.safetensors");
  return [flags] { return RunRefit(*flags); };
}

Command DeclareShard(CLI::App& app) {
  auto flags = std::make_shared<ShardFlags>();
  app.description(
      "Compiles a model so that its embedding tables are spread over several machines or GPUs.\n"
      "OUT contains one artifact for each shard (shard_0, shard_1, ...), which answers the\n"
      "look-ups in its tables, and one for the rest of the model (dense). OUT itself is loaded\n"
      "like any artifact and runs all of them in one process; fusec.serve in Python runs them on\n"
      "several machines.");
  app.add_option("MODEL.onnx", flags->compile.model, "the model")->required()->type_name("");
  app.add_option("--shards", flags->shards, "number of shards")
      ->required()
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  app.add_option("-o,--output", flags->compile.output, "the folder to write")
      ->required()
      ->type_name("OUT");
  app.add_option(
         "--profile", flags->profile,
         "ids of real requests, one array for each input: tables are placed and split by how often "
         "these ids look up their rows (default: as if all rows were equally likely)")
      ->type_name("FILE.npz");
  AddRepeated(app, "--plan-dim", flags->plan_dims,
              "size of a symbolic dim for which the plan is made (default: 1024)", "NAME=SIZE");
  app.add_option("--wire", flags->wire,
                 "format in which shards send f32 rows and sums: f32 (the default), f16 or bf16 "
                 "(rounded), or int8 with a scale for each row")
      ->type_name("WORD")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8"}));
  app.add_option("--shard-memory", flags->shard_memory,
                 "limit on the bytes of the tables of one shard, such as 16GB (default: no limit)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false));
  app.add_option(
         "--replicate-below", flags->replicate_below,
         "tables of at most this size stay in the dense part, so that every replica of it has them "
         "(default: 1MB)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--row-bandwidth", flags->row_gigabytes,
                 "for the plan: bandwidth with which a shard reads rows of random ids, in GB/s "
                 "(default: 10)")
      ->type_name("X")
      ->check(CLI::PositiveNumber);
  app.add_option("--network-bandwidth", flags->network_gigabits,
                 "for the plan: bandwidth into or out of a machine, in Gbit/s (default: 25)")
      ->type_name("X")
      ->check(CLI::PositiveNumber);
  app.add_option("--message-time", flags->message_us,
                 "for the plan: fixed time of a request to a shard and its answer, in us, which is "
                 "added to the time that their bytes take (default: 50)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--dense-gflops", flags->dense_gigaflops,
                 "for the plan: speed of one replica of the dense part, in GFLOP/s (default: 100)")
      ->type_name("X")
      ->check(CLI::PositiveNumber);
  AddBuildFlags(app, flags->compile);
  app.add_flag("--json", flags->json, "print the plan as JSON, as it is in OUT/manifest.json");
  app.footer(
      "example: fusec shard ranker.onnx --shards 4 --profile ids.npz --shard-memory 64GB -o "
      "ranker\n"
      "         fusec explain ranker && fusec run ranker --random --output out");
  return [flags] { return RunShard(*flags); };
}

Command DeclareSign(CLI::App& app) {
  auto flags = std::make_shared<SignFlags>();
  app.description(
      "Signs an artifact with an OpenSSH key: OUT/SHA256SUMS lists the hashes of its files, and\n"
      "OUT/SHA256SUMS.sig is the signature. Where the environment variable FUSEC_ALLOWED_SIGNERS\n"
      "names a file of allowed signers, the runtime loads only artifacts that one of them signed.\n"
      "Changing the artifact later (refit, tune, rebuild) invalidates the signature: sign it "
      "again.");
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
      "Copies the code of kernels into the folder OUT.edit, where you edit it: KERNEL.cu for each\n"
      "kernel of a GPU, and kernels.cc with all kernels of the CPU. On a terminal, the copies are\n"
      "opened in the editor that $VISUAL or $EDITOR names. Existing copies are left as they are.\n"
      "The launch of a kernel (grid and block size) is the line \"launch  :\" of its header\n"
      "comment. It can be edited, too: append \", 4096 bytes of dynamic shared memory\" to give\n"
      "the kernel dynamic shared memory.");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  CLI::Option* kernels =
      app.add_option("KERNEL", flags->kernels, "the kernels to copy (default: all)")->type_name("");
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
      "Compiles the kernels whose code was edited, in OUT.edit (see fusec edit) or in OUT itself,\n"
      "for every target that has them. It then compares each of them alone with its unfused ops\n"
      "in double precision, as fusec verify --per-fusion does, and times it beside the original.\n"
      "If an answer differs by more than its tolerance, OUT stays as it was and the exit code\n"
      "is 1. Kernels of a GPU are checked only if this machine has a GPU that can run them.\n"
      "OUT/original keeps the files that edits replace; the original of a kernel that was edited\n"
      "in OUT itself is generated again from the graph in OUT/ir.");
  app.add_option("OUT", flags->artifact, "the artifact")->required()->type_name("");
  CLI::Option* edits =
      app.add_option("--edits", flags->edits, "the folder of edited files (default: OUT.edit)")
          ->type_name("DIR");
  CLI::Option* keep = app.add_flag("--keep-wrong", flags->keep_wrong,
                                   "put the edits into OUT even if their check fails");
  app.add_flag("--restore", flags->restore,
               "put the original kernels back into OUT; OUT.edit is kept")
      ->excludes(edits)
      ->excludes(keep);
  AddRepeated(app, "--dim", flags->dims,
              "sizes of a symbolic dim to check and time at (default: check at 1,2,5,64 and at a "
              "size that takes several blocks, time at 64)",
              "NAME=SIZE,...");
  AddRandomFlags(app, flags->random_flags);
  AddDevice(app, flags->device);
  app.get_option("--device")
      ->description(
          "check and time only on cpu, cuda or cuda:N (default: on the CPU, and on a GPU if there "
          "is one)");
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
