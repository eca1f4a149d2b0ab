#!/usr/bin/python3
"""Checks tests/coverage.md: all features listed once, and every named test is one that runs.

    scripts/check_coverage.py              check the document; the release build must be there
    scripts/check_coverage.py --self-test  check this script with made-up documents

A row is `| number | feature | done or not yet | tests |`; tests are written
`Suite.Name` as in TEST(Suite, Name), several separated by commas. Which tests
there are, the built test programs say, by way of ctest. Of programs that are not
built, which are those without a fast test, the sources say it; `./dev check`
builds all of them. So do those of programs that need a GPU, each of which is one
test for ctest, or none where there is no CUDA toolkit.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = 248
ROW = re.compile(r"^\|\s*(\d+)\s*\|(.*)\|([^|]*)\|([^|]*)\|\s*$")
# Programs/Suite.Name/parameter and Suite.Name<type> are written as Suite.Name.
TEST = re.compile(r"^(?:\w+/)?(\w+)\.(\w+)(?:[/<].*)?$")


def test_names(listed):
    """Tests of a list of ctest's as Suite.Name, without those that are disabled."""
    names = set()
    for test in listed["tests"]:
        match = TEST.match(test["name"])
        disabled = any(p["name"] == "DISABLED" and p["value"] for p in test.get("properties", []))
        if match and not disabled:
            names.add(f"{match[1]}.{match[2]}")
    return names


def written_tests(texts):
    """Tests in the text of sources as Suite.Name."""
    return {f"{suite}.{name}" for text in texts for suite, name in
            re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", text, re.MULTILINE)}


def known_tests():
    listed = subprocess.run(["ctest", "--preset", "release", "--show-only=json-v1"],
                            cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        sys.exit(f"coverage: ctest cannot list the tests; run `./dev build` first\n{listed.stderr}")
    tests = json.loads(listed.stdout)
    names = test_names(tests) | written_tests(path.read_text() for path in (ROOT / "tests/cuda").glob("*_test.cpp"))
    if any(test["name"].endswith("_NOT_BUILT") for test in tests["tests"]):
        names |= written_tests(path.read_text() for path in (ROOT / "tests").rglob("*_test.cpp"))
    return names


def problems(text, tests, rows=ROWS):
    """What is wrong with the document, one line each, and how many rows are done."""
    found, numbers, done = [], [], 0
    for line in text.splitlines():
        match = ROW.match(line)
        if not match:
            continue
        number, status = int(match[1]), match[3].strip()
        named = [name.strip(" `") for name in match[4].split(",") if name.strip(" `")]
        numbers.append(number)
        done += status == "done"
        if status not in ("done", "not yet"):
            found.append(f"row {number}: status is '{status}', not 'done' or 'not yet'")
        if status == "done" and not named:
            found.append(f"row {number}: done, but names no test")
        found += [f"row {number}: no test is called {name}" for name in named if name not in tests]
    found += [f"row {n}: missing" for n in range(1, rows + 1) if n not in numbers]
    found += [f"row {n}: listed twice" for n in sorted(set(numbers)) if numbers.count(n) > 1]
    found += [f"row {n}: no such feature" for n in sorted(set(numbers)) if not 1 <= n <= rows]
    return found, done


def check():
    found, done = problems((ROOT / "tests/coverage.md").read_text(), known_tests())
    for line in found:
        print(f"tests/coverage.md: {line}")
    print(f"coverage: {done} of {ROWS} features done, {len(found)} problems")
    return 1 if found else 0


def self_test():
    good = "| # | Feature | Status | Tests |\n|---|---|---|---|\n| 1 | a | done | `A.B`, `A.C` |\n"
    cases = [  # document, expected key words of the problems
        (good + "| 2 | b | not yet | |\n", []),
        (good, ["row 2: missing"]),
        (good + "| 2 | b | done | |\n", ["names no test"]),
        (good + "| 2 | b | done | `A.X` |\n", ["no test is called A.X"]),
        (good + "| 2 | b | nearly | |\n", ["status is 'nearly'"]),
        (good + "| 2 | b | not yet | |\n| 2 | b | not yet | |\n", ["listed twice"]),
        (good + "| 2 | b | not yet | |\n| 3 | b | not yet | |\n", ["row 3: no such feature"]),
    ]
    wrong = 0
    for text, words in cases:
        found, _ = problems(text, {"A.B", "A.C"}, rows=2)
        if len(found) != len(words) or any(w not in f for w, f in zip(words, found)):
            print(f"self-test: expected {words}, found {found}")
            wrong += 1
    disabled = [{"name": "DISABLED", "value": True}]
    listed = {"tests": [{"name": "A.B"}, {"name": "All/C.D/7"}, {"name": "E.F<ns::Type>"},
                        {"name": "Named/G.H/With.dots"}, {"name": "I.J", "properties": disabled}]}
    if test_names(listed) != {"A.B", "C.D", "E.F", "G.H"}:
        print(f"self-test: names of tests are {sorted(test_names(listed))}")
        wrong += 1
    sources = ["TEST(A, B) {\n}\nTEST_P(C,\n       D) {\n}\n// TEST(E, F)\n", "TYPED_TEST(G, H) {\n"]
    if written_tests(sources) != {"A.B", "C.D", "G.H"}:
        print(f"self-test: written tests are {sorted(written_tests(sources))}")
        wrong += 1
    print(f"coverage: {len(cases) + 2} cases, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv[1:] else check())
