#!/usr/bin/python3
"""Packs a few programs and runs them where nothing but the bundle is there.

    tests/bundle/run_bundle.py

First with an empty environment, then with the bundle's folder as the root of the file system, if this
machine allows it: a library or a file that was forgotten cannot be found then.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ["sluice", "readme_example", "custom_op", "shared_test"]
LOADER = "/lib/ld-linux-x86-64.so.2"

def run(command, code=0):
    result = subprocess.run(["env", "-i", *command], cwd="/", capture_output=True, text=True, timeout=120)
    text = result.stdout + result.stderr
    check(result.returncode == code, f"{' '.join(command)}: exit code {result.returncode}\n{text}")
    return text

def check(condition, message):
    if not condition:
        sys.exit(f"run_bundle: {message}")

def may_change_root(folder):
    """The command that makes the folder the root; None where it is not allowed."""
    for command in (["/usr/sbin/chroot", folder], ["/usr/bin/unshare", "-r", "/usr/sbin/chroot", folder]):
        try:
            program = [LOADER, "--library-path", "/lib", "/programs/sluice", "--help"]
            if subprocess.run([*command, *program], capture_output=True, timeout=60).returncode == 0:
                return command
        except FileNotFoundError:
            pass
    return None

def check_programs(start):
    check("loss 0.048, accuracy 100.0%" in run([*start("readme_example")]), "readme_example")
    losses = re.findall(r"devices?: loss (\S+)", run([*start("custom_op")]))
    check(len(losses) == 2 and losses[0] == losses[1], f"custom_op: {losses}")
    check(re.search(r"Sluice|sluice", run([*start("sluice"), "version"])), "sluice version")
    check("PASSED" in run([*start("shared_test")]), "shared_test")

def main():
    with tempfile.TemporaryDirectory() as folder:
        pack = [str(ROOT / "scripts" / "bundle.py"), "--folder", folder, *PROGRAMS]
        subprocess.run(["/usr/bin/python3", *pack], check=True)
        check_programs(lambda name: [f"{folder}/run", name])
        check("shared_test" in run([f"{folder}/run"], code=2), "no list of programs")

        check("pass shared_test" in run([f"{folder}/run", "tests"]), "run tests")
        root = may_change_root(folder)
        if root is None:
            print("this machine does not allow another root: not tried")
        else:
            loader = [*root, LOADER, "--library-path", "/lib", "--argv0"]
            check_programs(lambda name: [*loader, f"/bin/{name}", f"/programs/{name}"])
    print(f"bundle: {len(PROGRAMS)} programs run elsewhere")

if __name__ == "__main__":
    main()
