#!/usr/bin/env python3
"""Runs each fuzzer for some minutes, and reports how many inputs it tried.

usage: run.py [--build FOLDER] [--fusec PROGRAM] [--minutes M] [--only NAME,...] [--jobs N] [--at-once] [--corpus FOLDER] [--report FILE] [--keep]

--jobs N runs N processes of each fuzzer, which share new inputs. A process that finds something is restarted. --at-once runs all fuzzers at
the same time. Seeds are the inputs of corpus/, the files of artifacts that this script compiles, and for `onnx` and `ir` the small models
and texts of other tests. New inputs stay in --corpus, from which another run continues; --keep copies the smallest set of them with the
same coverage to corpus/. A failing input is kept beside them, and the command that repeats it is printed. --report writes a table to
FILE.md, and the same to FILE.json. Exit code 1: something was found.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2] if len(HERE.parents) > 2 else HERE
MOST_SEED_BYTES = 1 << 16  # fuzzers work best with short inputs
MOST_KEPT_BYTES = 1 << 10  # size limit of an input in corpus/
MOST_STARTS = 20  # starts of a process that finds something each time
# Artifacts that the C API loads, and whose files are seeds, as arguments of `fusec compile`.
ARTIFACTS = {
    "tables": ["tests/end_to_end/models/deep_fm.ts.onnx", "--updatable", "*"],
    "adapters": ["models/lora_mlp.ts.onnx", "--adapters", "slots=2,rank=8"],
}
# For each fuzzer: files of artifacts, files below the root, and the most bytes of an input.
FUZZERS = {
    "c_api": ([], [], 1 << 12),
    "ir": ([], ["tests/passes/**/*.ir", "tests/codegen/**/*.ir"], 1 << 13),
    "manifest": (["manifest.json"], [], MOST_SEED_BYTES),
    "npy": ([], [], MOST_SEED_BYTES),
    "npz": ([], [], MOST_SEED_BYTES),
    "onnx": ([], ["tests/end_to_end/models/*.onnx", "build/tests/conformance/node/*/model.onnx"], 1 << 13),
    "safetensors": (["*.safetensors"], [], MOST_SEED_BYTES),
    "tuning": ([], [], 1 << 13),
}
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=16",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def compile_artifacts(fusec, folder):
    """One folder for each of ARTIFACTS."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (model, *flags) in ARTIFACTS.items():
        if not (folder / name).exists():
            command = [fusec, ROOT / model, "-o", folder / name, "--target", "cpu", "--cpu-level", "x86-64-v3", *flags]
            subprocess.run(command, check=True, capture_output=True)


