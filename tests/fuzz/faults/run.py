#!/usr/bin/env python3
"""Puts small faults into passes and planners, one at a time, and says which judge finds each.

usage: run.py [--build FOLDER] [--only WORDS] [--first N] [--faults N] [--ask PROGRAM:TESTS] [--work FOLDER] [--table FILE.md]
       run.py --check      every fault still names text that its file has exactly once; builds nothing

A fault changes one place of one source file. That file alone is compiled and linked in the place of the true one; no file of the checkout is
touched. Judges run in order of speed until one that compares answers finds the fault; goldens, which only see that a text is another, run
for each fault and are named beside it. Seconds are of a processor, so that other work on the machine changes neither a verdict nor the table.
Exit code 1: a fault that no judge of answers finds, unless its line in faults.txt says why none can.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
MOST_SECONDS = 900  # of a processor, for the process of one judge. One that takes longer has found nothing
MOST_SECONDS_ASLEEP = 7200  # on the clock, for one that waits and never goes on
ENDLESS = "does not end"
os.environ.setdefault("FUSEC_PROPERTY_RUNS", "100")  # random graphs of each property


class Judge(typing.NamedTuple):
    name: str
    program: str
    tests: str  # a filter of GoogleTest
    settings: dict = {}  # of the environment


# What sees that a text is another: graphs behind passes, kernels.
GOLDENS = [Judge("graphs", "passes_tests", "All/Passes.*"), Judge("kernels", "codegen_tests", "Goldens.TextsAreTheSame")]
# What compares answers, or weights that are made again by what a pass says it made them of; the fastest first.
JUDGES = [
    Judge("lineage", "passes_tests", "*Lineage*"),
    Judge("cases of passes", "property_tests", "PassesProperty.EachPassChanges*"),
    Judge("graphs", "property_tests",
          "PassesProperty.*:SegmentsProperty.*:AlgebraProperty.*:ChannelsLastProperty.*:*ComputeTheSame:RequestsProperty.SplitKeepsMeaning:"
          "IndexPolicy*Interpreter*:*.TextKeepsMeaning"),
    Judge("cpu code", "property_tests",
          "CaseGraphs.Cpu*:CodegenProperty.Cpu*:CodegenProperty.Rounding*:*CpuAnswersMatch:*MatchOnTheCpu*:IndexPolicy*OnTheCpu*:"
          "SharedValues.*:CountedRows.*:Of/PointwiseOps.*:Of/StructuralOps.*:Of/Recurrences.AnswersMatch*"),
    Judge("gpu text", "property_tests",
          "CaseGraphs.Gpu*:*Property.GpuAnswers*:CodegenProperty.Rows*:CodegenProperty.PlansForGpu:*OpsOnGpu*:*Pairs*.AnswersMatch*:"
          "*Prologue*.AnswersMatch*:*SlotMatMul*:BlockProgram*:SharedProduct*:Of/Recurrences.AnswersOnGpu*:IndexPolicy*Kernels*:"
          "MemoryPlaces.*:StackProperty.*:JoinProperty.*:RequestsProperty.Epilogues*"),
    Judge("kernels", "codegen_tests", "Goldens.Answers*"),
    Judge("models", "property_tests", "All/ModelsProperty.*"),
    Judge("unit tests", "unit_tests", "*"),
    Judge("attention, products", "property_tests",
          "Attention*:Emulation.ProductsAreRight:CodegenProperty.Candidates*:CodegenProperty.Products*"),
    Judge("emulation", "property_tests", "Attention*:BlockProgram*", {"FUSEC_PROPERTY_DEVICE": "emulation"}),
]
OF_GRAPHS = 3  # the first judges, which look at graphs alone


class Fault:
    """One block of faults.txt."""

    def __init__(self, file, what, right, wrong, equal):
        self.file, self.what, self.right, self.wrong, self.equal = file, what, right, wrong, equal

    def apply(self):
        """The file's text with the fault in it."""
        text = (ROOT / self.file).read_text()
        count = text.count(self.right)
        if count != 1:
            raise SystemExit(f"faults.txt: {self.file} has {count} times, not once: {self.right}")
        return text.replace(self.right, self.wrong)


def read_faults():
    """Blocks of `FILE: what goes wrong`, `- right`, `+ wrong` and, where no answer can tell, `= why`."""
    faults = []
    for block in (HERE / "faults.txt").read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        file, what = lines[0].split(": ", 1)
        parts = {mark: "\n".join(line[2:] for line in lines[1:] if line[0] == mark) for mark in "-+="}
        faults.append(Fault(file, what, parts["-"], parts["+"], parts["="]))
    return faults


