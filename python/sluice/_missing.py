"""Why the compiled part of the package could not be loaded, in words that help."""

from __future__ import annotations

import os
import sys


def reason(error: ImportError) -> str:
    """The text of an error that says what to do."""
    folder = os.path.dirname(os.path.abspath(__file__))
    if "shared object file" in str(error):
        return (
            f"{error}. The compiled part of Sluice uses shared libraries of the system: install the package "
            "that has this one. On Debian 12 they are in libdnnl2, libfmt9, libgomp1, libhwy1, libonnx1, "
            "libprotobuf32, libspdlog1.10 and libzstd1"
        )
    built = [name for name in sorted(os.listdir(folder)) if name.startswith("_core.") and name.endswith(".so")]
    if not any(f"cpython-{sys.version_info[0]}{sys.version_info[1]}-" in name for name in built):
        return (
            f"{folder} has no compiled part for Python {sys.version_info[0]}.{sys.version_info[1]}, found: "
            f"{', '.join(built) or 'none'}. Use that interpreter, or build the target sluice_python with this one"
        )
    return str(error)
