#!/usr/bin/env python3
"""Checks examples/fusion: models, kernels and answers must match the built compiler, and the texts must stay short.

usage: check_examples.py FUSEC [ROOT] [--update]        --update rewrites the kernels that are checked in
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

README_LINES = 60
README_COLUMNS = 140


def run(*command):
    """Runs a command; returns what is wrong, or None."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    return f"{' '.join(map(str, command))} ended with {done.returncode}, expected 0\n{done.stdout}{done.stderr}"


def kernels_of(folder):
    return {path.name: path.read_text() for path in sorted(folder.glob("*"))}


def compare_kernels(made, kept):
    """Compares the kernels that the compiler writes with the committed ones."""
    new, old = kernels_of(made), kernels_of(kept)
    if not new:
        return f"{made}: no kernels, expected at least one"
    if sorted(new) != sorted(old):
        return f"has the kernels {', '.join(old) or 'none'}, expected {', '.join(new)} (--update rewrites them)"
    for name in new:
        for number, (was, now) in enumerate(zip(old[name].split("\n"), new[name].split("\n")), 1):
            if was != now:
                return f"kernels/{name}:{number}: has '{was.strip()}', expected '{now.strip()}' (--update rewrites it)"
        if new[name] != old[name]:
            return f"kernels/{name}: one of two texts is the beginning of the other (--update rewrites it)"
    return None


def check_readme(path):
    if not path.is_file():
        return "no README.md"
    text = path.read_text().splitlines()
    if len(text) > README_LINES:
        return f"README.md has {len(text)} lines, expected at most {README_LINES}"
    for number, line in enumerate(text, 1):
        if len(line) > README_COLUMNS:
            return f"README.md:{number}: has {len(line)} columns, expected at most {README_COLUMNS}"
    return None


def check_figures(fusec, out, path):
    """Compares the launches and bytes in the text with those of `fusec explain`."""
    explained = subprocess.run([fusec, "explain", out], capture_output=True, text=True)
    if explained.returncode != 0:
        return f"fusec explain ended with {explained.returncode}, expected 0\n{explained.stderr}"
    figures = r"(\d+ launch(?:es)?)[^|]*?,?\s+([\d.]+ [KM]?B) moved"
    for label, word in (("before fusion", "Before"), ("after", "Now")):
        expected = re.search(rf"^ +{label} +{figures}", explained.stdout, re.M)
        found = re.search(rf"^\*\*{word}\*\*[^:]*: {figures}", path.read_text(), re.M)
        if expected is None or found is None or expected.groups() != found.groups():
            has = found.groups() if found else "no launches and bytes"
            return f"README.md: '{word}' has {has}, expected {expected.groups() if expected else explained.stdout}"
    return None


def check_example(fusec, example, models, work, update):
    """The (check, problem or None) of all checks of one example."""
    model, out = example / "model.onnx", work / example.name
    made_model = models / example.name / "model.onnx"
    same = made_model.is_file() and model.is_file() and made_model.read_bytes() == model.read_bytes()
    yield "model", None if same else "model.onnx is not what make_models.py writes"
    problem = run(fusec, model, "-o", out, "--target", "cpu,sm_90a")
    yield "compile", problem
    if problem is None:
        if update:
            shutil.rmtree(example / "kernels", ignore_errors=True)
            shutil.copytree(out / "kernels", example / "kernels")
        yield "kernels", compare_kernels(out / "kernels", example / "kernels")
        yield "answers", run(fusec, "verify", out, "--model", model, "--device", "cpu")
        yield "figures", check_figures(fusec, out, example / "README.md")
    yield "text", check_readme(example / "README.md")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fusec", type=pathlib.Path)
    parser.add_argument("root", type=pathlib.Path, nargs="?", default=pathlib.Path(__file__).parents[2])
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    fusec, folder = options.fusec.resolve(), options.root.resolve() / "examples" / "fusion"
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        models = work / "models"
        models.mkdir()
        results = [("make_models.py", "run", run(sys.executable, folder / "make_models.py", models))]
        examples = sorted({path.name for path in [*folder.iterdir(), *models.iterdir()] if path.name[:2].isdigit()})
        for example in examples:
            for what, problem in check_example(fusec, folder / example, models, work, options.update):
                results.append((example, what, problem))
        for example, what, problem in results:
            passed, failed = passed + (problem is None), failed + (problem is not None)
            if problem is not None:
                print(f"examples/fusion/{example}: {what}: {problem}")
    if not examples:
        print(f"{folder}: no examples, expected some")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
