#!/usr/bin/python3
"""Packs programs with all they need, for a machine that has Linux and a shell, but no packages.

    scripts/bundle.py [--folder DIR | --output FILE.tar.xz] NAMES...
    scripts/bundle.py --self-test

A name is a program of build/bin, a test program of build/release/tests or a path of this tree to take
along. Programs come stripped, with every shared library that they load, down to the C library and its
loader; only the driver's libcuda is the machine's own. What is in `bin` starts them.
"""
import argparse
import fnmatch
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["build/bin", "build/release/tests", "build/release/tools"]
LIMIT = 60 << 20
LOADER = "ld-linux-x86-64.so.2"
OF_THE_MACHINE = ["libcuda.so*"]  # belongs to the driver
# What programs read where they run: pattern of the program, files of the tree.
CUSTOM_OPS = "build/release/tests/custom/libcustom_*.so"
DATA = [("custom_op", "build/bin/swish_ops.so"), ("custom_ops_test", CUSTOM_OPS), ("shared_test", CUSTOM_OPS),
        ("onnx_import_test", "tests/onnx/models"), ("onnx_model", "tests/onnx/models/mnist.11.onnx"),
        ("char_gpt", "*.md"), ("char_gpt", "docs/*.md"), ("*", "LICENSE")]
# A program that starts itself again by its name meets this file, too.
START = """#!/bin/sh
# Starts the program of the same name with the libraries beside it.
folder=$(dirname "$0")/..
exec "$folder/lib/LOADER" --library-path "$folder/lib" --argv0 "$0" "$folder/programs/${0##*/}" "$@"
""".replace("LOADER", LOADER)
RUN = """#!/bin/sh
# ./run PROGRAM ARGUMENTS   a program of bin, in this folder
# ./run tests [NAMES]       test programs, all by default; a line each, and what failed
cd "$(dirname "$0")" || exit 1
SLUICE_RUN=$PWD/run  # for programs that ask the system for their file, which is the loader
export SLUICE_RUN
if [ "${1:-}" = tests ]; then
  shift
  [ $# -gt 0 ] || set -- $(cd programs && echo *_test)
  failed=
  for test in "$@"; do
    if "bin/$test" --gtest_brief=1 >test.log 2>&1; then
      echo "pass $test: $(tail -n 1 test.log)"
    else
      cat test.log
      echo "FAIL $test"
      failed="$failed $test"
    fi
  done
  rm -f test.log
  [ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
elif [ $# -gt 0 ] && [ -e "bin/$1" ]; then
  program=bin/$1
  shift
  exec "$program" "$@"
else
  echo "usage: ./run PROGRAM ARGUMENTS, or ./run tests [NAMES]; there are:"
  ls programs
  exit 2
fi
"""


def libraries(text):
    """Name and path of each library in what ldd prints, and the names of those it did not find."""
    found, missing = {}, []
    for line in text.splitlines():
        words = line.split()
        if not words or any(fnmatch.fnmatch(Path(words[0]).name, pattern) for pattern in OF_THE_MACHINE):
            continue
        if "not found" in line:
            missing.append(words[0])
        elif "=>" in words and words[2].startswith("/"):
            found[words[0]] = words[2]
        elif words[0].startswith("/"):
            found[Path(words[0]).name] = words[0]
    return found, missing


def locate(name):
    """The file of a program; None if there is none."""
    return next((ROOT / folder / name for folder in FOLDERS if (ROOT / folder / name).is_file()), None)


def data_for(programs):
    """Files of the tree that these programs read."""
    patterns = [files for program, files in DATA if any(fnmatch.fnmatch(name, program) for name in programs)]
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern)})


def add_libraries(files, target):
    for file in files:
        result = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=True)
        found, missing = libraries(result.stdout)
        if missing:
            sys.exit(f"bundle: {file.name} needs {', '.join(missing)}, not found here")
        for name, path in found.items():
            if not (target / name).exists():
                shutil.copy(path, target / name)  # the file behind the link
                subprocess.run(["strip", "--strip-unneeded", str(target / name)], check=True)


def add_path(path, target):
    """A file or folder of the tree, at its place; what belongs beside the programs goes there."""
    place = target / path.relative_to(ROOT)
    if path.parent == ROOT / "build/bin":
        place = target / "bin" / path.name
    place.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, place, dirs_exist_ok=True)
    else:
        shutil.copy(path, place)


def pack(names, target):
    """Fills the folder; returns the names of the programs."""
    programs, paths = {}, []
    for name in names:
        file = locate(name)
        if file:
            programs[name] = file
        elif (ROOT / name).exists():
            paths.append(ROOT / name)
        else:
            sys.exit(f"bundle: '{name}' is no program in {', '.join(FOLDERS)} and no path of this tree")
    for folder in ("bin", "lib", "programs", "tmp"):
        (target / folder).mkdir(parents=True, exist_ok=True)
    for name, file in programs.items():
        subprocess.run(["strip", "-s", "-o", str(target / "programs" / name), str(file)], check=True)
        write_script(target / "bin" / name, START)
    for path in [*data_for(programs), *paths]:
        add_path(path, target)
    add_libraries(programs.values(), target / "lib")
    write_script(target / "run", RUN)
    return list(programs)


def write_script(file, text):
    file.write_text(text)
    file.chmod(0o755)


def compress(folder, output):
    output.parent.mkdir(parents=True, exist_ok=True)
    tar = subprocess.Popen(["tar", "-C", str(folder.parent), "--sort=name", "--owner=0", "--group=0", "-c",
                            folder.name], stdout=subprocess.PIPE)
    # Programs hold the same modules: a large window finds them again, and does more than a high preset.
    with output.open("wb") as file:
        subprocess.run(["xz", "--lzma2=preset=1,dict=128MiB", "-c"], stdin=tar.stdout, stdout=file, check=True)
    if tar.wait() != 0:
        sys.exit("bundle: tar failed")


def self_test():
    found, missing = libraries("""\tlinux-vdso.so.1 (0x1)
\tlibdnnl.so.2 => /usr/lib/libdnnl.so.2 (0x2)
\tlibcuda.so.1 => not found
\tlibgone.so => not found
\t/lib64/ld-linux-x86-64.so.2 (0x3)
""")
    assert found == {"libdnnl.so.2": "/usr/lib/libdnnl.so.2", LOADER: "/lib64/" + LOADER}, found
    assert missing == ["libgone.so"], missing
    assert ROOT / "tests/onnx/models" in data_for(["onnx_import_test"])
    assert data_for(["mlp"]) == [ROOT / "LICENSE"], data_for(["mlp"])
    assert locate("no_such_program") is None
    print("bundle: self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="fill this folder and do not compress it")
    parser.add_argument("--output", type=Path, default=ROOT / "build/bundle.tar.xz")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args()
    if args.folder:
        programs = pack(args.names, args.folder.resolve())
        print(f"bundle: {len(programs)} programs in {args.folder}")
        return
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "bundle"
        programs = pack(args.names, target)
        compress(target, args.output)
        tests = sum(name.endswith("_test") for name in programs)
    size = args.output.stat().st_size
    print(f"{args.output}: {size / (1 << 20):.1f} MiB, {len(programs)} programs, {tests} of them tests\n"
          f"On the other machine:\n  tar -xf {args.output.name} && cd bundle\n  ./run {programs[0]} --help\n"
          f"  ./run tests        # all of them, or by name")
    if size > LIMIT:
        sys.exit(f"bundle: more than {LIMIT >> 20} MiB: name fewer programs")


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv[1:] else main())
