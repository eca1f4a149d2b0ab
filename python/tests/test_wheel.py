"""The wheel has all of the package, and metadata that is true. The import says what is missing."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import sluice

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(sluice.__file__).parent
NEEDS_TOOLS = pytest.mark.skipif(
    shutil.which("readelf") is None
    or subprocess.run([sys.executable, "-c", "import wheel"], capture_output=True).returncode != 0,
    reason="needs the package wheel and readelf",
)


def pack(package, target):
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts/wheel.py"), str(package), str(target)],
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("wheel")
    packed = pack(PACKAGE, target)
    assert packed.returncode == 0, packed.stdout + packed.stderr
    (path,) = target.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield path, archive


def text_of(wheel, name):
    return wheel[1].read(f"sluice-{sluice.__version__}.dist-info/{name}").decode()


@NEEDS_TOOLS
class TestTheWheel:
    def test_has_every_file_of_the_package(self, wheel):
        names = set(wheel[1].namelist())
        for path in (ROOT / "python/sluice").rglob("*"):
            if path.suffix in (".py", ".pyi") or path.name == "py.typed":
                assert f"sluice/{path.relative_to(ROOT / 'python/sluice')}" in names
        assert f"sluice/_core{sysconfig.get_config_var('EXT_SUFFIX')}" in names
        assert not [name for name in names if "__pycache__" in name]

    def test_is_for_the_interpreter_and_the_platform_that_it_was_built_for(self, wheel):
        python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        assert wheel[0].name == f"sluice-{sluice.__version__}-{python}-{python}-linux_{os.uname().machine}.whl"

    def test_says_what_it_needs(self, wheel):
        metadata = text_of(wheel, "METADATA")
        assert "Requires-Dist: numpy\n" in metadata
        assert "Requires-External: libdnnl.so" in metadata
        assert f"Requires-Python: =={sys.version_info[0]}.{sys.version_info[1]}.*\n" in metadata
        assert sluice.__doc__.strip().splitlines()[0] in metadata

    def test_has_the_command_line_as_a_program(self, wheel):
        assert "sluice = sluice.__main__:main" in text_of(wheel, "entry_points.txt")


def test_a_package_without_the_compiled_part_makes_no_wheel(tmp_path):
    package = tmp_path / "sluice"
    package.mkdir()
    (package / "_core.cpython-300-none.so").touch()
    packed = pack(package, tmp_path / "out")
    assert packed.returncode != 0
    assert "cpython-300" in packed.stderr and "sluice_python" in packed.stderr


class TestImportingWithoutTheCompiledPart:
    def imported(self, folder):
        return subprocess.run(
            [sys.executable, "-c", "import sluice"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(folder)},
        ).stderr

    @pytest.fixture
    def folder(self, tmp_path):
        ignored = shutil.ignore_patterns("_core*.so", "__pycache__")
        shutil.copytree(ROOT / "python/sluice", tmp_path / "sluice", ignore=ignored)
        return tmp_path

    def test_names_the_interpreter(self, folder):
        (folder / "sluice/_core.cpython-300-none.so").touch()
        error = self.imported(folder).splitlines()[-1]
        assert error.startswith("ImportError") and "cpython-300" in error and "build" in error

    def test_names_a_library_that_is_missing(self, folder):
        (folder / "sluice/_core.py").write_text(
            "raise ImportError('libdnnl.so.2: cannot open shared object file: No such file or directory')"
        )
        error = self.imported(folder).splitlines()[-1]
        assert "libdnnl.so.2" in error and "libdnnl2" in error and "install" in error
