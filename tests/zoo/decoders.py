#!/usr/bin/env python3
"""Lets onnxruntime-genai's model builder write small decoders with a cache, and compares a prompt and two steps with onnxruntime, on the CPU.

    .deps/zoo/bin/python tests/zoo/decoders.py [--fusec PROGRAM] [--only PATTERN] [--precision fp32|int4] [--table FILE]

The decoders are causal language models of the transformers library with two layers and random weights. Each call passes the cache that
onnxruntime returned by the call before; an artifact compiled with --in-place gets it with unused rows behind it. In `int4`, onnxruntime rounds activations to 8 bits inside products and fusec does not, so that
answers agree to about 1 %. Needs the environment that nightly.sh makes. Exits with 1 if a decoder crashes or is wrong.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import numpy as np
import onnx
import onnxruntime

from judge import Fusec

HERE = pathlib.Path(__file__).resolve().parent
SIZES = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=512,
             max_position_embeddings=256, bos_token_id=2, eos_token_id=1, pad_token_id=0)  # fmt: skip
WINDOW = 16
FAMILIES = {
    "Gemma": dict(head_dim=32),
    "Gemma2": dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=WINDOW),
    "Granite": {},
    "Llama": {},
    "Mistral": dict(sliding_window=WINDOW),
    "Nemotron": dict(head_dim=32),
    "Olmo": {},
    "Phi": dict(partial_rotary_factor=0.5),
    "Qwen2": {},
    "Qwen3": dict(head_dim=32),
    "SmolLM3": {},
}
TOLERANCES = {"fp32": 1e-5, "int4": 3e-2}  # relative L2
ROOM = 40  # rows of a cache that is updated in place
CALLS = ((1, 20), (2, 7))  # batch and length of each prompt; the first is longer than the window


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fusec", type=pathlib.Path, default=HERE.parents[1] / "build/fusec", help="program to judge (default: build/fusec)")
    parser.add_argument("--only", default="", metavar="PATTERN", help="families that match this regular expression")
    parser.add_argument("--precision", choices=TOLERANCES, default="fp32", help="of the weights (default: fp32)")
    parser.add_argument("--table", type=pathlib.Path, help="also write a table to this file")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    fusec = Fusec(arguments.fusec)
    lines, failures = ["family\tverdict\treason\tlaunches"], 0
    for family in (name for name in FAMILIES if re.search(arguments.only, name)):
        with tempfile.TemporaryDirectory() as folder:
            verdict, reason, launches = judge(fusec, family, arguments.precision, pathlib.Path(folder))
        failures += verdict in ("crash", "wrong")
        lines.append(f"{family}\t{verdict}\t{reason}\t{launches}")
        print(lines[-1], flush=True)
    if arguments.table:
        arguments.table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(1 if failures else 0)


def write_model(family, folder):
    """Saves a model of the family and a tokenizer, without which the builder ends early."""
    import tokenizers
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, family + "Config")(**SIZES | FAMILIES[family])
    getattr(transformers, family + "ForCausalLM")(config).save_pretrained(folder)
    words = tokenizers.models.WordLevel({str(i): i for i in range(500)} | {"<unk>": 500}, unk_token="<unk>")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(words), unk_token="<unk>", pad_token="0", eos_token="1")
    tokenizer.save_pretrained(folder)


def judge(fusec, family, precision, folder):
    """The verdict on one decoder, its reason, and the number of launches."""
    write_model(family, folder / "model")
    command = [sys.executable, "-W", "ignore", "-m", "onnxruntime_genai.models.builder", "-i", folder / "model", "-o", folder / "onnx", "-p", precision, "-e", "cpu"]
    built = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    model = folder / "onnx" / "model.onnx"
    if not model.exists():
        return "not built", built.stderr.strip().rpartition("\n")[2], ""
    compiled = fusec(model, "-o", folder / "artifact", "--target", "cpu")
    if compiled.code != 0:
        return ("crash" if compiled.crashed else "unsupported"), compiled.reason, ""
    launches = re.search(r"(\d+) on cpu", compiled.text)[1]
    in_place = fusec(model, "-o", folder / "in_place", "--target", "cpu", "--in-place", "present.*=past_key_values.*")
    has_window = "sliding" in str(onnx.load(model, load_external_data=False).graph.input)
    if (in_place.code != 0) != has_window:
        return ("crash" if in_place.crashed else "unsupported"), f"in place: {in_place.reason}", launches
    try:
        worst = largest_difference(fusec, model, folder)
    except RuntimeError as error:
        return "crash", str(error), launches
    return ("right" if worst <= TOLERANCES[precision] else "wrong"), f"relative L2 {worst:.1g}", launches


def largest_difference(fusec, model, folder):
    """The largest relative L2 distance of an output, over prompts and the steps after them."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    dims = {tensor.name: tensor.shape for tensor in session.get_inputs()}
    attention = next(node for node in onnx.load(model, load_external_data=False).graph.node if node.op_type == "GroupQueryAttention")
    heads = {attribute.name: attribute.i for attribute in attention.attribute}
    numbers = np.random.default_rng(0)
    worst = 0.0

    def call(inputs):
        nonlocal worst
        inputs = {name: inputs[name] for name in dims}
        expected = dict(zip((output.name for output in session.get_outputs()), session.run(None, inputs)))
        np.savez(folder / "inputs.npz", **inputs)
        compare("artifact", expected)
        if (folder / "in_place").exists():
            rows = expected[next(name for name in expected if name.startswith("present"))].shape[2]
            np.savez(folder / "inputs.npz", **{name: with_room(name, value) for name, value in inputs.items()})
            compare("in_place", expected, rows)
        return {past_of(name): value for name, value in expected.items() if name.startswith("present")}

    def compare(artifact, expected, rows=None):
        nonlocal worst
        ran = fusec("run", folder / artifact, "--device", "cpu", "--input", folder / "inputs.npz", "--output", folder / "outputs")
        if ran.code != 0:
            raise RuntimeError(f"{artifact}: {ran.reason}")
        for name, theirs in expected.items():
            if "sliding" in str(dims.get(past_of(name), "")):
                continue  # rows behind the last position are undefined; the logits of the next step depend on the others
            ours = np.load(folder / "outputs" / f"{name}.npy")
            if name.startswith("present"):
                ours = ours[:, :, :rows]
            if ours.shape != theirs.shape:
                raise RuntimeError(f"{name} is {list(ours.shape)}, expected {list(theirs.shape)}")
            worst = max(worst, np.linalg.norm(ours.astype(float) - theirs) / max(np.linalg.norm(theirs.astype(float)), 1e-9))

    for batch, length in CALLS:
        tokens = lambda count: numbers.integers(5, 500, (batch, count))  # noqa: E731
        inputs = dict(input_ids=tokens(length), attention_mask=np.ones((batch, length), np.int64), position_ids=np.arange(length)[None].repeat(batch, 0))
        width = SIZES["hidden_size"] // heads["num_heads"]
        for name, shape in dims.items():
            if name.startswith("past"):
                rows = WINDOW if "sliding" in str(shape[2]) else 0
                inputs[name] = np.zeros((batch, heads["kv_num_heads"], rows, shape[3] if isinstance(shape[3], int) else width), np.float32)
        cache = call(inputs)
        for seen in (length + 1, length + 2):
            step = dict(input_ids=tokens(1), attention_mask=np.ones((batch, seen), np.int64), position_ids=np.full((batch, 1), seen - 1))
            cache = call(step | cache)
    return worst


def with_room(name, value):
    """An input of a call with a longer cache; the rows that are not in use are NaN."""
    if name == "attention_mask":
        return np.pad(value, ((0, 0), (0, ROOM - value.shape[1])))
    if name.startswith("past"):
        return np.pad(value, ((0, 0), (0, 0), (0, ROOM - value.shape[2]), (0, 0)), constant_values=np.nan)
    return value


def past_of(name):
    return name.replace("present", "past_key_values")


if __name__ == "__main__":
    main()
