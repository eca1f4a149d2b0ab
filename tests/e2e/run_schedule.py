"""`sluice schedule`: charts, pictures, figures and errors."""
import json
import re
import shlex
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from programs import HUGE, ROOT, check, number


def chart_rows(text):
    """The rows of the devices in a chart, panels joined."""
    rows = {}
    for device, cells in re.findall(r"^dev(\d+) +(.*)$", text, re.MULTILINE):
        rows[int(device)] = rows.get(int(device), "") + cells
    return rows


# Makespan, bound and the most that device 0 holds, for four devices and eight micro-batches.
FIGURES = {
    "sequential": (96, 33, 1), "grouped": (33, 33, 8), "interleaved": (33, 33, 4),
    "gpipe": (33, 33, 8), "1f1b": (33, 33, 4), "chunked": (28.5, 28.5, 5.5),
    "zb-h1": (27, 27, 4), "zero-bubble": (25.5, 25.5, 4),
}

POPART = """\
| dev0 | S0(0) | S0(1) | S0(2) | S0(3) | S0(4) S4(0) | S4(1) | S4(2) | S4(3) | S4(4) |
| dev1 | - | S1(0) | S1(1) | S1(2) S3(0) | S1(3) S3(1) | S1(4) S3(2) | S3(3) | S3(4) | - |
| dev2 | - | - | S2(0) | S2(1) | S2(2) | S2(3) | S2(4) | - | - |
"""


def schedule_command(programs):
    def run(*args, code=0):
        return programs.run("sluice", "schedule", *args, code=code)

    for name, (makespan, bound, memory) in FIGURES.items():
        args = ("--stages", 4, "--micro-batches", 8, "--schedule", name)
        data = json.loads(run(*args, "--json"))
        check((data["makespan"], data["bound"], data["peak"][0]) == (makespan, bound, memory), data)
        check(data["gap"] == makespan - bound and data["schedule"] == name, data)
        text = run(*args)
        check(number(r"makespan +([\d.]+)", text) == makespan, text)
        check(number(r"bound +([\d.]+)", text) == bound, text)
        for row, pieces in zip(chart_rows(text).values(), data["devices"]):
            letters = re.findall("[FBW]", row)
            check(letters == [piece["kind"] for piece in pieces], f"{name}: {row}")
    schedule_charts(run)
    schedule_pictures(run)
    schedule_cycles(run)
    schedule_simulated(run)
    schedule_all(run)
    schedule_errors(run)


def schedule_charts(run):
    rows = chart_rows(run("--stages", 2, "--micro-batches", 2, "--costs", "1,1.5,0.5;2,2,1"))
    check(rows == {0: "F0 F1 ............B0=== .........B1===",
                   1: "...F0=== B0====== F1=== B1====== ......"},
          rows)
    rows = chart_rows(run("--stages", 2, "--micro-batches", 3, "--inference", "--costs", "2"))
    check(rows == {0: "F0 F1 F2 ...", 1: "...F0 F1 F2"}, rows)
    wide = run("--stages", 8, "--micro-batches", 300, "--width", 80)
    check(max(map(len, wide.split("schedule")[0].splitlines())) <= 90, wide)
    check(wide.count("dev0 ") == 8 and "\n...\n" in wide and " F299" in wide, wide)
    concurrent = json.loads(run("--devices", "0,1,2", "--slots", "0,1,1", "--micro-batches", 1,
                                "--transfer", 0.5, "--json"))
    starts = [[piece["start"] for piece in device] for device in concurrent["devices"]]
    check(starts == [[0, 5], [1.5, 2.5], [1.5, 2.5]], starts)
    capped = json.loads(run("--devices", "0,1,2,0", "--micro-batches", 8, "--memory-cap", "3,2,2",
                            "--schedule", "zero-bubble", "--json"))
    check(all(peak <= cap for peak, cap in zip(capped["peak"], (3, 2, 2))), capped["peak"])


