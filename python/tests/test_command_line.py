"""`python -m sluice` is the command line."""

import resource
import subprocess
import sys


def run(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "sluice", *arguments], capture_output=True, text=True, **options)


def test_it_runs_commands():
    found = run("schedule", "--schedule", "1f1b", "--stages", "2", "--micro-batches", "2")
    assert found.returncode == 0, found.stderr
    assert "F0" in found.stdout


def test_it_refuses_unknown_commands_with_the_exit_code_of_the_program():
    found = run("dance")
    assert found.returncode == 2 and "dance" in found.stderr + found.stdout


def test_verifying_a_cache_counts_apart_what_cannot_be_read(tmp_path):
    (tmp_path / "damaged.slc").write_bytes(b"no entry")
    with open(tmp_path / "large.slc", "wb") as file:
        file.truncate(1 << 40)  # sparse, and more than the address space that the process gets
    found = run(
        "cache", "verify", "--folder", str(tmp_path),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 37, 1 << 37)),
    )
    assert found.returncode == 1, found.stderr
    assert "2 files, 1 damaged and removed, 1 could not be checked" in found.stdout
    assert "Cannot allocate memory" in found.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["large.slc"]
