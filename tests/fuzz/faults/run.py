#!/usr/bin/env python3
"""Puts small faults into passes and planners, one at a time, and reports which judge finds each.

usage: run.py [--build FOLDER] [--only WORDS] [--first N] [--faults N] [--ask PROGRAM:TESTS] [--work FOLDER] [--jobs N] [--minutes N]
              [--table FILE.md]
       run.py --compile --work FOLDER      compiles and links what the judges need, and asks none
       run.py --check      every fault still names text that its file has exactly once; builds nothing

A fault changes one place of one source file; no file of the checkout is modified. The judges are linked with the compiler as a shared
library, and before it with `libfault.so`, whose functions replace those of the library. Each fault is one such file, compiled from the
changed source file alone, so that judges are linked only once. All files are kept in FOLDER, with which another machine can continue that
has neither the build nor its libraries.

Judges run in order of speed until one that compares answers finds the fault. Goldens, which only detect that a text has changed, run for
each fault and are listed separately. The test that found a fault must fail a second time, and pass without the fault. Times are seconds of
CPU time, so that other work on the machine changes neither a verdict nor the table. Exit code 1: no judge of answers finds some fault, and
its entry in faults.txt gives no reason for that.
"""

import argparse
import concurrent.futures
import functools
import hashlib
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
import threading
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
MOST_SECONDS = 900  # CPU time for the process of one judge; one that takes longer counts as having found nothing
MOST_SECONDS_ASLEEP = 7200  # wall-clock time, for a process that hangs
ENDLESS, CRASHES = "does not end", " crashes"
os.environ.setdefault("FUSEC_PROPERTY_RUNS", "100")  # random graphs of each property
os.environ.setdefault("OMP_NUM_THREADS", "1")  # of a judge, of which as many run as there are processors


class Judge(typing.NamedTuple):
    name: str
    program: str
    tests: str  # a filter of GoogleTest
    settings: dict = {}  # of the environment


