"""docs/python.md and docs/migration.md: their code runs, prints what they say, and names exist."""

import contextlib
import importlib
import io
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch_functions

import sluice
from sluice import args

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n\nprints\n\n```text\n(?P<output>.*?)```)?", re.DOTALL)


def blocks():
    """Pages, the lines where their blocks of code begin, the code and its output."""
    for page in ("python.md", "migration.md"):
        text = (DOCS / page).read_text()
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start("code"))
            yield page, line, found["code"], found["output"] or ""


BLOCKS = list(blocks())
NAMESPACES = {page: {"__name__": page} for page, *_ in BLOCKS}


@pytest.mark.parametrize("page, line, code, output", BLOCKS, ids=[f"{b[0]}:{b[1]}" for b in BLOCKS])
def test_code_runs_and_prints_what_the_page_says(page, line, code, output):
    # Blocks of a page are one program. Empty lines give tracebacks the lines of the page.
    program = compile("\n" * line + code, str(DOCS / page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, NAMESPACES[page])
    assert printed.getvalue() == output


def test_code_that_prints_has_its_output_on_the_page():
    for page, line, code, output in BLOCKS:
        assert ("print(" in code) == bool(output), f"{page}:{line}"


class HiddenAndOutput(torch.nn.Module):
    """What the README calls net."""

    def __init__(self):
        super().__init__()
        self.hidden, self.output = torch.nn.Linear(2, 32), torch.nn.Linear(32, 2)

    def forward(self, points, labels):
        with sluice.Block("hidden"):
            x = self.hidden(points).relu()
        with sluice.Block("output"):
            x = self.output(x)
            return x, torch.nn.functional.cross_entropy(x, labels)


def test_the_code_of_the_readme_trains_a_network_of_two_blocks():
    torch.manual_seed(0)
    points = torch.rand(64, 2)
    names = {"torch": torch, "net": HiddenAndOutput(), "points": points, "labels": (points.sum(1) > 1).long()}
    code = BLOCK.search((DOCS.parent / "README.md").read_text())["code"]
    before = names["net"].hidden.weight.clone()
    exec(compile(code, "README.md", "exec"), names)
    assert names["output"].shape == (16, 2) and names["loss"].item() < 1
    assert not torch.equal(before, names["net"].hidden.weight)


@pytest.mark.parametrize("page", ["python.md", "migration.md"])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", (DOCS / page).read_text()):
        assert (DOCS / target).exists(), target


# --- names of migration.md -----------------------------------------------------------------------

MODULES = {"PopTorch": "sluice", "PopART": "sluice.popart", "The TensorFlow port": "sluice.ipu"}


def tables():
    """The rows of migration.md with the module and the heading that they stand under."""
    module, heading = None, ""
    for line in (DOCS / "migration.md").read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
            module = MODULES.get(heading, module if line.startswith("###") else None)
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if module and len(cells) >= 2 and not set(cells[0]) <= set("-") | {""}:
            yield module, heading, cells


def names(cell):
    """The dotted names in a cell. Variables of the environment are none."""
    found = re.findall(r"`([A-Za-z_][\w.]*)`", cell)
    return [name for name in found if not name.startswith(("SLUICE_", "POPTORCH_"))]


def existing():
    for module, heading, cells in tables():
        if heading == "Not there yet":
            continue
        effective = cells[0] if len(cells) == 2 or cells[1] == "same" else cells[1]
        for name in names(effective):
            yield module, name


#: Classes whose members belong to objects, with a way to make one.
MADE = {"Options": lambda m: m.Options(), "Builder": lambda m: m.Builder(), "SessionOptions": lambda m: m.SessionOptions()}


def find(module, name):
    value = importlib.import_module(module)
    first, _, rest = name.partition(".")
    if rest and first in MADE:
        value, name = MADE[first](value), rest
    for part in name.split("."):
        value = getattr(value, part)
    return value


EXISTING = sorted(set(existing()))


@pytest.mark.parametrize("module, name", EXISTING, ids=[f"{m}.{n}" for m, n in EXISTING])
def test_a_name_of_the_migration_page_exists(module, name):
    find(module, name)


def missing():
    for module, heading, cells in tables():
        if heading == "Not there yet":
            yield from ((module, name) for name in names(cells[0]) if name != "name")


@pytest.mark.parametrize("module, name", list(missing()))
def test_a_name_that_is_not_there_yet_is_an_error(module, name):
    with pytest.raises(AttributeError):
        find(module, name)


def test_the_migration_page_has_all_tables():
    assert len(EXISTING) > 150 and len(list(missing())) == 6


# --- the table of torch functions ------------------------------------------------------------------


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def leaves(result):
    return args.flatten(result)[0]


CASES = {name: case for table in torch_functions.TABLES.values() for name, case in table.items()}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_a_listed_function_gives_what_torch_gives(name):
    function, inputs = CASES[name]
    expected = leaves(Calls(function).eval()(*inputs))
    results = leaves(sluice.inferenceModel(Calls(function))(*inputs))
    assert [(x.shape, x.dtype) for x in results] == [(x.shape, x.dtype) for x in expected]
    for ours, torchs in zip(results, expected):
        assert torch.allclose(ours.double(), torchs.detach().double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", torch_functions.RANDOM)
def test_a_listed_random_function_gives_the_shape_that_torch_gives(name):
    function = torch_functions.RANDOM[name]
    expected = function(torch_functions.X)
    model = sluice.inferenceModel(Calls(function))
    first, second = model(torch_functions.X), model(torch_functions.X)
    assert (first.shape, first.dtype) == (expected.shape, expected.dtype)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("name", torch_functions.REFUSED)
def test_a_function_that_is_listed_as_refused_is(name):
    with pytest.raises(sluice.Unsupported, match="aten"):
        sluice.inferenceModel(Calls(torch_functions.REFUSED[name]))(torch_functions.X)


def test_the_table_of_the_page_is_the_table_of_the_tests():
    page = (DOCS / "python.md").read_text()
    table = page[page.index("## Torch functions") :]
    assert [line for line in table.splitlines() if line.startswith("| ")][1:] == list(torch_functions.rows())
