"""What the examples share: numbers with limits, errors as one line, exit codes, a progress line.

Exit codes: 0 done, 1 failed (a file, the machine, a loss that is not finite), 2 wrong usage, 130 after
Ctrl-C.
"""

import argparse
import json
import math
import os
import shutil
import sys
import time
from pathlib import Path


class UsageError(Exception):
    """The command line is at fault."""


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the examples and adds the defaults."""


def parser(description, examples):
    """A parser whose help ends with examples and the exit codes."""
    codes = "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 after Ctrl-C."
    return argparse.ArgumentParser(
        description=description, epilog=f"examples:\n{examples}\n\n{codes}", formatter_class=_Help
    )


def whole_number(least, most=1_000_000_000):
    """For add_argument(type=...): a whole number in these limits."""

    def read(text):
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"expected a whole number, {least} to {most}, got {text!r}"
            )
        return value

    return read


def real_number(least):
    """For add_argument(type=...): a finite number that is not smaller."""

    def read(text):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < least:
            raise argparse.ArgumentTypeError(f"expected a number, at least {least}, got {text!r}")
        return value

    return read


def add_profile(arguments):
    """Adds --profile and --profile-dir: run_program then asks for the profiles of all models, as the
    variable SLUICE_PROFILE does, and prints the paths of the reports."""
    arguments.add_argument("--profile", dest="profiled", action="store_true",
                           help="trace the first calls of each model and write reports about them")
    arguments.add_argument("--profile-dir", default="profile", help="where traces and reports go")


def _reports(folder):
    """When each report in the folder was written."""
    return {path: path.stat().st_mtime_ns for path in sorted(Path(folder).glob("*/report*.html"))}


def run_program(arguments, body):
    """Parses the command line, runs the body and ends the process with the exit code."""
    settings = arguments.parse_args()
    profiled = getattr(settings, "profiled", False)
    if profiled:
        os.environ["SLUICE_PROFILE"] = json.dumps({"directory": settings.profile_dir})
        before = _reports(settings.profile_dir)
    try:
        body(settings)
        if profiled:
            for path, written in _reports(settings.profile_dir).items():
                if before.get(path) != written:
                    print(f"Report: {path}")
    except UsageError as error:
        arguments.error(str(error))
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(130)
    except Exception as error:  # the library's errors say what to do; a traceback would hide it
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def require_finite(loss, updates):
    """Training on a loss that is not finite would only spread it."""
    if not math.isfinite(loss):
        raise RuntimeError(
            f"the loss is {loss} after {updates} updates; try a smaller --learning-rate"
        )


class Progress:
    """One line per epoch, which a terminal sees grow."""

    def __init__(self, steps):
        self._steps, self._step, self._start = steps, 0, time.monotonic()

    @property
    def seconds(self):
        return time.monotonic() - self._start

    def step(self, text):
        self._step += 1
        last = self._step == self._steps
        if sys.stdout.isatty():
            done = 30 * self._step // self._steps
            line = f"[{'#' * done}{'.' * (30 - done)}] {self._line(text)}"
            width = shutil.get_terminal_size().columns
            print(f"\r\033[K{line[:width - 1]}", end="\n" if last else "", flush=True)
        elif last:
            print(self._line(text), flush=True)

    def _line(self, text):
        return f"{self._step}/{self._steps} {self.seconds:.1f}s  {text}"