def schedule_pictures(run):
    """A block for every piece of work, as wide as it is long, with its micro-batch."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "schedule.svg"
        args = ("--stages", 4, "--micro-batches", 6, "--schedule", "zb-h1", "--svg", file)
        data = json.loads(run(*args, "--json"))
        root = ElementTree.fromstring(file.read_text())
        space = "{http://www.w3.org/2000/svg}"
        blocks = [rect for rect in root.iter(space + "rect") if rect.find(space + "title") is not None]
        pieces = [piece for device in data["devices"] for piece in device]
        titles = [rect.find(space + "title").text for rect in blocks]
        check(titles == [f"{p['kind']}{p['microBatch']} stage {p['stage']}" for p in pieces], titles)
        unit = (float(blocks[1].get("x")) - float(blocks[0].get("x")))  # a forward pass takes 1
        for rect, piece in zip(blocks, pieces):
            x = float(blocks[0].get("x")) + unit * piece["start"]
            check(abs(float(rect.get("x")) - x) < 0.5, f"{piece} is at {rect.get('x')}, not {x}")
        document = (ROOT / "docs/profiling.md").read_text().replace("\\\n", "")
        commands = re.findall(r"^ +sluice schedule (.*--svg (\S+).*)$", document, re.MULTILINE)
        check(len(commands) == 2, commands)
        for command, picture in commands:
            run(*shlex.split(command.replace(picture, str(file))))
            check(file.read_text() == (ROOT / picture).read_text(),
                  f"{picture} is out of date: sluice schedule {command}")
        text = run("--stages", 2, "--micro-batches", 2, "--view", "cycles", "--svg", file, code=2)
        check("--svg" in text, text)
        text = run("--stages", 2, "--micro-batches", 2, "--svg", Path(folder) / "no" / "x.svg", code=1)
        check("x.svg" in text, text)


def schedule_cycles(run):
    args = ("--stages", 3, "--micro-batches", 5, "--schedule", "popart", "--view", "cycles")
    text = run(*args)
    check(POPART in text and "9: 4 fill, 1 main, 4 flush" in text, text)
    check("stash       5 3 0" in text and "44.44%" in text, text)
    data = json.loads(run(*args, "--json"))
    check(data["makespan"] == 9 and data["stash"] == [5, 3, 0], data)
    check((data["fill"], data["main"], data["flush"]) == (4, 1, 4), data)
    both = [piece for piece in data["devices"][0] if piece["start"] == 4]
    check(both == [{"kind": "S", "stage": 0, "microBatch": 4, "start": 4, "end": 5},
                   {"kind": "S", "stage": 4, "microBatch": 0, "start": 4, "end": 5}], both)
    grouped = run("--stages", 2, "--micro-batches", 5, "--schedule", "grouped", "--view", "cycles")
    check("multiple of 4" in grouped and "FIFOs       2 0" in grouped, grouped)


def schedule_simulated(run):
    """Copies in virtual time: two stages, one micro-batch, F and B with a copy of 0.5 + 0.25 between them."""
    args = ("--stages", 2, "--micro-batches", 1, "--costs", "1,1,1", "--copies", "0.5,0.25")
    data = json.loads(run(*args, "--json"))
    check(data["makespan"] == 6 and data["simulated"]["makespan"] == 7.5, data)
    text = run(*args, "--summary")
    check("simulated   makespan 7.5 with copies of 0.5 and 0.25" in text and "dev0" not in text, text)
    large = run("--stages", 64, "--micro-batches", 4096, "--summary")
    check("64 stages on 64 devices, 4096 micro-batches" in large, large)


def schedule_all(run):
    """The table has the figures of each schedule by itself, the shortest first."""
    args = ("--stages", 4, "--micro-batches", 8, "--schedule", "all")
    data = json.loads(run(*args, "--json"))
    made = {each["schedule"]: (each["makespan"], each["bound"], each["peak"]) for each in data}
    single = json.loads(run("--stages", 4, "--micro-batches", 8, "--schedule", "chunked", "--json"))
    check({name: made[name][:2] for name in FIGURES} == {name: f[:2] for name, f in FIGURES.items()}, made)
    check(made["chunked"][2] == max(single["peak"]) and "popart" in made, made)
    check([each["makespan"] for each in data] == sorted(each["makespan"] for each in data), data)
    text = run(*args, "--copies", "0.5,0.25")
    check(re.search(r"^zero-bubble +25.5 +25.5 +\d.*", text, re.MULTILINE), text)
    check(len(text.splitlines()) == len(data) + 1 and "simulated" in text.splitlines()[0], text)
    # Some kinds cannot keep a memory this small: they say so, and the others have their figures.
    text = run(*args, "--memory-cap", 4)
    check(re.search("^gpipe +[a-z-]", text, re.MULTILINE) and re.search("^1f1b +33 ", text, re.MULTILINE), text)
    check("name one schedule" in run(*args, "--svg", "x.svg", code=2), "a picture of all")
    check("name one schedule" in run(*args, "--view", "cycles", code=2), "cycles of all")
    check("--stages" in run("--micro-batches", 2, "--schedule", "all", code=2), "no stages")


def schedule_errors(run):
    good = ("--stages", 2, "--micro-batches", 4)
    shared = (*good, "--chunks", 64, "--costs", "1,1,0.000001")
    for args, word in (
            (("--stages", 2), "--micro-batches"),
            (("--micro-batches", 2), "--stages"),
            (("--stages", 0, "--micro-batches", 2), "--stages"),
            (("--stages", 2, "--micro-batches", 0), "--micro-batches"),
            (("--stages", 2000, "--micro-batches", 2000), "limit of 131072"),
            (("--stages", 2, "--micro-batches", HUGE), "out of range"),
            (("--stages", 4096, "--micro-batches", 2, "--chunks", 3), "limit of 4096"),
            (("--stages", 3, "--micro-batches", 100_000), "limit of 131072"),
            (("--devices", "65535,1", "--micro-batches", 2), "65536 stages (with chunks) or devices"),
            (("--stages", "two", "--micro-batches", 2), "--stages"),
            ((*good, "--schedule", "fastest"), "known are sequential, grouped"),
            ((*good, "--costs", "1,x,1"), "'x'"),
            ((*good, "--costs", "1,-1,1"), "'-1'"),
            ((*good, "--costs", "1,1"), "expected 3 numbers"),
            ((*good, "--costs", "1,1,1;1,1,1;1,1,1"), "1 or 2 stages"),
            ((*good, "--costs", "1,1,0.1234567"), "6 decimals"),
            ((*good, "--devices", "0,1,1"), "leave out --stages"),
            (("--devices", "0,,1", "--micro-batches", 2), "separated by commas"),
            ((*good, "--slots", "0,3"), "slots"),
            ((*good, "--memory-cap", "1,2,3"), "--memory-cap"),
            ((*good, "--transfer", "1;2"), "--transfer"),
            ((*good, "--view", "circles"), "--view"),
            (("--stages", 1024, "--micro-batches", 4096), "--summary"),
            (("--stages", 1024, "--micro-batches", 4097, "--summary"), "limit of 4194304"),
            ((*good, "--copies", "1"), "--copies"),
            ((*shared, "--transfer", "999999999999"), "--transfer: a number of 18 digits for each of 64 chunks"),
            ((*shared, "--copies", "1,999999999999"), "--copies: a number of 18 digits"),
            ((*good, "--chunks", 64, "--bytes", "1,0.000001", "--memory-cap", "999999999999"), "--memory-cap: a number"),
            ((*good, "--copies", "1,1;1,1"), "--copies"),
            ((*good, "--view", "cycles", "--schedule", "gpipe"), "no cycles")):
        check(word in run(*args, code=2), f"{args}: {word}")
    check("whose cap is 2" in run(*good, "--schedule", "gpipe", "--memory-cap", 2, code=1), "cap")
    tight = run(*good, "--schedule", "zero-bubble", "--memory-cap", 0.5, code=1)
    check("at least" in tight and "1/20" in tight, tight)
