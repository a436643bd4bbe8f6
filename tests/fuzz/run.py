#!/usr/bin/env python3
"""Makes and judges random ONNX models. The last lines are a table of verdicts and the command that makes the same models again.

usage: run.py [--seed S] [--first N] [--models N] [--keep FOLDER]

Exit code 1: an answer is wrong, something crashed, or more than 1 in 100 elements could not be judged. ONNX's reference judges models that
onnxruntime does not run; an answer that differs only from it is doubtful, since the reference has mistakes of its own.
"""

import argparse
import collections
import json
import pathlib
import re
import shutil
import sys
import time

import found_models
import judging
import onnx
import onnxruntime_answers
from random_model import Model

MOST_UNJUDGED = 0.01  # share of all elements
BAD = ("wrong", "crash", "error", "refused", "lost", "not made")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first model's number")
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64, help="models that are compiled together")
    parser.add_argument("--gpu-text-share", type=float, default=0.25, help="share of batches whose GPU text runs on the CPU")
    parser.add_argument("--sm-90a-share", type=float, default=0.02, help="share of batches that NVRTC compiles, and g++ with -O1")
    parser.add_argument("--found", action="store_true", help="judge the models of tests/fuzz/found instead of random ones")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after this time, begin no batch")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for models that fail")
    parser.add_argument("--judge", type=pathlib.Path, default=judging.PROGRAM, help="the program model_judge")
    arguments = parser.parse_args()
    if arguments.found:
        arguments.first, arguments.models = 0, len(found_models.FILES)
    tally = Tally(arguments)
    with judging.scratch() as folder:
        run(arguments, pathlib.Path(folder), tally)
    sys.exit(tally.report())


def run(arguments, folder, tally):
    """Makes the next batch while another one is judged."""
    judges = {flags: None for flags in ((), ("--gpu-text",), ("--gpu-text", "--sm-90a"))}
    numbers = range(arguments.first, arguments.first + arguments.models)
    batches = [numbers[i : i + arguments.batch] for i in range(0, len(numbers), arguments.batch)]
    waiting = None
    for index, batch in enumerate(batches):
        if time.monotonic() - tally.begin > arguments.seconds:
            arguments.models = batch[0] - arguments.first
            break
        made = make(arguments, batch, folder)
        if waiting:
            waiting()
        flags = flags_of(index, arguments)
        if judges[flags] is None:
            judges[flags] = judging.Judge(folder, flags, arguments.judge)
        waiting = start(judges[flags], made, tally)
    if waiting:
        waiting()
    for judge in judges.values():
        if judge:
            judge.close()


def flags_of(index, arguments):
    """Every so many batches, spread evenly."""
    def is_due(share):
        return int((index + 1) * share) > int(index * share) or (index == 0 and share > 0)

    if is_due(arguments.sm_90a_share):
        return ("--gpu-text", "--sm-90a")
    return ("--gpu-text",) if is_due(arguments.gpu_text_share) else ()


def start(judge, made, tally):
    judge.start([item["folder"] for item in made if item["folder"]])

    def finish():
        verdicts = judge.verdicts()
        for item in made:
            verdict = verdicts.get(item["folder"], {"verdict": "lost"}) if item["folder"] else {"verdict": "not made", "reason": item["other"]}
            tally.add(item, verdict)

    return finish


def make(arguments, numbers, folder):
    """The result for each number: {"number", "folder", "other", "ran", "ops"}. A crash of onnxruntime costs one model, not the batch."""
    made = judging.in_a_copy(lambda: [make_one(arguments, number, folder) for number in numbers])
    if made is not None:
        return made
    for number in numbers:
        shutil.rmtree(folder / f"{number}", ignore_errors=True)
    made = []
    for number in numbers:
        one = judging.in_a_copy(lambda number=number: make_one(arguments, number, folder))
        made.append(one or {"number": number, "folder": None, "other": "crashed", "ran": False, "ops": []})
    return made