# Judges that detect a changed text: graphs after passes, kernels.
GOLDENS = [Judge("graphs", "passes_tests", "All/Passes.*"), Judge("kernels", "codegen_tests", "Goldens.TextsAreTheSame")]
# Judges that compare answers, or weights that are recomputed as passes recorded it; the fastest first.
JUDGES = [
    Judge("lineage", "passes_tests", "*Lineage*"),
    Judge("cases of passes", "property_tests", "PassesProperty.EachPassChanges*"),
    Judge("graphs of cases", "property_tests", "CaseGraphs.*"),
    Judge("graphs", "property_tests",
          "PassesProperty.*:SegmentsProperty.*:AlgebraProperty.*:ChannelsLastProperty.*:*ComputeTheSame:RequestsProperty.SplitKeepsMeaning:"
          "IndexPolicy*Interpreter*:*.TextKeepsMeaning"),
    Judge("cpu code", "property_tests",
          "CodegenProperty.Cpu*:CodegenProperty.Rounding*:*CpuAnswersMatch:*MatchOnTheCpu*:IndexPolicy*OnTheCpu*:"
          "SharedValues.*:CountedRows.*:Of/PointwiseOps.*:Of/StructuralOps.*:Of/Recurrences.AnswersMatch*"),
    Judge("gpu text", "property_tests",
          "*Property.GpuAnswers*:CodegenProperty.Rows*:CodegenProperty.PlansForGpu:*OpsOnGpu*:*Pairs*.AnswersMatch*:"
          "*Prologue*.AnswersMatch*:*SlotMatMul*:BlockProgram*:SharedProduct*:Of/Recurrences.AnswersOnGpu*:IndexPolicy*Kernels*:"
          "MemoryPlaces.*:StackProperty.*:JoinProperty.*:RequestsProperty.Epilogues*"),
    Judge("kernels", "codegen_tests", "Goldens.Answers*"),
    Judge("models", "property_tests", "All/ModelsProperty.*"),
    Judge("unit tests", "unit_tests", "*"),
    Judge("attention, products", "property_tests",
          "Attention*:Emulation.ProductsAreRight:CodegenProperty.Candidates*:CodegenProperty.Products*"),
    Judge("emulation", "property_tests", "Attention*:BlockProgram*", {"FUSEC_PROPERTY_DEVICE": "emulation"}),
]
OF_GRAPHS = 4  # number of judges, at the beginning of the list, that look only at graphs


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
    """Reads blocks of `FILE: what goes wrong`, `- right text`, `+ wrong text` and, if no answer can show the fault, `= why`."""
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
    """Builds the judges, and a library for each fault, in `folder`, with the commands of the build."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder

    def library_folder(self, fault):
        """The folder of a fault's libfault.so; without a fault, that of an empty one."""
        key = f"{fault.file}|{fault.apply()}" if fault else "none"
        return self.folder / "faults" / hashlib.sha256(key.encode()).hexdigest()[:16]

    def library(self, fault):
        """The folder of libfault.so, which is built if it does not exist."""
        folder = self.library_folder(fault)
        if not (folder / "libfault.so").exists():
            folder.mkdir(parents=True, exist_ok=True)
            source = folder / (pathlib.Path(fault.file).name if fault else "none.cc")
            source.write_text(fault.apply() if fault else "")
            words = self.compile_command(fault) if fault else ["c++", "-fPIC"]
            self.call([*words, "-c", source, "-o", folder / "fault.o"], f"{fault.file}: {fault.wrong}" if fault else "nothing")
            self.call(["c++", "-shared", "-s", "-Wl,-soname,libfault.so", folder / "fault.o", "-o", folder / "libfault.so"], "a library")
            (folder / "fault.o").unlink()
        return folder

    @functools.cached_property
    def commands(self):
        """By file, of those of the compiler."""
        entries = json.loads((self.build / "compile_commands.json").read_text())
        return {entry["file"]: entry["command"] for entry in entries if "fusec_compiler.dir" in entry["output"]}

    def compile_command(self, fault):
        """That of the file, without its names."""
        words = shlex.split(self.commands[str(ROOT / fault.file)])
        for option in ("-o", "-c"):
            at = words.index(option)
            del words[at:at + 2]
        return [*words, "-Wno-error", "-w"]  # a fault may leave something unused

    def link_command(self, program):
        commands = subprocess.run(["ninja", "-t", "commands", program], cwd=self.build, capture_output=True, text=True, check=True)
        words = shlex.split(commands.stdout.splitlines()[-1].split("&&")[1])
        del words[words.index("-o"):words.index("-o") + 2]
        return [word for word in words if not word.startswith("-static-lib")]

    def programs(self):
        """Links the judges' programs that are not there."""
        folder = self.folder / "programs"
        folder.mkdir(parents=True, exist_ok=True)
        compiler = folder / "libcompiler.so"
        lld = ["-fuse-ld=lld"] if pathlib.Path("/usr/bin/ld.lld").exists() else []
        for program in sorted({judge.program for judge in GOLDENS + JUDGES}):
            if (folder / program).exists():
                continue
            words = self.link_command(program)
            of_compiler = [word for word in words if "/fusec_compiler.dir/" in word]
            if not compiler.exists():
                # Code that reads ONNX stays in the program, since protobuf's static archive cannot go into a shared library.
                archives = [word for word in words if word.endswith(".a") and re.search(r"fusec_(templates|runtime)|LLVM", word)]
                self.call(["c++", "-shared", "-s", *lld, "-Wl,-soname,libcompiler.so", *of_compiler, *archives, "-fopenmp", "-lz", "-ldl", "-o", compiler],
                          "the compiler as a library")
            others = [word for word in words if word not in of_compiler]
            at = next(i for i, word in enumerate(others) if word.endswith(".a"))
            libraries = ["-Wl,--no-as-needed", self.library(None) / "libfault.so", compiler, "-Wl,--as-needed"]
            self.call([*others[:at], *libraries, *others[at:], *lld, "-s", "-o", folder / program], program)
        return folder

    def call(self, words, what):
        done = subprocess.run([str(word) for word in words], cwd=self.build, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"does not compile or link: {what}\n{done.stderr[:2000]}")


def run_limited(words, cwd, environment):
    """The exit status, the output, and the seconds of CPU time."""
    with tempfile.TemporaryFile() as output:
        limit = (MOST_SECONDS, MOST_SECONDS + 10)
        process = subprocess.Popen(words, cwd=cwd, env=environment, stdout=output, stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit))
        timer = threading.Timer(MOST_SECONDS_ASLEEP, process.kill)
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        timer.cancel()
        output.seek(0)
        return process.returncode, output.read().decode(errors="replace"), used.ru_utime + used.ru_stime


def ask(judge, folder, library, cwd):
    """What the judge finds with the library, or None; and the seconds of CPU time."""
    words = [str(folder / judge.program), f"--gtest_filter={judge.tests}", "--gtest_fail_fast"]
    environment = os.environ | judge.settings | {"LD_LIBRARY_PATH": f"{library}:{folder}"}
    code, output, seconds = run_limited(words, cwd, environment)
    if code == -signal.SIGXCPU or seconds >= MOST_SECONDS or code == -signal.SIGKILL:
        return ENDLESS, seconds
    if code == 0:
        return None, seconds
    failed = re.findall(r"^\[  FAILED  \] ([\w/.]+)", output, re.M)
    started = re.findall(r"^\[ RUN      \] ([\w/.]+)", output, re.M)
    if failed:
        return failed[0], seconds
    return (started[-1] if started else "") + CRASHES, seconds


