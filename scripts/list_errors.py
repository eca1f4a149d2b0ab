#!/usr/bin/python3
"""Writes docs/errors.md: every error that the code raises, in C++ and in Python, by type and module.

    scripts/list_errors.py           write the page
    scripts/list_errors.py --check   fail if the page is not what the code says

A message says what was expected, what was found and what to do; {} stands for a value. Bugs of Sluice
itself (InternalError) are left out: no user causes them.
"""
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "errors.md"
FOLDERS = ["sluice", "cli", "python/core"]
PYTHON = "python/sluice"
HEADERS = ["sluice/base/error.h", "sluice/base/recoverable_error.h", "sluice/base/error.h",
           "sluice/runtime/non_finite.h"]
RAISED = re.compile(r"\b(?:raise<(\w+)>\s*\(|throw\s+(\w*(?:Error|Argument|Unsupported|OutOfMemory|Cancelled))\s*\()")
LITERAL = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
SKIPPED = {"InternalError", "Error"}
# Types that only the code itself tells apart, and what users know them as.
KNOWN_AS = {"UnreadableFile": "FileError"}

# The cause of each type of errors, where the headers do not say it, and the remedy; the message has the particulars.
CAUSES = {
    "Cancelled": "A call was given up: by `Model::cancel`, by Ctrl-C in Python, or because another part of the same "
                 "work failed first, whose error is then the one to read.",
    "FloatingPointError": "A NaN or an infinity came into being, in a model that checks for them "
                          "(`enableFloatingPointExceptions`, `findFirstNonFinite`).",
    "RecoverableError": "A device, link or file failed for a reason that may pass.",
    "UnrecoverableError": "A device failed for good, or a fault came again after all retries.",
}
REMEDIES = {
    "Cancelled": "None is needed: the model has the state from before the call, and the next call works.",
    "ConfigFileError": "Correct the line or key that the message names; it lists what is known.",
    "DeviceError": "`sluice devices` says what this machine has and why a kind cannot be used. A stall names the tasks "
                   "that wait: look at the callback or the process that the first of them waits for.",
    "FileError": "Check path, rights and free space. A damaged or foreign file has to be made or copied again: nothing "
                 "in it can be trusted. A file of another version says which one reads it.",
    "FloatingPointError": "The message names the first op, micro-batch and element: lower the learning rate, scale the "
                          "loss, or keep that op in float32.",
    "InvalidArgument": "The call is at fault, and nothing has changed: give what the message expects.",
    "OutOfMemory": "Take one of the changes that the message proposes, or let `sluice plan` look for a way; "
                   "[memory.md](memory.md).",
    "RecoverableError": "`Options::recovery` does what the action says and makes the call again; "
                        "[state.md](state.md#when-a-call-fails).",
    "UnrecoverableError": "Take the machine out of service; the message names a folder with what is known.",
    "Unsupported": "Take another device, op, option or version, as the message says.",
}
# Types of Python's own, which the package raises as well: (cause, remedy).
PYTHONS = {
    "AssertionError": ("As PopTorch has it: an attribute that the optimizer has not.",
                       "Give one of the attributes that the message lists."),
    "AttributeError": ("An object has no such member, or one cannot be set.",
                       "Correct the name; the message has the nearest one, or says how the value is set."),
    "ImportError": ("A part of the package cannot be loaded.", "Install what the message names."),
    "IndexError": ("A number is past the end of what it counts.", "Give one in the range of the message."),
    "KeyError": ("There is nothing of this name.", "Give one of the names that the message lists."),
    "NotImplementedError": ("A class lacks a method that it has to define, or a setting of torch has no counterpart.",
                            "Define the method, or leave the setting out."),
    "RuntimeError": ("The call comes at the wrong time.", "Do what the message says before it."),
    "TypeError": ("An argument is of the wrong kind.", "Give what the message expects."),
    "ValueError": ("An argument is of the right kind and has a wrong value; every `InvalidArgument` is a ValueError, too.",
                   "Give what the message expects."),
}
# Those whose remedy depends on the module. The page that says how it is done right; a module is in the first of these that its name begins with.
GUIDED = {"ConfigFileError", "DeviceError", "FileError", "InvalidArgument", "Unsupported", *PYTHONS}
PAGES = {
    "api": "models.md", "base": "state.md", "cli": "command_line.md", "compile": "memory.md",
    "data": "data.md", "device": "performance.md", "devices/cuda": "cuda.md", "devices/sim": "simulation.md",
    "frontends/popart": "popart.md", "frontends/tensorflow": "python_ipu.md", "ir": "parts.md", "nn": "layers.md",
    "onnx": "onnx.md", "ops": "ops.md", "optim": "optimizers.md", "parallel": "pipelining.md",
    "profile": "profiling.md", "program": "executable.md", "python/core": "python.md", "python/sluice": "python.md",
    "python/sluice/ipu": "python_ipu.md", "python/sluice/popart": "popart.md", "runtime": "distributed.md",
    "schedule": "schedules.md", "tensor": "state.md", "transforms": "exactness.md",
}


