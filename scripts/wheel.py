#!/usr/bin/python3
"""Packs the built Python package into a wheel, for the interpreter that it was built with.

    scripts/wheel.py <package folder> <folder for the wheel>

The compiled module uses Debian's libraries, so the wheel is for machines that have them.
"""
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def version():
    return re.search(r"project\(Sluice VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def metadata():
    return {
        "METADATA": f"Metadata-Version: 2.1\nName: sluice\nVersion: {version()}\n"
                    "Summary: One neural network over many memory-limited devices\n"
                    "Requires-Python: >=3.10\nRequires-Dist: numpy\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: sluice\nRoot-Is-Purelib: false\n"
                 f"Tag: cp{sys.version_info[0]}{sys.version_info[1]}-cp{sys.version_info[0]}"
                 f"{sys.version_info[1]}-{sysconfig.get_platform().replace('-', '_')}\n",
    }


def main(package, target):
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        shutil.copytree(package, stage / "sluice", ignore=shutil.ignore_patterns("__pycache__"))
        info = stage / f"sluice-{version()}.dist-info"
        info.mkdir()
        for name, text in metadata().items():
            (info / name).write_text(text)
        Path(target).mkdir(parents=True, exist_ok=True)
        return subprocess.call([sys.executable, "-m", "wheel", "pack", str(stage), "-d", target])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
