#!/usr/bin/env python3
"""Compares the machine code of two artifacts, or of two folders of artifacts, and lists the kernels whose instructions differ.

  usage: compare_machine_code.py OLD NEW

A change of only names, comments or the order of declarations leaves the instructions of every kernel as they were. Kernels are matched by
name; kernels that one side lacks are matched by equal instructions under another name. Exits with 1 if any kernel differs.
"""

import pathlib
import struct
import sys


def kernels(artifact):
    """{kernel: its instructions}: the sections .text.NAME of the artifact's cubins, which are ELF files."""
    found = {}
    for file in sorted((artifact / "cubin").glob("*.cubin")):
        data = file.read_bytes()
        (offset,) = struct.unpack_from("<Q", data, 0x28)  # of the section headers
        entry_bytes, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
        headers = [struct.unpack_from("<IIQQQQ", data, offset + i * entry_bytes) for i in range(count)]
        names_offset = headers[names_at][4]
        for name, _, _, _, start, size in headers:
            end = data.index(b"\0", names_offset + name)
            text = data[names_offset + name : end].decode()
            if text.startswith(".text."):
                found[text.removeprefix(".text.")] = data[start : start + size]
    return found


def artifacts(folder):
    """{name: folder of an artifact}, of one artifact or of a folder of them."""
    if (folder / "manifest.json").exists():
        return {"": folder}
    return {manifest.parent.name: manifest.parent for manifest in sorted(folder.glob("*/manifest.json"))}


def compare(old, new):
    """The number of equal kernels, the names of different ones, and the names that only one side has."""
    renamed = {code for name, code in old.items() if name not in new} & {code for name, code in new.items() if name not in old}
    only = [f"- {name}" for name, code in old.items() if name not in new and code not in renamed]
    only += [f"+ {name}" for name, code in new.items() if name not in old and code not in renamed]
    both = old.keys() & new.keys()
    return len(both), sorted(name for name in both if old[name] != new[name]), only


def main():
    old, new = (artifacts(pathlib.Path(path)) for path in sys.argv[1:3])
    total = differing = 0
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            print(f"{name}: only in {'the second' if name in new else 'the first'}")
            differing += 1
            continue
        count, different, only = compare(kernels(old[name]), kernels(new[name]))
        total += count
        differing += len(different) + len(only)
        for kernel in different + only:
            print(f"{name}: {kernel}")
    print(f"{total} kernels compared, {differing} differ")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