def literals(text, start):
    """The string literals that follow one another from the first one inside of a call on."""
    begin = text.find('"', start)
    end = text.find(";", start)
    if begin < 0 or (0 <= end < begin) or begin - start > 160:
        return ""
    parts = []
    match = LITERAL.match(text, begin)
    while match:
        parts.append(match.group(1))
        match = LITERAL.match(text, match.end())
    return "".join(parts).replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\")


def raised():
    """(type, module, message) of each place that raises an error with a text of its own."""
    found = set()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.name
            if path.suffix not in (".cpp", ".h") or name.endswith("_test.cpp"):
                continue
            text = path.read_text(encoding="utf-8")
            module = path.relative_to(ROOT).parent.as_posix().removeprefix("sluice/")
            for match in RAISED.finditer(text):
                kind = match.group(1) or match.group(2)
                kind = KNOWN_AS.get(kind, kind)
                message = " ".join(literals(text, match.end()).split())
                if kind == "FloatingPointError":  # composed of the fields of NonFinite
                    message = "{} {} (in {}, stage {}, micro-batch {})"
                if kind not in SKIPPED and len(message) > 3 and message != "{}":
                    found.add((kind, module, message))
    return found


def text_of(node):
    """The text of an expression, with {} for what is known only when it runs; None for anything but a text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(each) if isinstance(each, ast.Constant) else "{}" for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [text_of(node.left), text_of(node.right)]
        return None if parts == [None, None] else "".join("{}" if part is None else part for part in parts)
    return None


def raised_in_python(kinds):
    """The same for Python. `refuse` is how a rule of capture says that it is Unsupported."""
    found = set()
    for path in sorted((ROOT / PYTHON).rglob("*.py")):
        module = path.relative_to(ROOT).parent.as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            kind = "Unsupported" if name == "refuse" else name
            message = " ".join((text_of(node.args[0]) or "").split())
            if kind in kinds and len(message) > 3 and message != "{}":
                found.add((kind, module, message))
    return found


def meanings():
    """What the headers say about each type."""
    known = {}
    for header in HEADERS:
        path = ROOT / header
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for comment, kind in re.findall(r"((?:^///.*\n)+)class (\w+)", text, re.MULTILINE):
            known[kind] = " ".join(re.sub(r"^/// ?", "", line) for line in comment.splitlines())
    return known


def page():
    found, known = raised(), meanings()
    found |= raised_in_python({kind for kind, _, _ in found} | PYTHONS.keys())
    causes = {**known, **CAUSES, **{kind: cause for kind, (cause, _) in PYTHONS.items()}}
    remedies = {**REMEDIES, **{kind: remedy for kind, (_, remedy) in PYTHONS.items()}}
    lines = [
        "# Errors",
        "",
        "Every error that Sluice raises, by type and module; those of `python/` are raised in Python alone, and types such as\n"
        "`ValueError` are Python's own.",
        "`scripts/list_errors.py` makes this page from the code.",
        "A message says what was expected, what was found and what to do; `{}` stands for a value. Each type has its",
        "cause and its remedy, and each module the page that says how it is done right. An `InternalError` is a bug of",
        "Sluice: please report it.",
        "",
    ]
    for kind in sorted({each[0] for each in found}):
        lines += [f"## {kind}", ""]
        cause = causes.get(kind)
        if not cause or kind not in remedies:
            sys.exit(f"list_errors: {kind} has no cause or no remedy; scripts/list_errors.py has the table")
        lines += [f"**Cause.** {cause}", "", f"**Remedy.** {remedies[kind]}", ""]
        for module in sorted({m for k, m, _ in found if k == kind}):
            page = page_of(module)
            lines += [f"### {kind} of {module}", ""]
            if kind in GUIDED:
                lines += [f"How it is done right: [{page}]({page}).", ""]
            lines += [f"- {escaped(text)}" for k, m, text in sorted(found) if (k, m) == (kind, module)]
            lines.append("")
    return "\n".join(lines)


def page_of(module):
    """The longest name in PAGES that the module's begins with."""
    best = max((name for name in PAGES if (module + "/").startswith(name)), key=len, default=None)
    if best is None:
        sys.exit(f"list_errors: no page of the documents is known for {module}; scripts/list_errors.py has the table")
    return PAGES[best]


def escaped(text):
    return "`" + text.replace("`", "'") + "`"


def main():
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            print("docs/errors.md is not what the code says: run scripts/list_errors.py")
            return 1
        print(f"errors: {text.count(chr(10) + '- ')} messages, the page is up to date")
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
