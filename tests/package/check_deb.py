#!/usr/bin/python3
"""Unpacks the .deb and the archive into folders of their own and uses them there.

    check_deb.py BUILD   a built tree; cpack makes its packages first

From each: the README's program is built by pkg-config and by CMake, and runs; the command line runs;
headers, documents, examples and completion are there, and no static library.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*command, **environment):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                            env={**os.environ, **environment})
    if result.returncode != 0:
        sys.exit(f"check_deb: {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def require(condition, text):
    if not condition:
        sys.exit(f"check_deb: {text}")


def check_files(prefix):
    for pattern in ("bin/sluice", "lib/**/libsluice.so", "lib/**/sluice.pc", "include/sluice/sluice.h",
                    "include/sluice/nn/functional.h", "share/doc/sluice/README.md",
                    "share/doc/sluice/docs/layers.md", "share/doc/sluice/examples/readme_example.cpp",
                    "share/bash-completion/completions/sluice", "share/zsh/vendor-completions/_sluice"):
        require(list(prefix.glob(pattern)), f"no {pattern} in the package")
    require(not list(prefix.glob("**/*.a")), "a static library is in the package")
    require("complete" in (prefix / "share/bash-completion/completions/sluice").read_text(), "no completion")


def check_programs(prefix, work):
    lib = next(prefix.glob("lib/**/libsluice.so")).parent
    source = ROOT / "examples" / "readme_example.cpp"
    flags = run("pkg-config", "--cflags", "--libs", "sluice", PKG_CONFIG_PATH=str(lib / "pkgconfig"),
                PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1", PKG_CONFIG_ALLOW_SYSTEM_LIBS="1").split()
    run("c++", "-std=c++20", source, *flags, "-o", work / "readme")
    first = run(work / "readme", LD_LIBRARY_PATH=str(lib))
    run("cmake", "-S", ROOT / "tests" / "package", "-B", work / "cmake", "-DPACKAGE_SHARED=ON",
        f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", work / "cmake")
    require(run(work / "cmake" / "package_test", LD_LIBRARY_PATH=str(lib)) == first and first, "other output")
    version = run(prefix / "bin" / "sluice", "version")
    require(version.startswith("sluice "), version)


def main():
    build = Path(sys.argv[1]).resolve()
    packages = build / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    run("cpack", "--config", build / "CPackConfig.cmake", "-B", packages)
    deb, archive = next(packages.glob("*.deb")), next(packages.glob("*.tar.xz"))
    control = run("dpkg-deb", "--field", deb)
    for line in ("Package: sluice", "Depends: "):
        require(line in control, f"no '{line}' in\n{control}")
    require("libfmt" in control, control)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        run("dpkg-deb", "-x", deb, folder / "deb")
        (folder / "tar").mkdir()
        run("tar", "-xf", archive, "-C", folder / "tar")
        for prefix in (folder / "deb" / "usr", next((folder / "tar").glob("**/bin")).parent):
            work = folder / ("work" + prefix.parts[len(folder.parts)])
            work.mkdir()
            check_files(prefix)
            check_programs(prefix, work)
    print(f"check_deb: {deb.name} and {archive.name} can be used")


if __name__ == "__main__":
    main()
