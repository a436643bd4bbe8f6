#!/usr/bin/env python3
"""Makes the Debian packages twice, and checks their names, files and dependencies, and that both builds are identical.

usage: check_packages.py BUILD_FOLDER CMAKE ROOT
"""

import gzip
import pathlib
import re
import sys
import tempfile

from serving import check, report, run

BUILD, CMAKE, ROOT = (pathlib.Path(argument).absolute() for argument in sys.argv[1:])
RELEASE = re.search(r'FUSEC_VERSION "(.*)"', (ROOT / "runtime/include/fusec/fusec.h").read_text()).group(1)
# package -> its files below /usr except documents, and the entries that its control file must have (.setup/packages.cmake has the reasons)
PACKAGES = {
    "fusec": (["bin/fusec", "share/man/man1/fusec.1.gz"], {"Depends": ["g++ | c++-compiler", "libc6", "libfmt9", "libgomp1", "zlib1g"], "Recommends": ["libdnnl2"]}),
    "libfusec-rt1": (
        ["lib/libfusec_rt.so.1", f"lib/libfusec_rt.so.1.{RELEASE}"],
        {"Depends": ["libc6", "libgomp1"], "Recommends": ["libdnnl2"]},
    ),
    "libfusec-dev": (
        ["include/fusec/fusec.h", "include/fusec/fusec.hpp", "lib/cmake/fusec/fusecConfig.cmake",
         "lib/cmake/fusec/fusecConfigVersion.cmake", "lib/cmake/fusec/fusecTargets-release.cmake",
         "lib/cmake/fusec/fusecTargets.cmake", "lib/libfusec_rt.so", "lib/pkgconfig/fusec.pc"],
        {"Depends": [f"libfusec-rt1 (= {RELEASE})"]},
    ),
}  # fmt: skip
# package -> the parts that are linked into its files, and a word of each part's license
PARTS = {
    "fusec": ["gcc-12-base", "libxxhash-dev", "libcli11-dev", "libexpected-dev", "libprotobuf-dev", "llvm-19-dev", "nlohmann-json3-dev", "onnx"],
    "libfusec-rt1": ["gcc-12-base", "libxxhash-dev"],
    "libfusec-dev": [],
}  # fmt: skip
COPYRIGHTS = {
    "gcc-12-base": "GCC RUNTIME LIBRARY EXCEPTION", "libxxhash-dev": "Yann Collet", "libcli11-dev": "University of Cincinnati",
    "libexpected-dev": "CC0", "libprotobuf-dev": "Google Inc.", "llvm-19-dev": "LLVM Exceptions",
    "nlohmann-json3-dev": "Niels Lohmann", "onnx": "ONNX Project Contributors",
}  # fmt: skip


def make(folder):
    """package -> its file"""
    fast = ("-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
    run(CMAKE.parent / "cpack", "--config", BUILD / "CPackConfig.cmake", "-G", "DEB", *fast, "-B", folder,
        environment={"SOURCE_DATE_EPOCH": "1700000000"})  # fmt: skip
    return {path.name.split("_")[0]: path for path in folder.glob("*.deb")}


def files_of(package, folder):
    run("dpkg-deb", "-x", package, folder)
    return sorted(str(path.relative_to(folder / "usr")) for path in folder.rglob("*") if not path.is_dir())


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        packages, again = make(folder / "packages"), make(folder / "again")

        def names():
            assert packages.keys() == PACKAGES.keys(), sorted(packages)

        def contents():
            for package, (wanted, _) in PACKAGES.items():
                found = files_of(packages[package], folder / package)
                documents = [f"share/doc/{package}/{name}" for name in ("changelog.gz", "copyright")]
                assert found == sorted(wanted + documents), f"{package}: {found}"

        def dependencies():
            for package, (_, fields) in PACKAGES.items():
                assert run("dpkg-deb", "-f", packages[package], "Version").strip() == RELEASE
                for field, wanted in fields.items():
                    value = run("dpkg-deb", "-f", packages[package], field).strip()
                    found = [part if part in wanted else part.split(" ")[0] for part in value.split(", ")]
                    assert set(wanted) <= set(found), f"{package} {field}: {value}"

        def copyright_is_told():  # that of fusec, and of everything that is linked in
            for package, parts in PARTS.items():
                text = (folder / package / "usr/share/doc" / package / "copyright").read_text()
                assert "License: none." in text, f"{package}: {text}"
                assert re.findall("^---- contains: (.*) ----$", text, re.M) == parts, f"{package}: {text}"
                assert all(COPYRIGHTS[part] in text for part in parts), f"{package}: {text}"

        def manual_has_all_verbs():
            page = gzip.decompress((folder / "fusec/usr/share/man/man1/fusec.1.gz").read_bytes()).decode()
            overview = run(folder / "fusec/usr/bin/fusec", "--help")
            verbs = re.findall(r"^       fusec ([a-z]+) ", overview, re.M)
            assert len(verbs) > 9 and re.findall("^.SH FUSEC (.*)$", page, re.M) == ["compile", *verbs], page[:2000]
            assert r"\-\-matmul\-precision" in page and not re.search("^['.](?!SH|TH|nf|fi)", page, re.M)

        def library_is_known():  # by the loader, and by packages that are linked with it
            control = folder / "control"
            run("dpkg-deb", "-e", packages["libfusec-rt1"], control)
            assert "ldconfig" in (control / "postinst").read_text()
            assert (control / "shlibs").read_text().strip() == f"libfusec_rt 1 libfusec-rt1 (>= {RELEASE})"

        def same_bytes():
            for package, path in packages.items():
                assert path.read_bytes() == again[package].read_bytes(), package

        def program_runs():
            assert RELEASE in run(folder / "fusec/usr/bin/fusec", "--version")

        for case in (names, contents, dependencies, copyright_is_told, manual_has_all_verbs, library_is_known, same_bytes, program_runs):
            check(case.__name__, case)
    return report()


sys.exit(main())
