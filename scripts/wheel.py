#!/usr/bin/python3
"""Packs the built Python package into a wheel, for the interpreter that it was built with.

    scripts/wheel.py <package folder> <folder for the wheel>

The compiled module uses shared libraries of the system, so the wheel is for machines that have them; its
metadata lists them (Requires-External).
"""
import ast
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASE = re.compile(r"(ld-linux|lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+)\.so)")  # every system has these


def version():
    return re.search(r"project\(Sluice VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def compiled_module(package):
    """The module for this interpreter; a wheel with one for another could not be imported."""
    module = Path(package) / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not module.exists():
        found = ", ".join(each.name for each in Path(package).glob("_core*.so")) or "none"
        sys.exit(f"{package} has no {module.name}, the module for {sys.executable}; found: {found}. "
                 "Build the target sluice_python with this interpreter")
    return module


def libraries(module):
    """The shared libraries that the compiled module asks for."""
    text = subprocess.run(["readelf", "-d", str(module)], check=True, capture_output=True, text=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", text)
    return sorted(each for each in needed if not BASE.match(each))


def metadata(package):
    module = compiled_module(package)
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    lines = [
        "Metadata-Version: 2.1",
        "Name: sluice",
        f"Version: {version()}",
        "Summary: One neural network over many memory-limited devices",
        f"Requires-Python: =={sys.version_info[0]}.{sys.version_info[1]}.*",
        "Requires-Dist: numpy",
        "Requires-Dist: torch (>=1.13) ; extra == 'torch'",
        "Provides-Extra: torch",
        *(f"Requires-External: {each}" for each in libraries(module)),
        "Description-Content-Type: text/plain",
    ]
    description = ast.get_docstring(ast.parse((Path(package) / "__init__.py").read_text()))
    return {
        "METADATA": "\n".join(lines) + "\n\n" + description + "\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: sluice\nRoot-Is-Purelib: false\n"
                 f"Tag: {python}-{python}-{re.sub('[-.]', '_', sysconfig.get_platform())}\n",
        "entry_points.txt": "[console_scripts]\nsluice = sluice.__main__:main\n",
        "LICENSE": (ROOT / "LICENSE").read_text(),
    }


def main(package, target):
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        shutil.copytree(package, stage / "sluice", ignore=shutil.ignore_patterns("__pycache__"))
        info = stage / f"sluice-{version()}.dist-info"
        info.mkdir()
        for name, text in metadata(package).items():
            (info / name).write_text(text)
        Path(target).mkdir(parents=True, exist_ok=True)
        return subprocess.call([sys.executable, "-m", "wheel", "pack", str(stage), "-d", target])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