def make_one(arguments, number, folder):
    model = found_models.Model(number) if arguments.found else Model(arguments.seed, number)
    try:
        onnx.checker.check_model(model.proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as failure:
        return {"number": number, "folder": None, "other": f"invalid: {failure}"[:300], "ran": False, "ops": []}
    found, other = onnxruntime_answers.answers(model.proto, model.inputs)
    judging.write(folder / f"{number}", model.proto, model.inputs, found, other)
    return {"number": number, "folder": str(folder / f"{number}"), "other": other, "ran": found is not None,
            "ops": sorted({node.op_type for node in model.proto.graph.node})}  # fmt: skip


class Tally:
    def __init__(self, arguments):
        self.arguments, self.begin = arguments, time.monotonic()
        self.verdicts, self.others, self.ops = (collections.Counter() for _ in range(3))
        self.reasons = {}  # numbers of models, by what is unsupported
        self.elements = self.unjudged = 0

    def add(self, item, verdict):
        word = verdict["verdict"]
        if word == "refused" and not item["ran"]:
            word = "refused by all"
        if word == "wrong" and verdict["judge"] == "reference":
            word = "doubtful"
        self.verdicts[word] += 1
        self.others[item["other"] if item["ran"] else "none"] += 1
        self.ops.update(item["ops"])
        self.elements += verdict.get("elements", 0)
        self.unjudged += verdict.get("unjudged", 0)
        folder = pathlib.Path(item["folder"] or "")
        if word in (*BAD, "doubtful"):
            print(f"{word} {verdict.get('judge', '')}: {again(self.arguments, item['number'])}\n    {verdict.get('reason', '')[:700]}", flush=True)
            if self.arguments.keep and item["folder"]:
                kept = self.arguments.keep / f"{word}-{self.arguments.seed}-{item['number']}"
                shutil.copytree(folder, kept, dirs_exist_ok=True)
                (kept / "verdict.json").write_text(json.dumps(verdict))
        elif word == "unsupported":
            self.reasons.setdefault(shape_of(verdict["reason"]), []).append(item["number"])
        if item["folder"]:
            shutil.rmtree(folder, ignore_errors=True)

    def report(self):
        seconds = time.monotonic() - self.begin
        for reason, numbers in sorted(self.reasons.items(), key=lambda item: -len(item[1])):
            print(f"unsupported {len(numbers):6}  {reason} (as {numbers[0]})")
        print("judged beside", dict(self.others), "ops", len(self.ops))
        print(f"{sum(self.verdicts.values())} models in {seconds:.0f} s ({sum(self.verdicts.values()) / seconds:.1f} a second):", dict(self.verdicts))
        share = self.unjudged / max(1, self.elements)
        print(f"{self.unjudged} of {self.elements} elements could not be judged ({share:.4%}, at most {MOST_UNJUDGED:.0%})")
        print(again(self.arguments))
        failed = sum(self.verdicts[word] for word in BAD)
        passed = sum(self.verdicts.values()) - failed
        print(f"{passed} passed, {failed + (share > MOST_UNJUDGED)} failed")
        return 1 if failed or share > MOST_UNJUDGED else 0


def again(arguments, number=None):
    if arguments.found:
        return f"again: tests/fuzz/run.py --found ({found_models.FILES[number].name if number is not None else 'all'})"
    first, models = (arguments.first, arguments.models) if number is None else (number, 1)
    return f"again: tests/fuzz/run.py --seed {arguments.seed} --first {first} --models {models}"


def shape_of(words):
    """A message without the parts that differ from model to model."""
    words = re.sub(r"^.*?model\.onnx: ", "", words.split("\n")[0])
    words = re.sub(r'"[^"]*"', '"x"', words)
    words = re.sub(r"\[[^\]]*\]", "[..]", words)
    return re.sub(r"\d+", "N", words)


if __name__ == "__main__":
    main()
