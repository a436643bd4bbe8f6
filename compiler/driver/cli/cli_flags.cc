#include "compiler/driver/cli/cli_flags.h"

#include <charconv>

namespace fusec {

void AddRepeated(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                 const std::string& help, const std::string& type, char delimiter) {
  CLI::Option* option = app.add_option(name, values, help);
  option->allow_extra_args(false)->type_name(type);
  if (delimiter) option->delimiter(delimiter);
}

void AddDevice(CLI::App& app, std::string& device) {
  app.add_option("--device", device,
                 "run on cpu, cuda or cuda:N, or a sharded artifact on several GPUs, cuda:N,N,... "
                 "(default: a GPU if there is one, else the CPU)")
      ->type_name("NAME")
      ->check([](const std::string& name) {
        const bool good = name == "cpu" || name == "cuda" ||
                          (name.rfind("cuda:", 0) == 0 && name.size() > 5 &&
                           name.find_first_not_of("0123456789,", 5) == std::string::npos);
        return good ? std::string() : "\"" + name + "\" is none of cpu, cuda, cuda:N";
      });
}

void AddModelFlags(CLI::App& app, ModelFlags& flags) {
  AddRepeated(app, "--freeze", flags.freezes,
              "make an input a constant with the value in FILE (.npy or .pb)", "NAME=FILE");
  app.add_option(
         "--matmul-precision", flags.matmul_precision,
         "arithmetic of f32 matrix products: highest (f32, the default), high (TF32) or medium "
         "(bf16); fp8 rounds both operands of layers to 8 bits (E4M3) on a GPU that can multiply "
         "such numbers")
      ->type_name("WORD")
      ->check(CLI::IsMember({"highest", "high", "medium", "fp8"}));
  app.add_option("--fp8-budget", flags.float8_budget,
                 "with --matmul-precision fp8: the relative L2 error above which a layer stays in "
                 "its own type (default: 0.05)")
      ->type_name("NUMBER")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--index-policy", flags.index_policy,
                 "what a look-up of an id outside its table gives: error (the run fails and names "
                 "the id, the default), clamp (the nearest row), wrap (the row at the id modulo "
                 "the number of rows) or zero (a row of zeros)")
      ->type_name("WORD")
      ->check(CLI::IsMember({"error", "clamp", "wrap", "zero"}));
  AddRepeated(
      app, "--updatable", flags.updatable,
      "let no decision of the compiler depend on the values of the initializers whose names match "
      "PATTERN ('*' for all); fusec refit can then give them any other values",
      "PATTERN");
  AddRepeated(
      app, "--table-storage", flags.table_storage,
      "store the rows of the embedding tables whose name matches PATTERN (as in a shell: *, "
      "?, [..]) as int8, int4, fp8, f16 or bf16; if the flag is repeated, the last match counts",
      "PATTERN=STORAGE");
  AddRepeated(
      app, "--table-placement", flags.table_placement,
      "memory of the embedding tables whose name matches PATTERN when a GPU runs the model: "
      "device (GPU memory, the default) or host (page-locked host memory, which kernels read over "
      "the bus, so that tables may be larger than GPU memory); if the flag is repeated, the last "
      "match counts; it has no effect on a CPU",
      "PATTERN=PLACE");
  app.add_option(
         "--table-cache", flags.table_cache,
         "cache rows of tables in host memory (--table-placement) in GPU memory: those that are "
         "looked up most often. SIZE is the total size of the cache, such as 2GB, or a share of "
         "the tables' rows, such as 10%; the cache fills while the model serves")
      ->type_name("SIZE");
  app.add_option(
         "--adapters", flags.adapters,
         "keep LoRA adapters in N slots, into which adapters of up to the given rank can be loaded "
         "while the model serves; the new input adapter_id gives for each row of the batch the "
         "slot of its adapter, or -1 for none (slot 0 holds the model's own adapter)")
      ->type_name("slots=N,rank=N");
  AddRepeated(app, "--per-request", flags.per_request,
              "inputs, by name or pattern, that all items of a request share: their first dim "
              "becomes 1, and what depends on them alone is computed once for all items of the "
              "batch",
              "INPUT", ',');
  app.add_flag("--request-map", flags.request_map,
               "with --per-request, let a call have several requests: the first dim of the inputs "
               "per request becomes `requests`, and the new input request_of_item, i64[batch], "
               "gives for each item the request that it belongs to");
  AddRepeated(app, "--in-place", flags.in_place,
              "let an output, such as a cache of keys, lie in the memory of an input, into which "
              "kernels then write only the new rows; a * on both sides stands for the same text: "
              "'present.*=past_key_values.*'",
              "OUTPUT=INPUT");
  AddRepeated(app, "--disable-fusion", flags.disabled_fusions,
              "switch off a fusion or a rewrite of weights (fusec opt --passes=help lists them)",
              "NAME", ',');
  app.add_flag(
      "--keep-lora", flags.keep_lora,
      "keep LoRA adapters as layers of their own instead of merging them into the weights");
  app.add_flag("--round-every-op", flags.round_every_op,
               "round f16 and bf16 values after every op, as unfused ops would, instead of only "
               "where a kernel stores them; weights are then neither merged nor scaled");
  app.add_flag(
      "--batch-invariant", flags.batch_invariant,
      "give a row of the batch the same bits in the answer whatever the size of the batch and its "
      "place in it: one kernel and one order of sums for all sizes, without libraries");
}

void AddBuildFlags(CLI::App& app, CompileFlags& flags) {
  AddRepeated(
      app, "--target", flags.targets,
      "what to compile for, a list of cpu, sm_80, sm_90a, ... or native (the CPU and this "
      "machine's GPU, or sm_90a if it has none; the default)",
      "LIST", ',');
  AddRepeated(app, "--dim", flags.dims,
              "limit the sizes of a symbolic dim to a range, or fix it to one size",
              "NAME=LOW..HIGH");
  AddModelFlags(app, flags.model_flags);
  app.add_option("--cpu-level", flags.cpu_level,
                 "instruction set of the CPU code: both (x86-64-v3 and x86-64-v4, the default), or "
                 "one of x86-64-v3, x86-64-v4, native")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"both", "x86-64-v3", "x86-64-v4", "native"}));
}

void AddRandomFlags(CLI::App& app, RandomFlags& flags) {
  app.add_option("--seed", flags.seed, "seed of the random data (default: 0)")
      ->type_name("N")
      ->check([](const std::string& text) {
        uint64_t seed = 0;
        const char* end = text.data() + text.size();
        const auto [read, error] = std::from_chars(text.data(), end, seed);
        const bool good = error == std::errc() && read == end;
        return good ? std::string() : text + " is not a whole number from 0 to 2^64 - 1";
      });
  app.add_option(
         "--ids", flags.ids,
         "how random ids are distributed over a table: uniform (the default), or zipf (a few ids "
         "are far more frequent than the others)")
      ->type_name("WORD")
      ->check(CLI::IsMember({"uniform", "zipf"}));
}

}  // namespace fusec
