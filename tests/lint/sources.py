"""Helpers of the lint scripts: the files under version control, and reporting."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()


def files(*endings):
    """The tracked and new files with one of the endings, as paths relative to the root."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):  # a checkout without its history
        skipped = {".deps", ".git"}
        listed = [
            path.relative_to(ROOT).as_posix()
            for path in ROOT.rglob("*")
            if path.is_file() and not any(p in skipped or p.startswith("build") for p in path.relative_to(ROOT).parts[:-1])
        ]
    return sorted(name for name in listed if name.endswith(endings) and (ROOT / name).is_file())


def lines(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace").split("\n")


def report(checked, problems):
    """Prints the problems and the line that tests/run.sh counts; exits with 1 if there are any."""
    for problem in problems:
        print(problem)
    print(f"{checked - len({problem.split(':')[0] for problem in problems})} passed, {len(problems)} failed")
    sys.exit(1 if problems else 0)
