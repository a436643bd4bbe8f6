#!/usr/bin/env python3
"""Exports small decoders of transformers with a static cache, and compares a prompt and some steps with PyTorch.

    .deps/zoo/bin/python tests/zoo/static_caches.py [--device cuda] [--fusec PROGRAM] [--only PATTERN] [--table FILE]
    .deps/zoo/bin/python tests/zoo/static_caches.py --time [--device cuda] [--width 1024 --room 2048] [--fusec PROGRAM] [--only PATTERN]

The decoders are causal language models of the transformers library with two layers and random weights. torch.onnx.export writes a step, whose
inputs are ids, positions, and the keys and values of a StaticCache; its outputs are the logits, and the cache with the new rows. fusec compiles
it with --in-place. A call gets the cache that PyTorch returned by the call before. Some families also get adapters of PEFT, which are loaded into
slots (--adapters): one sequence of the batch has none, the others have one each. PyTorch runs on the CPU.

With --time, the script prints instead how long a step of one token takes, with a full cache: on a CPU in f32, by fusec and onnxruntime; on a GPU in
f16, without the host, by fusec with an artifact for prompts and steps and with one for steps alone, and by torch.compile (max-autotune, in a CUDA
graph, its cache also updated in place). Needs the environment that nightly.sh makes; with --device cuda also PyTorch with CUDA. Exits with 1 if a
decoder crashes or is wrong.
"""

import argparse
import json
import pathlib
import re
import sys
import tempfile
import time
import warnings

import numpy as np
from decoders import SIZES
from judge import Fusec
from launches import replay_us

HERE = pathlib.Path(__file__).resolve().parent
ROOM = 32  # rows of a cache; --room
RUNS = 30  # of a step that is timed
GPT = dict(n_embd=128, n_layer=2, n_head=4, n_positions=256)
OTHER_WIDTHS = dict(ffn_dim=256, word_embed_proj_dim=128)
WINDOW = dict(head_dim=32, sliding_window=16)
MOE = dict(head_dim=32, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64)
FAMILIES = {
    "Cohere": {},
    "Falcon": {},
    "GPT2": GPT,
    "GPTNeoX": {},
    "Gemma": dict(head_dim=32),
    "Gemma2": dict(WINDOW, query_pre_attn_scalar=32),
    "Gemma3Text": WINDOW,
    "Granite": {},
    "Llama": {},
    "Mistral": {},
    "OPT": OTHER_WIDTHS,
    "Olmo2": {},
    "Phi": {},
    "Phi3": {},
    "Qwen2": {},
    "Qwen3": dict(head_dim=32),
    "Qwen3Moe": MOE,
    "SmolLM3": {},
    "StableLm": {},
    "Starcoder2": {},
}
ADAPTED = ("Gemma", "Llama", "Qwen2")  # of which there are also models with adapters
ADAPTERS = (None, "first", "second")  # of the sequences of a batch; each is in the slot of its number
TOLERANCE = 1e-5  # relative L2
PROMPT = 4  # tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fusec", type=pathlib.Path, default=HERE.parents[1] / "build/fusec", help="program to judge (default: build/fusec)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where fusec runs them (default: cpu)")
    parser.add_argument("--steps", type=int, default=9, help="steps behind the prompt (default: 9)")
    parser.add_argument("--only", default="", metavar="PATTERN", help="families that match this regular expression")
    parser.add_argument("--table", type=pathlib.Path, help="also write a table to this file")
    parser.add_argument("--time", action="store_true", help="time a step of each family")
    parser.add_argument("--width", type=int, default=1024, help="with --time: columns of a hidden state, a multiple of 256 (default: 1024)")
    parser.add_argument("--room", type=int, default=2048, help="with --time: rows of a cache (default: 2048)")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    lines, failures = ["family\tverdict\treason\tlaunches"], 0
    if arguments.time:
        return print_times(Fusec(arguments.fusec), arguments)
    names = [*FAMILIES, *(f"{family}_LoRA" for family in ADAPTED)]
    for family in (name for name in names if re.search(arguments.only, name)):
        with tempfile.TemporaryDirectory() as folder:
            verdict, reason, launches = judge(Fusec(arguments.fusec), family, pathlib.Path(folder), arguments)
        failures += verdict in ("crash", "wrong")
        lines.append(f"{family}\t{verdict}\t{reason}\t{launches}")
        print(lines[-1], flush=True)
    if arguments.table:
        arguments.table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(1 if failures else 0)


def make_model(family):
    import torch
    import transformers

    torch.manual_seed(0)
    sizes = {key: value for key, value in SIZES.items() if not (family == "GPT2" and key in ("hidden_size", "num_hidden_layers"))}
    config = getattr(transformers, family + "Config")(**sizes | FAMILIES[family])
    experts = {"experts_implementation": "batched_mm"} if "Moe" in family else {}
    return transformers.AutoModelForCausalLM.from_config(config, **experts).eval()