def judges_of(fault):
    """The judges in their order. Faults in plans and kernels change no graph, so judges of graphs come last for them."""
    judges = JUDGES if fault.file.startswith("passes/") else JUDGES[OF_GRAPHS:] + JUDGES[:OF_GRAPHS]
    return judges[:OF_GRAPHS] if fault.equal else judges


def try_fault(fault, asks, asked):
    """The row of the table, by `asked` alone if it is a judge. `asks(judge)` is what it finds, and the seconds."""
    row = {"file": fault.file, "what": fault.what, "goldens": None, "judge": None, "test": None, "equal": fault.equal, "seconds": 0.0}
    for judge in [] if asked else GOLDENS:
        row["goldens"] = row["goldens"] or asks(judge)[0]
    for judge in [asked] if asked else judges_of(fault):
        test, seconds = asks(judge)
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
    parser.add_argument("--work", type=pathlib.Path, help="a folder that keeps what was linked and answered: a run that was ended goes on there")
    parser.add_argument("--compile", action="store_true", help="compile and link only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of judges that run at the same time")
    parser.add_argument("--minutes", type=float, default=10**6, help="after this time, start no judge")
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
        chosen = chosen[arguments.first:][: arguments.faults]
        rows = run(chosen, arguments, work, asked)
    if arguments.table:
        arguments.table.write_text(table(rows))
    missed = [row for row in rows if not row["judge"] and not row["equal"]]
    for row in missed:
        print(f"no judge of answers finds: {row['file']}: {row['what']}")
    late = 0 if arguments.compile else len(chosen) - len(rows)
    if late:
        print(f"{late} not ended in {arguments.minutes} minutes; the same command goes on")
    print(f"{len(rows) - len(missed)} passed, {len(missed) + late} failed")
    sys.exit(bool(missed or late))


def passes():
    """Of passes.def: those that have a file of their own name."""
    names = re.findall(r'^FUSEC_PASS\("([\w-]+)"', (ROOT / "passes/passes.def").read_text(), re.M)
    return [name.replace("-", "_") for name in names]


class OutOfTime(Exception):
    """The minutes that were given are over."""


class Answers:
    """The verdicts so far, kept in a file, so that an interrupted run can continue."""

    def __init__(self, file):
        self.file, self.lock = file, threading.Lock()
        self.known = json.loads(file.read_text()) if file.exists() else {}

    def get(self, key, make):
        with self.lock:
            if key in self.known:
                return self.known[key]
        answer = make()
        with self.lock:
            self.known[key] = answer
            self.file.write_text(json.dumps(self.known, indent=1))
        return answer


def run(faults, arguments, work, asked):
    builder = Builder(arguments.build.resolve(), work)
    pool = concurrent.futures.ThreadPoolExecutor(arguments.jobs)
    for library in [pool.submit(builder.library, fault) for fault in [None, *faults]]:
        library.result()
    folder = builder.programs()
    if arguments.compile:
        return []
    answers = Answers(work / "answers.json")
    end = time.monotonic() + 60 * arguments.minutes

    def asks_of(fault):
        def finds(library, judge):
            if time.monotonic() > end:
                raise OutOfTime
            return ask(judge, folder, library, ROOT)

        def confirmed(judge):
            library = builder.library_folder(fault)
            test, seconds = finds(library, judge)
            if not test or test == ENDLESS:
                return test, seconds
            alone = judge._replace(tests=test.removesuffix(CRASHES))
            return (test if finds(library, alone)[0] and not finds(builder.library_folder(None), alone)[0] else None), seconds

        def asks(judge):
            key = f"{builder.library_folder(fault).name}|{judge.program}|{judge.tests}|{judge.settings}"
            return answers.get(key, lambda: confirmed(judge))
        return asks

    rows = {}
    futures = {pool.submit(try_fault, fault, asks_of(fault), asked): fault for fault in faults}
    for future in concurrent.futures.as_completed(futures):
        try:
            row = future.result()
        except OutOfTime:
            continue
        rows[futures[future]] = row
        print(f"{row['judge'] or 'NONE':10} {row['seconds']:6.1f} s  {row['file']}: {row['what']}", flush=True)
    return [rows[fault] for fault in faults if fault in rows]


if __name__ == "__main__":
    main()
