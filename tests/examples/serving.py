"""Helpers for the tests of the serving examples: commands that must succeed, expected scores, and the count of checks."""

import os
import subprocess

import numpy as np

passed, failed = 0, 0


def run(*command, environment=None, cwd=None):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd, env={**os.environ, **(environment or {})}
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(name, body):
    global passed, failed
    try:
        body()
        passed += 1
    except Exception as error:  # whatever it is, it is the result
        failed += 1
        print(f"FAIL  {name}: {error}")


def expected_scores(fusec, artifact, folder, batch):
    """The scores of `fusec run` for the inputs of the examples."""
    row, column = np.ogrid[:batch, :13]
    np.save(folder / "dense.npy", ((row + column) % 5 / 4).astype(np.float32))
    row, column = np.ogrid[:batch, :26]
    np.save(folder / "ids.npy", ((row + column) % 3).astype(np.int64))
    run(fusec, "run", artifact, "--device", "cpu", "--input", f"in0={folder}/dense.npy", "--input", f"in1={folder}/ids.npy",
        "--output", folder)
    return np.load(folder / "out0.npy").ravel()


def scores_in(text):
    return np.array([float(line.split()[1]) for line in text.splitlines() if line.startswith("score ")])


def report():
    """Prints the line that tests/run.sh counts; returns the exit code."""
    print(f"{passed} passed, {failed} failed")
    return failed != 0
