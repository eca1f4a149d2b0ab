"""What the tests of programs share: running one, and saying what is wrong."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HUGE = "9" * 309  # more than a double holds


class Programs:
    """Runs programs of one folder."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def run(self, name, *args, code=0):
        """Standard output and errors of a run that must end with this code; None: with an error."""
        command = [str(self.folder / name), *map(str, args)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
        text = result.stdout + result.stderr
        check(result.returncode != 0 if code is None else result.returncode == code,
              f"{' '.join(command)}: exit code {result.returncode}, expected {code}\n{text}")
        return text


def check(condition, message):
    if not condition:
        sys.exit(f"tests of programs: {message}")


def number(pattern, text):
    found = re.search(pattern, text)
    check(found, f"no '{pattern}' in\n{text}")
    return float(found.group(1))
