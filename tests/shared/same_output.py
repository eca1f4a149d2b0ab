#!/usr/bin/python3
"""Runs the same program linked in two ways: both must end well and print the same.

    tests/shared/same_output.py PROGRAM PROGRAM
"""
import subprocess
import sys


def main():
    texts = [subprocess.run([program], capture_output=True, text=True, check=True).stdout
             for program in sys.argv[1:]]
    print("\n".join(texts))
    return 0 if texts[0] and texts[0] == texts[1] else 1


if __name__ == "__main__":
    sys.exit(main())
