#!/usr/bin/env python3
"""Checks that the suite's models, with cut tables, compile for a GPU in float32 and float16, and give the answers of the interpreter and of
onnxruntime on the CPU in float32 (with --all also in float16). lecture_main, dcnv2 and the transformer blocks of GPT-2 and Llama are left
to the benchmark, since their wide layers would take minutes here.

usage: check_suite.py FUSEC [--all]
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[2] / "models"))
import suite  # noqa: E402

SLOW = ("lecture_main", "dcnv2", "dcnv2_bags", "lora_block", "llama_block")


def problem_of(fusec, model, folder, verifies):
    """What is wrong with a model, or None."""
    environment = {**os.environ, "FUSEC_PYTHON": sys.executable, "FUSEC_CACHE_DIR": str(Path(folder) / "cache")}
    verify = [["verify", model, "--device", "cpu", "--dim", "batch=1,3"]] if verifies else []
    for arguments in verify + [["compile", model, "-o", Path(folder) / "artifact", "--target", "sm_90a"]]:
        child = subprocess.run([fusec, *arguments], capture_output=True, text=True, env=environment)
        if child.returncode != 0:
            return f"fusec {arguments[0]} ends with {child.returncode}\n{child.stdout}{child.stderr}"
    return None


def main():
    fusec = sys.argv[1]
    passed = failed = 0
    for name in suite.WORKLOADS:
        for dtype in suite.NUMPY_DTYPES if name not in SLOW else ():
            with tempfile.TemporaryDirectory() as folder:
                model = suite.write_model(name, folder, dtype, "small")
                problem = problem_of(fusec, model, folder, dtype == "fp32" or "--all" in sys.argv)
            passed, failed = passed + (problem is None), failed + (problem is not None)
            if problem:
                print(f"{name} {dtype}: {problem}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
