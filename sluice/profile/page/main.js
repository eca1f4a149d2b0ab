// Puts the page together.

function startTheme(redraw) {
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const apply = () => {
    const theme = chosen || (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    redraw();
  };
  button.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    apply();
  });
  system.addEventListener("change", apply);
  apply();
  return {print: (begins) => {
    apply();
    if (begins) {
      document.documentElement.dataset.theme = "light";
      redraw();
    }
  }};
}

// Sections without content have no tab.
function startTabs(timeline) {
  const all = [...document.querySelectorAll("main > section[data-title]")];
  const sections = all.filter((section) => section.childElementCount > 0);
  const tabs = document.getElementById("tabs");
  const open = (id) => {
    for (const section of sections) {
      section.style.display = section.id === id ? "" : "none";
      const tab = tabs.querySelector(`[data-tab="${section.id}"]`);
      tab.setAttribute("aria-selected", String(section.id === id));
    }
    if (id === "timeline") timeline.draw();
  };
  for (const section of sections) {
    const tab = element("button", {type: "button", role: "tab", "data-tab": section.id,
      "aria-controls": section.id}, section.dataset.title);
    tab.addEventListener("click", () => open(section.id));
    tabs.append(tab);
  }
  all.filter((section) => !sections.includes(section)).forEach((section) => section.remove());
  open("timeline");
}

function startTools(report, timeline) {
  const actions = {
    in: () => timeline.zoom(0.6), out: () => timeline.zoom(1 / 0.6),
    fit: () => timeline.fit(), step: () => timeline.oneStep(),
  };
  for (const button of document.querySelectorAll(".tools button")) {
    if (actions[button.dataset.do]) button.addEventListener("click", actions[button.dataset.do]);
  }
  const align = document.querySelector('[data-do="align"]');
  align.hidden = report.runs.length < 2;
  const name = () => { align.textContent = timeline.byClock ? "Begin together" : "By time of day"; };
  name();
  align.addEventListener("click", () => {
    timeline.byClock = !timeline.byClock;
    name();
    timeline.fit();
  });
  const search = document.getElementById("search");
  search.addEventListener("input", () => timeline.setSearch(search.value));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") timeline.nextMatch();
    if (event.key === "Escape") {
      search.value = "";
      timeline.setSearch("");
      search.blur();
    }
  });
  const keys = {
    "+": actions.in, "=": actions.in, "-": actions.out, "0": actions.fit, "1": actions.step,
    ArrowLeft: () => timeline.pan(-0.15), ArrowRight: () => timeline.pan(0.15),
    "/": () => search.focus(), t: () => document.getElementById("theme").click(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });
}

function legend(report) {
  const seen = new Map();
  for (const run of report.runs) {
    for (const row of run.rows) {
      row.colours.forEach((colour, task) => {
        const category = run.subjects[row.lane.tasks[2 * task]].category;
        seen.set(isRemote(row.lane) ? row.lane.kind : category.replace("_", " "), colour);
      });
    }
  }
  const causes = report.causes.map((name, c) => [name, c])
    .filter(([, c]) => report.runs.some((run) => sumOf(run, c) > 0));
  return [...[...seen].map(([name, colour]) => key(colour, name)),
    ...causes.map(([name, c]) => key(CAUSES[c], "idle: " + name, true))];
}

function start() {
  const report = readReport();
  const several = report.runs.length > 1;
  const [first] = report.runs;
  const title = report.runs.map((run) => run.title).join(" and ");
  document.title = title + " – Sluice report";
  document.getElementById("title").textContent = title;
  document.getElementById("subtitle").textContent = several
    ? `${report.runs.length} runs, side by side`
    : `${first.steps} step${first.steps === 1 ? "" : "s"} of ${first.devices.length} device` +
      `${first.devices.length === 1 ? "" : "s"}, ${first.microBatches} micro-batch` +
      `${first.microBatches === 1 ? "" : "es"} per ${first.training ? "weight update" : "round"}`;
  document.getElementById("overview").append(...overview(report));
  const timeline = new Timeline(report);
  document.getElementById("legend").append(...legend(report));
  document.getElementById("memory").append(...memoryPanel(report));
  document.getElementById("idle").append(...idlePanel(report));
  document.getElementById("stages").append(...stagesPanel(report));
  document.getElementById("tasks").append(...tasksPanel(report));
  document.getElementById("predicted").append(...predictedPanel(report));
  if (several) document.getElementById("compare").append(...comparePanel(report));
  const theme = startTheme(() => timeline.draw());
  startTabs(timeline);
  startTools(report, timeline);
  window.addEventListener("beforeprint", () => theme.print(true));  // paper shows all rows, and is white
  window.addEventListener("afterprint", () => theme.print(false));
  window.sluice = {report, timeline};  // for the console and for tests
}

start();
