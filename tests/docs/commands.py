"""Runs the commands of the documents, each page in a folder of its own, with small files in place of the user's."""
import array
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import time

import model_file
from pages import ROOT, commands

# A command that begins so is not run, because:
NOT_RUN = {
    "build/bin/char_gpt": "it takes minutes; example.char_gpt runs it with small numbers",
    "sluice launch -n 2 --replicas 4 python3 train.py": "the page's Python needs torch; python/tests runs it",
    "sluice schedule --stages 1024": "it takes half a minute; bench_schedule measures it",
}
TRAIN = "#!/bin/sh\necho \"trained on $*\"\n"


def write_npy(path, code, shape, values):
    header = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * ((-len(header) - 11) % 64) + "\n"
    kind = {"<f4": "f", "<i8": "q"}[code]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + array.array(kind, values).tobytes())


def write_digits(folder):
    """Files like those of MNIST, of noise."""
    folder.mkdir(parents=True)
    draw = random.Random(1)
    for prefix, count in (("train", 8000), ("t10k", 4000)):
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(
            struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28) + draw.randbytes(count * 784))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(
            struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(i % 10 for i in range(count)))


def furnish(folder, programs, prepare):
    """A place as the pages suppose it."""
    folder.mkdir()
    (folder / "build").mkdir()
    (folder / "build" / "bin").symlink_to(programs)
    (folder / "tests").symlink_to(ROOT / "tests")
    (folder / "docs" / "pictures").mkdir(parents=True)
    (folder / ".zfunc").mkdir()
    write_digits(folder / "data" / "mnist")
    write_npy(folder / "x.npy", "<f4", [64, 4], [(i % 7) / 7 for i in range(256)])
    write_npy(folder / "labels.npy", "<i8", [64], [i % 2 for i in range(64)])
    (folder / "tokens.bin").write_bytes(array.array("H", [i % 500 for i in range(60000)]).tobytes())
    (folder / "train").write_text(TRAIN)
    (folder / "train").chmod(0o755)
    subprocess.run([prepare], cwd=folder, check=True, capture_output=True)


def prepared(command, folder):
    """The command with its own model and the names that only a run knows."""
    model_file.write(folder / "model.onnx", "N" if "--dim" in command else 8)
    saved = sorted(folder.glob("run1/checkpoint-*.safetensors"))
    return re.sub(r"run1/checkpoint-\.+safetensors", str(saved[-1]) if saved else "none", command)


def check(programs, root, prepare):
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "SLUICE_CACHE_DIR": str(root / "cache"),
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    ran, unused = 0, set(NOT_RUN)
    for page, line, command in commands():
        folder = root / page
        if not folder.exists():
            furnish(folder, programs, prepare)
        if command.startswith("sluice launch") and shutil.which("mpirun") is None:
            continue
        reason = next((start for start in NOT_RUN if command.startswith(start)), None)
        if reason:
            unused.discard(reason)
            continue
        begun = time.monotonic()
        result = subprocess.run(["bash", "-c", prepared(command, folder)], cwd=folder, capture_output=True, text=True,
                                timeout=300, env={**environment, "HOME": str(folder)})
        if result.returncode != 0:
            sys.exit(f"{page}:{line}: '{command}' ends with {result.returncode}\n{result.stdout}{result.stderr}")
        ran += 1
        print(f"{time.monotonic() - begun:5.1f} s  {page}:{line}  {command}")
    for picture in ("four_devices.svg", "two_devices.svg"):
        if (root / "profiling.md" / "docs" / "pictures" / picture).read_bytes() != (ROOT / "docs" / "pictures" / picture).read_bytes():
            sys.exit(f"check_pages: docs/pictures/{picture} is not what docs/profiling.md draws")
    if unused:
        sys.exit(f"check_pages: no page has these commands any more: {sorted(unused)}")
    print(f"check_pages: {ran} commands ran, {len(NOT_RUN)} are not run")
