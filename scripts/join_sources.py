#!/usr/bin/python3
"""Joins C++ files into one that compiles faster than they do apart.

    scripts/join_sources.py OUTPUT FILES...
    scripts/join_sources.py --self-test

The files may use the same names in their anonymous namespaces, as the ops do with `infer`, `grad` and
`reference`: a name that several files have gets the name of its file after it, and so does one that another
file has in its functions, which would hide it, unless it is also a member's. What follows a dot, an arrow or
`::` is somebody else's name and stays, except after the file's own namespace. Messages of the compiler name
the files themselves.
"""
import collections
import re
import sys
from pathlib import Path

# Names of tests and of their classes are for readers, and other files mention them. GoogleTest looks for PrintTo.
TESTS = r"\b(?:INSTANTIATE_TEST_SUITE_P|(?:TYPED_)?TEST(?:_[FP])?)\("
TOKEN = re.compile(TESTS + r'[^,]*,[^,)]*|#include[^\n]*|//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|'
                   r"[A-Za-z_]\w*|\d(?:[\w.]|'\d)*|->|::|\s+|.", re.DOTALL)
ANONYMOUS = re.compile(r"^namespace \{\n(.*?)^\}  // namespace\n", re.MULTILINE | re.DOTALL)
# A declaration begins in the first column: clang-format sees to it.
DECLARATION = re.compile(r"^(?!template\b|namespace\b|using namespace\b)[A-Za-z][\w:<>,&*\[\]. ]*?[ &*](\w+)(?: final)?"
                         r"(?=\(| =|\[| \{|\{|;| :|$)", re.MULTILINE)


def hidden_names(text):
    """Names that the file declares for itself."""
    code = re.sub(r"//(?! namespace$)[^\n]*$", "", text, flags=re.MULTILINE)
    fixtures = {"PrintTo"} | set(re.findall(TESTS.replace("INSTANTIATE_TEST_SUITE_P|", "") + r"(\w+)", code))
    return {name for block in ANONYMOUS.findall(code) for name in DECLARATION.findall(block)} - fixtures


def renamed(text, names, tag):
    space = re.search(r"^namespace (?:\w+::)*(\w+) \{", text, re.MULTILINE)
    own = [space[1] if space else "", "::"]
    if not names:
        return text
    words, before = [], ["", ""]
    for match in TOKEN.finditer(text):
        word = match.group()
        mine = word in names and (before[1] not in (".", "->", "::") or before == own
                                  or (before[1] == "->" and word[0].isupper()))  # a result's type
        if mine and word[0].islower() and text.startswith("::", match.end()):
            mine = False  # a namespace
        words.append(f"{word}_{tag}" if mine else word)
        if not word.isspace():
            before = [before[1], word]
    return "".join(words)


def join(files):
    """One text of (path, text) pairs."""
    names = {path: hidden_names(text) for path, text in files}
    declared = collections.Counter(name for each in names.values() for name in each)
    used = collections.Counter(word for _, text in files for word in set(re.findall(r"\w+", text)))
    parts = []
    for path, text in files:
        members = set(re.findall(r"(?:\.|->)(\w+)", text))
        shared = {name for name in names[path]
                  if declared[name] > 1 or (used[name] > 1 and name not in members)}
        parts.append(f'#line 1 "{path}"\n' + renamed(text, shared, Path(path).stem))
    return "\n".join(parts)


def self_test():
    first = """namespace a {
namespace {
// text
constexpr int kLimit[] = {1};
struct Row {
  int grad;
  Row* next() { return this->later; }
};
template <class T>
T twice(T x);

std::vector<Value> grad(Context& g) {
  return {g.grad(), other::grad, a::grad, "grad", kLimit};
}
}  // namespace
const Def kFirst{.grad = grad, .only = twice};
}
"""
    second = ("#include <Line>\nnamespace {\nvoid grad() { int kLimit = 1; int Row = 2; }\nusing Line = int;\n"
              "}  // namespace\nauto* k = &grad;\nauto x = grad::y;\nauto f() -> Line;\n")
    third = "namespace {\nclass Deep final : Row {\n};\nint Line = 3;\n}  // namespace\nTEST_F(Deep, Line) { Line = 4; }\n"
    wrong = []
    if hidden_names(first) != {"kLimit", "Row", "twice", "grad"}:
        wrong.append(f"names: {sorted(hidden_names(first))}")
    text = join([("x/first.cpp", first), ("second.cpp", second), ("third.cpp", third)])
    for piece in ('#line 1 "x/first.cpp"', "grad_first(Context& g)",
                  'g.grad(), other::grad, a::grad_first, "grad", kLimit_first}', ".grad = grad_first, .only = twice}", "T twice(T x)", "#include <Line>",
                  "void grad_second() { int kLimit = 1; int Row = 2; }", "&grad_second;", "= grad::y", "-> Line_second;", "struct Row_first {", "using Line_second = int",
                  "class Deep final : Row {", "TEST_F(Deep, Line) { Line_third = 4; }"):
        if piece not in text:
            wrong.append(f"missing: {piece}")
    print("\n".join(wrong) or "join: self-test passed")
    return 1 if wrong else 0


def main():
    files = [(path, Path(path).read_text()) for path in sys.argv[2:]]
    Path(sys.argv[1]).write_text(join(files))
    return 0


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv[1:] else main())
