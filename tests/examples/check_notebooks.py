#!/usr/bin/env python3
"""Executes the notebooks of examples/notebooks, and ends with "N passed, N failed". A cell that raises fails its notebook.

usage: check_notebooks.py SOURCE [--write]

SOURCE is the checkout; PYTHONPATH must contain the package. With --write, the outputs are stored in the notebooks. The stored outputs are
those of a GPU, so this must run on a machine that has one.
"""

import argparse
import os
import pathlib
import sys

import jupyter_client.kernelspec
import nbclient
import nbformat

SECONDS_PER_CELL = 300


class ThisPython(jupyter_client.kernelspec.KernelSpecManager):
    """Makes Jupyter kernels run in the interpreter of this script, whatever kernels are installed."""

    def get_kernel_spec(self, kernel_name):
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return jupyter_client.kernelspec.KernelSpec(argv=command, display_name="Python 3", language="python")


def executed(path):
    """Executes the notebook, and returns it with the outputs of this machine."""
    notebook = nbformat.read(path, as_version=4)
    manager = jupyter_client.AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisPython())
    client = nbclient.NotebookClient(notebook, km=manager, timeout=SECONDS_PER_CELL, resources={"metadata": {"path": str(path.parent)}})
    client.execute()
    return notebook


def store(notebook, path):
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day
        # Progress and warnings contain folders of this machine.
        cell.get("outputs", [])[:] = [output for output in cell.get("outputs", []) if output.get("name") != "stderr"]
    nbformat.write(notebook, path)


def complaints(path):
    """What is wrong with the stored outputs."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    found = [f"cell {cell.id} has no stored output" for cell in cells if not cell.outputs]
    if not any(" NVIDIA " in str(cell.outputs) for cell in cells):
        found.append("the stored outputs are not of a GPU")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="store the outputs")
    arguments = parser.parse_args()
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")

    failed = 0
    paths = sorted((arguments.source / "examples/notebooks").glob("*.ipynb"))
    for path in paths:
        try:
            notebook = executed(path)
            if arguments.write:
                store(notebook, path)
            wrong = complaints(path)
        except nbclient.exceptions.CellExecutionError as error:
            wrong = [str(error)]
        for line in wrong:
            print(f"{path.name}: {line}")
        failed += bool(wrong)
    print(f"{len(paths) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
