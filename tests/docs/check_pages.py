#!/usr/bin/python3
"""Compiles and runs the C++ of the documents, runs their commands, and redraws their pictures.

    check_pages.py code LIBRARY FOLDER       LIBRARY: libsluice.so; FOLDER: of the programs
    check_pages.py commands LIBRARY FOLDER
    check_pages.py pictures FOLDER

Every ```cpp block of README.md and docs/*.md is compiled, and every indented block in which a line ends with a
semicolon. A block with a main() is a program, and must end with 0; so must the programs of tests/docs/programs,
which were written from the documents alone. A block that includes headers is a file of its own. All others run
as parts of one program, inside of what fragments.py has for their page.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import commands
import fragments
import model_file
from pages import ROOT, cpp_blocks

SCHEDULES = ("sequential", "grouped", "interleaved", "popart", "gpipe", "1f1b", "zb-h1", "zero-bubble", "chunked")


def run(command, what, folder=None):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=400, cwd=folder)
    if result.returncode != 0:
        sys.exit(f"check_pages: {what}\n{result.stdout}{result.stderr}")
    return result.stdout


class Compiler:
    """Compiles a text to a program in a folder, which has the library, and runs it there."""

    def __init__(self, library, folder):
        self.library, self.folder = Path(library).resolve(), Path(folder)

    def compile(self, text, what, *flags, linked=True):
        source, made = self.folder / "block.cpp", self.folder / "block"
        source.write_text(text)
        libraries = [self.library, "-lfmt", f"-Wl,-rpath,{self.library.parent}"] if linked else []
        run(["c++", "-std=c++20", "-O0", "-DFMT_SHARED", f"-I{ROOT}", source, *libraries, "-o", made, *flags], what)
        return made

    def run(self, text, what):
        run([self.compile(text, what)], f"{what}: the program fails", self.folder)


def check_code(library, tools):
    programs, files, parts = [], [], []
    for block in cpp_blocks():
        kind = programs if "int main(" in block[3] else files if "#include" in block[3] else parts
        kind.append(block)
    own = sorted((ROOT / "tests" / "docs" / "programs").glob("*.cpp"))
    with tempfile.TemporaryDirectory() as name:
        compiler = Compiler(library, name)
        for page, _, line, code in programs:
            compiler.run(f'#line {line} "{page}"\n{code}', f"{page}:{line}")
        for path in own:
            compiler.run(path.read_text(), path.name)
        for page, _, line, code in files:
            made = compiler.compile(f'#line {line} "{page}"\n{code}', f"{page}:{line}", "-shared", "-fPIC", linked=False)
            if page == "custom_ops.md":
                made.rename(Path(name) / "leaky_relu.so")
        os.environ["SLUICE_CACHE_DIR"] = name
        run([Path(tools).resolve() / "sluice", "calibrate"], "calibrate")  # for sim@measured
        model_file.write(Path(name) / "model.onnx")
        compiler.run(fragments.program(parts), "the blocks of the pages")
    print(f"check_pages: {len(programs) + len(own)} programs and {len(parts) - len(fragments.NOT_RUN)} blocks ran, "
          f"{len(files) + len(fragments.NOT_RUN)} other blocks compile")


def check_commands(library, folder):
    with tempfile.TemporaryDirectory() as name:
        compiler = Compiler(library, name)
        prepare = compiler.compile((ROOT / "tests" / "docs" / "prepare.cpp").read_text(), "prepare.cpp")
        commands.check(Path(folder).resolve(), Path(name), prepare)


def check_pictures(tools):
    program = Path(tools) / "sluice"
    table = dict(re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \|", (ROOT / "docs" / "schedules.md").read_text(), re.MULTILINE))
    if set(table) != set(SCHEDULES):
        sys.exit(f"check_pages: docs/schedules.md has {sorted(table)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in SCHEDULES:
            picture = Path(folder) / f"schedule_{name}.svg"
            text = run([program, "schedule", "--stages", 4, "--micro-batches", 8, "--schedule", name,
                        *(["--chunks", 2] if name == "chunked" else []), "--svg", picture], name)
            if picture.read_bytes() != (ROOT / "docs" / "pictures" / picture.name).read_bytes():
                sys.exit(f"check_pages: docs/pictures/{picture.name} is not what `sluice schedule` draws")
            if re.search(r"^makespan +([\d.]+)", text, re.MULTILINE)[1] != table[name]:
                sys.exit(f"check_pages: docs/schedules.md: the step of {name} is not {table[name]}")
    print(f"check_pages: {len(SCHEDULES)} pictures are current")


if __name__ == "__main__":
    {"code": check_code, "commands": check_commands, "pictures": check_pictures}[sys.argv[1]](*sys.argv[2:])
