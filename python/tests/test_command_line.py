"""`python -m sluice` is the command line."""

import subprocess
import sys


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "sluice", *arguments], capture_output=True, text=True)


def test_it_runs_commands():
    found = run("schedule", "--schedule", "1f1b", "--stages", "2", "--micro-batches", "2")
    assert found.returncode == 0, found.stderr
    assert "F0" in found.stdout


def test_it_refuses_unknown_commands_with_the_exit_code_of_the_program():
    found = run("dance")
    assert found.returncode == 2 and "dance" in found.stderr + found.stdout