def with_adapters(model, folder):
    """The model with two adapters, which are also saved."""
    import peft

    def config():
        return peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)

    first, *others = filter(None, ADAPTERS)
    model = peft.get_peft_model(model, config(), adapter_name=first)
    for name in others:
        model.add_adapter(name, config())
    model.save_pretrained(folder / "adapters", selected_adapters=list(filter(None, ADAPTERS)))
    model.set_adapter(first)
    return model.eval()


def make_step(model, batch, copies=True):
    """A module (ids [batch, tokens], positions [tokens], caches) -> (logits, caches) with the model, and empty caches.

    The module `copies` the caches that it is given, or updates them in place.
    """
    import torch
    import transformers

    def new_cache():
        return transformers.StaticCache(config=model.config, max_cache_len=ROOM)

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, positions, caches):
            cache = new_cache()
            for layer, keys, values in zip(cache.layers, caches[::2], caches[1::2]):
                layer.keys, layer.values = (keys.clone(), values.clone()) if copies else (keys, values)
                layer.dtype, layer.device = keys.dtype, keys.device
                layer.max_batch_size, layer.num_heads, _, layer.head_dim = keys.shape
                if torch.is_tensor(getattr(layer, "cumulative_length", None)):
                    layer.cumulative_length = positions[:1].clone()
                layer.is_initialized = True
            logits = self.model(input_ids=ids, past_key_values=cache, cache_position=positions, position_ids=positions[None], use_cache=True).logits
            return logits, [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]

    shapes = new_cache()
    with torch.no_grad():
        ids = torch.full((batch, 1), 5, device=model.device)
        model(input_ids=ids, past_key_values=shapes, use_cache=True)  # so that it makes its tensors
    return Step(), [torch.zeros_like(tensor) for layer in shapes.layers for tensor in (layer.keys, layer.values)]