class Builder:
    """Compiles one file and links programs with it, by the commands of the build."""

    def __init__(self, build, work):
        self.build, self.work = build, work
        self.links = {}
        self.compiles = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())
                         if "fusec_compiler.dir" in entry["output"]}

    def compile(self, fault):
        """The object of the faulty file, or None where it does not compile."""
        entry = self.compiles[str(ROOT / fault.file)]
        source = self.work / pathlib.Path(fault.file).name
        source.write_text(fault.apply())
        words = shlex.split(entry["command"])
        words[words.index("-o") + 1] = str(self.work / "faulty.o")
        words[words.index("-c") + 1] = str(source)
        words += ["-Wno-error", "-w"]  # what a fault leaves unused
        self.true_object = entry["output"]
        done = subprocess.run(words, cwd=self.build, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{fault.file}: the fault does not compile: {fault.wrong}\n{done.stderr[:2000]}")

    def link(self, program):
        """The program with the faulty object."""
        if program not in self.links:
            commands = subprocess.run(["ninja", "-t", "commands", program], cwd=self.build, capture_output=True, text=True, check=True)
            self.links[program] = shlex.split(commands.stdout.splitlines()[-1].split("&&")[1])
        words = list(self.links[program])
        words[words.index("-o") + 1] = str(self.work / program)
        words[words.index(self.true_object)] = str(self.work / "faulty.o")
        if pathlib.Path("/usr/bin/ld.lld").exists():
            words.append("-fuse-ld=lld")
        subprocess.run(words, cwd=self.build, check=True)
        return self.work / program


def processor_seconds():
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ask(judge, program, build):
    """What the program fails with, or None; and the seconds that it took."""
    begin = processor_seconds()
    words = [str(program), f"--gtest_filter={judge.tests}", "--gtest_fail_fast"]
    try:
        done = subprocess.run(words, cwd=build, env=os.environ | judge.settings, capture_output=True, text=True, errors="replace",
                              timeout=MOST_SECONDS_ASLEEP,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 10)))
    except subprocess.TimeoutExpired:
        return ENDLESS, processor_seconds() - begin
    seconds = processor_seconds() - begin
    if done.returncode == -signal.SIGXCPU:
        return ENDLESS, seconds
    if done.returncode == 0:
        return None, seconds
    failed = re.findall(r"^\[  FAILED  \] ([\w/.]+)", done.stdout, re.M)
    started = re.findall(r"^\[ RUN      \] ([\w/.]+)", done.stdout, re.M)
    if failed:
        return failed[0], seconds
    return f"{started[-1] if started else program.name} crashes", seconds


def judges_of(fault):
    """In their order. Plans and kernels change no graph, so that what judges graphs comes last there."""
    judges = JUDGES if fault.file.startswith("passes/") else JUDGES[OF_GRAPHS:] + JUDGES[:OF_GRAPHS]
    return judges[:OF_GRAPHS] if fault.equal else judges


def try_fault(fault, builder, asked):
    """The row of the table, by `asked` alone if it is a judge."""
    builder.compile(fault)
    row = {"file": fault.file, "what": fault.what, "goldens": None, "judge": None, "test": None, "equal": fault.equal, "seconds": 0.0}
    for judge in [] if asked else GOLDENS:
        row["goldens"] = row["goldens"] or ask(judge, builder.link(judge.program), builder.build)[0]
    linked = {}
    for judge in [asked] if asked else judges_of(fault):
        if judge.program not in linked:
            linked[judge.program] = builder.link(judge.program)
        test, seconds = ask(judge, linked[judge.program], builder.build)
        row["seconds"] += seconds
        if test == ENDLESS:
            row["test"] = f"{judge.name} {ENDLESS}"
        elif test:
            row["judge"], row["test"] = judge.name, test
            break
    return row


def table(rows):
    """Markdown."""
    lines = ["| file | fault | found by | test | after s | goldens |", "|---|---|---|---|---|---|"]
    for row in rows:
        found = row["judge"] or (f"none: {row['equal']}" if row["equal"] else "**none**")
        golden = "yes" if row["goldens"] else "no"
        lines.append(f"| `{row['file']}` | {row['what']} | {found} | {row['test'] or ''} | {row['seconds']:.0f} | {golden} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="", help="faults whose file or words have this")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--faults", type=int, default=10**6)
    parser.add_argument("--ask", metavar="PROGRAM:TESTS", help="these tests alone, and no goldens: property_tests:CaseGraphs.*")
    parser.add_argument("--work", type=pathlib.Path, help="a folder that keeps rows.json: a run that was ended goes on there")
    parser.add_argument("--table", type=pathlib.Path)
    arguments = parser.parse_args()
    faults = read_faults()
    for fault in faults:
        fault.apply()
    if arguments.check:
        untouched = [name for name in passes() if not any(fault.file == f"passes/{name}.cc" for fault in faults)]
        print(*(f"faults.txt: passes/{name}.cc has none" for name in untouched), sep="\n", end="\n" if untouched else "")
        print(f"{len(faults)} passed, {len(untouched)} failed")
        sys.exit(bool(untouched))
    chosen = [fault for fault in faults if arguments.only in f"{fault.file}: {fault.what}"]
    with tempfile.TemporaryDirectory() as scratch:
        work = (arguments.work or pathlib.Path(scratch)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        asked = Judge(arguments.ask, *arguments.ask.split(":", 1)) if arguments.ask else None
        rows = run(chosen[arguments.first:][: arguments.faults], arguments.build.resolve(), work, asked)
    if arguments.table:
        arguments.table.write_text(table(rows))
    missed = [row for row in rows if not row["judge"] and not row["equal"]]
    for row in missed:
        print(f"no judge of answers finds: {row['file']}: {row['what']}")
    print(f"{len(rows) - len(missed)} passed, {len(missed)} failed")
    sys.exit(bool(missed))


def passes():
    """Of passes.def: those that have a file of their own name."""
    names = re.findall(r'^FUSEC_PASS\("([\w-]+)"', (ROOT / "passes/passes.def").read_text(), re.M)
    return [name.replace("-", "_") for name in names]


def run(faults, build, work, asked):
    kept = work / "rows.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    builder = Builder(build, work)
    rows = []
    for fault in faults:
        key = f"{fault.file}|{fault.right}|{fault.wrong}|{asked.name if asked else ''}"
        if key not in known:
            known[key] = try_fault(fault, builder, asked)
            kept.write_text(json.dumps(known, indent=1))
        row = known[key]
        rows.append(row)
        print(f"{row['judge'] or 'NONE':10} {row['seconds']:6.1f} s  {fault.file}: {fault.what}", flush=True)
    return rows


if __name__ == "__main__":
    main()
