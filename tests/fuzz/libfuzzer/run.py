#!/usr/bin/env python3
"""Runs the fuzzers, each for some minutes, and says how many inputs each tried.

usage: run.py [--build FOLDER] [--fusec PROGRAM] [--minutes M] [--only NAME] [--corpus FOLDER] [--keep]

Seeds are the inputs of corpus/ and the files of artifacts that are compiled here. What a fuzzer learns stays in --corpus, from which
another run goes on; --keep puts the least of it that covers as much into corpus/. An input that fails lies beside it, and its command
is printed. Exit code 1: something was found.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
MOST_SEED_BYTES = 1 << 16  # fuzzers want short inputs
MOST_KEPT_BYTES = 1 << 10  # of an input in corpus/
# What the C face loads, and whose files are seeds: arguments of `fusec compile`.
ARTIFACTS = {
    "tables": ["tests/end_to_end/models/deep_fm.ts.onnx", "--updatable", "*"],
    "adapters": ["models/lora_mlp.ts.onnx", "--adapters", "slots=2,rank=8"],
}
# Of each fuzzer, by the patterns of what is in an artifact.
SEEDS = {"c_api": [], "manifest": ["manifest.json"], "npy": [], "npz": [], "safetensors": ["*.safetensors"]}


def compile_artifacts(fusec, folder):
    """One folder for each of ARTIFACTS."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (model, *flags) in ARTIFACTS.items():
        if not (folder / name).exists():
            command = [fusec, ROOT / model, "-o", folder / name, "--target", "cpu", "--cpu-level", "x86-64-v3", *flags]
            subprocess.run(command, check=True, capture_output=True)


def seed(name, artifacts, folder):
    """Puts the seeds of a fuzzer into the folder that its corpus grows in."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [*HERE.glob(f"corpus/{name}/*"), *(file for pattern in SEEDS[name] for file in artifacts.glob(f"*/{pattern}"))]
    for number, file in enumerate(sorted(files)):
        if file.stat().st_size <= MOST_SEED_BYTES:
            shutil.copy(file, folder / f"{number}_{file.name}")


def call(program, arguments, artifacts):
    """What libFuzzer printed, and its exit code."""
    environment = dict(os.environ, FUSEC_FUZZER_ARTIFACTS=str(artifacts), OMP_NUM_THREADS="1",
                       ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1", UBSAN_OPTIONS="print_stacktrace=1")
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, errors="replace")
    return done.stderr, done.returncode


def fuzz(program, folder, artifacts, seconds):
    """Whether nothing was found; prints what was."""
    limits = [f"-max_total_time={seconds}", f"-max_len={MOST_SEED_BYTES}", "-timeout=20", "-rss_limit_mb=3000", "-print_final_stats=1"]
    text, code = call(program, [folder, *limits, f"-artifact_prefix={folder.parent}/{folder.name}-"], artifacts)
    runs = re.findall(r"stat::number_of_executed_units: (\d+)", text)
    print(f"{program.name:20} {runs[-1] if runs else '?':>12} inputs, {'a finding' if code else 'nothing found'}", flush=True)
    if code:
        print(*text.splitlines()[-60:], sep="\n")
        print(f"again: FUSEC_FUZZER_ARTIFACTS={artifacts} {program} FILE   with the file that is named above")
    return code == 0


def keep(program, folder, artifacts):
    """The least inputs of `folder` that cover as much as all short ones."""
    kept = HERE / "corpus" / folder.name
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    text, code = call(program, ["-merge=1", f"-max_len={MOST_KEPT_BYTES}", kept, folder], artifacts)
    if code:
        sys.exit(text[-2000:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-libfuzzer")
    parser.add_argument("--fusec", type=pathlib.Path, default=ROOT / "build/fusec")
    parser.add_argument("--minutes", type=float, default=2, help="of each fuzzer")
    parser.add_argument("--only", default="", help="the fuzzer of this name")
    parser.add_argument("--corpus", type=pathlib.Path)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        corpus = (arguments.corpus or pathlib.Path(scratch)).resolve()
        artifacts = corpus / "artifacts"
        compile_artifacts(arguments.fusec, artifacts)
        verdicts = []
        for name in [name for name in SEEDS if arguments.only in ("", name)]:
            program, folder = arguments.build / f"tests/fuzz/libfuzzer/fuzz_{name}", corpus / name
            seed(name, artifacts, folder)
            verdicts.append(fuzz(program, folder, artifacts, int(arguments.minutes * 60)))
            if arguments.keep:
                keep(program, folder, artifacts)
    print(f"{verdicts.count(True)} passed, {verdicts.count(False)} failed")
    sys.exit(False in verdicts)


if __name__ == "__main__":
    main()