def export(step, caches, path):
    import torch

    tokens = torch.export.Dim("tokens", min=1, max=ROOM // 2)
    parts = [f"{layer}.{part}" for layer in range(len(caches) // 2) for part in ("key", "value")]
    torch.onnx.export(
        step, (torch.full((len(caches[0]), 3), 5), torch.arange(3), caches), path, dynamo=True, verbose=False, external_data=False,
        input_names=["ids", "positions"] + [f"past.{part}" for part in parts], output_names=["logits"] + [f"present.{part}" for part in parts],
        dynamic_shapes=({1: tokens}, {0: tokens}, [None] * len(caches)),
    )  # fmt: skip


def compile_step(fusec, folder, device, *flags):
    """Compiles model.onnx of the folder into its artifact."""
    target = "native" if device == "cuda" else "cpu"
    return fusec(folder / "model.onnx", "-o", folder / "artifact", "--target", target, "--in-place", "present.*=past.*", *flags)


def judge(fusec, family, folder, arguments):
    """The verdict on one decoder, its reason, and the number of launches."""
    adapted = family.endswith("_LoRA")
    try:
        model = make_model(family.removesuffix("_LoRA"))
        if adapted:
            model = with_adapters(model, folder)
        step, caches = make_step(model, len(ADAPTERS) if adapted else 1)
        export(step, caches, folder / "model.onnx")
    except Exception as error:  # of any kind, from transformers or the exporter
        return "no-export", f"{type(error).__name__}: {error}".partition("\n")[0], ""
    slots = ["--adapters", f"slots={len(ADAPTERS)},rank=8"] if adapted else []
    compiled = compile_step(fusec, folder, arguments.device, *slots)
    if compiled.code != 0:
        return ("crash" if compiled.crashed else "unsupported"), compiled.reason, ""
    launches = re.search(r"(\d+) on sm_" if arguments.device == "cuda" else r"(\d+) on cpu", compiled.text)[1]
    try:
        worst = largest_difference(fusec, step, caches, adapted, folder, arguments)
    except RuntimeError as error:
        return "crash", str(error), launches
    return ("right" if worst <= TOLERANCE else "wrong"), f"relative L2 {worst:.1g}", launches


def print_times(fusec, arguments):
    global ROOM
    ROOM, heads = arguments.room, arguments.width // 64
    fusec.environment.pop("OMP_NUM_THREADS")  # all cores, as onnxruntime takes
    SIZES.update(hidden_size=arguments.width, intermediate_size=arguments.width * 11 // 4, num_attention_heads=heads,
                 num_key_value_heads=heads // 4, vocab_size=8192, max_position_embeddings=arguments.room)  # fmt: skip
    on_gpu = arguments.device == "cuda"
    for family in (name for name in FAMILIES if re.search(arguments.only, name)):
        with tempfile.TemporaryDirectory() as name:
            folder, model = pathlib.Path(name), make_model(family)
            model = model.half() if on_gpu else model
            step, caches = make_step(model, 1)
            export(step, caches, folder / "model.onnx")
            if on_gpu:
                times = {"fusec": by_fusec(fusec, folder, "cuda"), "fusec, steps alone": by_fusec(fusec, folder, "cuda", True), **by_torch_compile(model)}
            else:
                times = {"fusec": by_fusec(fusec, folder, "cpu"), "onnxruntime": by_onnxruntime(folder, caches)}
            print("\t".join([family, *(f"{who} {milliseconds:.4g} ms" for who, milliseconds in times.items())]), flush=True)


def by_fusec(fusec, folder, device, steps_alone=False):
    """The median milliseconds of a step; with `steps_alone`, of an artifact that takes no more than one token."""
    one_token = ["--dim", f"{token_dim(folder)}=1"]
    compiled = compile_step(fusec, folder, device, *(one_token if steps_alone else []))
    if compiled.code != 0:
        sys.exit(compiled.reason)
    timed = fusec("bench", folder / "artifact", "--device", device, *([] if steps_alone else one_token), "--json")
    if timed.code != 0:
        sys.exit(timed.reason)
    (report,) = json.loads(timed.output)
    times = report.get("device_us") or report["call_us"]
    return (times["median"] if isinstance(times, dict) else times) / 1e3


def token_dim(folder):
    """The name of the symbolic dim of the model's ids."""
    import onnx

    return onnx.load(folder / "model.onnx", load_external_data=False).graph.input[0].type.tensor_type.shape.dim[1].dim_param


def by_torch_compile(model):
    """The milliseconds of a step, as a replayed CUDA graph of the compiled module takes them."""
    import torch

    step, caches = make_step(model.cuda(), 1, copies=False)
    inputs = torch.full((1, 1), 7, device="cuda"), torch.tensor([ROOM - 1], device="cuda"), caches
    with torch.no_grad():
        compiled = torch.compile(step, mode="max-autotune-no-cudagraphs", dynamic=False)
        for _ in range(3):
            compiled(*inputs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            compiled(*inputs)
    return {"torch.compile": replay_us(graph) / 1e3}


def by_onnxruntime(folder, caches):
    """The median milliseconds of a step."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    inputs = dict(zip((tensor.name for tensor in session.get_inputs()), [np.array([[7]]), np.array([ROOM - 1]), *(cache.numpy() for cache in caches)]))
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - begin)
    return sorted(times)[RUNS // 2] * 1e3


def by_torch(step, ids, positions, caches, adapted):
    """The logits and caches of the module; each sequence has its own adapter if it is `adapted`."""
    import torch

    with torch.no_grad():
        if not adapted:
            return step(ids, positions, caches)
        results = []
        for row, adapter in enumerate(ADAPTERS):
            own = (ids[row : row + 1], positions, [cache[row : row + 1] for cache in caches])
            if adapter is None:
                with step.model.disable_adapter():
                    results.append(step(*own))
            else:
                step.model.set_adapter(adapter)
                results.append(step(*own))
    return torch.cat([logits for logits, _ in results]), [torch.cat(parts) for parts in zip(*(cache for _, cache in results))]


def largest_difference(fusec, step, caches, adapted, folder, arguments):
    """The largest relative L2 distance of an output, over a prompt and the steps after it."""
    import torch

    batch = len(caches[0])
    ids, seen, worst = np.arange(5, 5 + batch * PROMPT).reshape(batch, PROMPT), 0, 0.0
    names = [f"{layer}.{part}" for layer in range(len(caches) // 2) for part in ("key", "value")]
    slots, loads = {}, []
    if adapted:
        slots = {"adapter_id": np.array([slot if adapter else -1 for slot, adapter in enumerate(ADAPTERS)], np.int32)}
        for slot, adapter in enumerate(ADAPTERS):
            loads += ["--adapter", f"{slot}={folder / 'adapters' / adapter}"] if adapter else []
    for _ in range(1 + arguments.steps):
        positions = np.arange(seen, seen + ids.shape[1])
        past = {f"past.{name}": cache.numpy() for name, cache in zip(names, caches)}
        np.savez(folder / "inputs.npz", ids=ids, positions=positions, **past, **slots)
        ran = fusec("run", folder / "artifact", "--device", arguments.device, "--input", folder / "inputs.npz", "--output", folder / "outputs", *loads)
        if ran.code != 0:
            raise RuntimeError(ran.reason)
        logits, caches = by_torch(step, torch.tensor(ids), torch.tensor(positions), caches, adapted)
        for name, theirs in {"logits": logits, **{f"present.{name}": cache for name, cache in zip(names, caches)}}.items():
            ours, theirs = np.load(folder / "outputs" / f"{name}.npy").astype(float), theirs.numpy()
            worst = max(worst, np.linalg.norm(ours - theirs) / max(np.linalg.norm(theirs.astype(float)), 1e-9))
        seen, ids = seen + ids.shape[1], logits[:, -1:].argmax(-1).numpy()
    return worst


if __name__ == "__main__":
    main()