def seed(name, artifacts, folder):
    """Copies the seeds of a fuzzer to the folder of its corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    of_artifacts, below_root, most_bytes = FUZZERS[name]
    files = [*HERE.glob(f"corpus/{name}/*"), *(file for pattern in of_artifacts for file in artifacts.glob(f"*/{pattern}")),
             *(file for pattern in below_root for file in ROOT.glob(pattern))]
    for number, file in enumerate(sorted(files)):
        if file.stat().st_size <= most_bytes:
            shutil.copy(file, folder / f"{number}_{file.name}")


def program_of(build, name):
    """In a build folder, or beside others."""
    built = build.resolve() / f"tests/fuzz/libfuzzer/fuzz_{name}"
    return built if built.exists() else build.resolve() / f"fuzz_{name}"


def call(program, arguments, artifacts):
    """The output of libFuzzer, and its exit code."""
    environment = {**SANITIZERS, **os.environ, "FUSEC_FUZZER_ARTIFACTS": str(artifacts), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, errors="replace")
    return done.stderr, done.returncode


def fuzz_process(program, folder, artifacts, seconds):
    """The work of one process until the time was over: number of inputs, covered edges, and its output for each finding."""
    end = time.monotonic() + seconds
    inputs, covered, findings = 0, 0, []
    most_bytes = FUZZERS[folder.name][2]
    while (left := int(end - time.monotonic())) > 0 and len(findings) < MOST_STARTS:
        limits = [f"-max_total_time={left}", f"-max_len={most_bytes}", "-timeout=20", "-rss_limit_mb=3000", "-malloc_limit_mb=2000",
                  "-reload=1", "-print_final_stats=1"]
        text, code = call(program, [folder, *limits, f"-artifact_prefix={folder.parent}/{folder.name}-"], artifacts)
        runs = re.findall(r"stat::number_of_executed_units: (\d+)", text) or re.findall(r"^#(\d+)", text, re.MULTILINE)
        inputs += int(runs[-1]) if runs else 0
        covered = max([covered, *map(int, re.findall(r"\bcov: (\d+)", text))])
        if code == 0:
            break
        findings.append(text)
    return inputs, covered, findings


def headline(text):
    """The most telling line about a finding, and the file with the input."""
    said = re.search(r"^(does not hold: .*|fusec: bug .*|.*runtime error: .*|SUMMARY: .*|==\d+== ?ERROR: .*)$", text, re.MULTILINE)
    file = re.search(r"Test unit written to (\S+)", text)
    return f"{said[1] if said else 'ended'} ({file[1] if file else 'no input was written'})"


def fuzz(name, arguments, artifacts, folder):
    """The row of a fuzzer in the table; prints what was found."""
    program = program_of(arguments.build, name)
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = [pool.submit(fuzz_process, program, folder, artifacts, arguments.minutes * 60) for _ in range(arguments.jobs)]
        done = [job.result() for job in jobs]
    findings = [text for _, _, texts in done for text in texts]
    row = {"fuzzer": name, "processes": arguments.jobs, "minutes": round((time.monotonic() - started) / 60, 1),
           "inputs": sum(inputs for inputs, _, _ in done), "edges": max(covered for _, covered, _ in done),
           "findings": [headline(text) for text in findings]}
    print(f"{name:12} {row['inputs']:>12} inputs, {row['edges']:>6} edges, {len(findings) or 'nothing'} found", flush=True)
    for text in findings[:3]:
        print(*text.splitlines()[-60:], sep="\n")
    if findings:
        print(f"again: FUSEC_FUZZER_ARTIFACTS={artifacts} {program} FILE   with the file that is named above", flush=True)
    return row


def write_report(file, rows):
    file.with_name(file.name + ".json").write_text(json.dumps(rows, indent=1) + "\n")
    lines = ["| fuzzer | processes | minutes | inputs | edges | found |", "|---|---|---|---|---|---|"]
    for row in rows:
        found = "<br>".join(sorted(set(row["findings"]))).replace("|", "\\|") or "nothing"
        lines.append(f"| `{row['fuzzer']}` | {row['processes']} | {row['minutes']} | {row['inputs']:,} | {row['edges']:,} | {found} |")
    file.with_name(file.name + ".md").write_text("\n".join(lines) + "\n")


def keep(program, folder, artifacts):
    """Keeps the smallest set of inputs of `folder` with the same coverage as all short ones."""
    kept = HERE / "corpus" / folder.name
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    text, code = call(program, ["-merge=1", f"-max_len={MOST_KEPT_BYTES}", kept, folder], artifacts)
    if code:
        sys.exit(text[-2000:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-libfuzzer", help="folder that has the programs")
    parser.add_argument("--fusec", type=pathlib.Path, default=ROOT / "build/fusec")
    parser.add_argument("--minutes", type=float, default=2, help="minutes for each fuzzer")
    parser.add_argument("--only", default="", help="comma-separated names of fuzzers")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes of each fuzzer")
    parser.add_argument("--at-once", action="store_true", help="run all fuzzers at the same time")
    parser.add_argument("--corpus", type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    names = [name for name in FUZZERS if not arguments.only or name in arguments.only.split(",")]
    with tempfile.TemporaryDirectory() as scratch:
        corpus = (arguments.corpus or pathlib.Path(scratch)).resolve()
        artifacts = corpus / "artifacts"
        compile_artifacts(arguments.fusec, artifacts)
        for name in names:
            seed(name, artifacts, corpus / name)
        with concurrent.futures.ThreadPoolExecutor(len(names) if arguments.at_once else 1) as pool:
            rows = list(pool.map(lambda name: fuzz(name, arguments, artifacts, corpus / name), names))
        if arguments.report:
            write_report(arguments.report, rows)
        for name in names if arguments.keep else []:
            keep(program_of(arguments.build, name), corpus / name, artifacts)
    failed = sum(bool(row["findings"]) for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
