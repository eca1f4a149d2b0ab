// The panels beside the timeline: one column for each run.

function panel(title, ...children) {
  return element("div", {class: "panel"}, element("h2", {}, title), ...children);
}

function perRun(report, build) {
  return element("div", {class: "runs"}, ...report.runs.map((run) => element("div", {},
    report.runs.length > 1 ? element("h3", {}, run.title) : null,
    ...build(run).filter((part) => part !== null))));
}

function totals(run) {
  const sum = (of) => run.devices.reduce((all, device) => all + of(device), 0);
  return {span: sum((d) => d.span), busy: sum((d) => d.busy), idle: sum((d) => d.idle)};
}

function overview(report) {
  return [perRun(report, (run) => {
    const all = totals(run);
    const step = run.measured / run.steps;
    const card = (value, text) => element("div", {class: "card"}, element("b", {}, value),
      element("span", {}, text));
    return [
      element("div", {class: report.runs.length > 1 ? "cards small" : "cards"},
        card(duration(step), run.simulated === "" ? "per step, measured" : "per step, simulated"),
        run.predicted === null ? null : card(duration(run.predicted.step.predicted),
          "predicted, " + difference(run.predicted.step)),
        card(duration(run.ideal / run.steps), "with these kernels alone"),
        card(duration(run.even / run.steps), "and all stages equal"),
        card(percent(all.busy, all.span), "of the devices' time is work"),
        run.latencies.roundTrip.avg > 0
          ? card(duration(run.latencies.roundTrip.avg * 1e9), "from input to output") : null),
      run.advice === "" ? null : element("div", {class: "advice"}, run.advice)];
  })];
}

function memoryPanel(report) {
  const width = report.runs.length > 1 ? 560 : 580;
  return [perRun(report, (run) => [element("div", {class: "runs"}, ...run.devices.map((device, d) => {
    const use = run.memory[d];
    const large = use.tensors.filter(([, bytes], i) => i < 12 && bytes >= 0.005 * use.peak);
    const rows = large.map(([name, bytes, state]) =>
      [element("span", {}, swatch(state ? "#22a06b" : "#3b82f6"), name), byteText(bytes),
        percent(bytes, use.peak)]);
    const others = use.peak - large.reduce((sum, [, bytes]) => sum + bytes, 0);
    if (others > 0) rows.push(["all others", byteText(others), percent(others, use.peak)]);
    return panel("Device " + device.name + ": " + byteText(use.peak) + " of " +
        byteText(use.planned) + " planned", memoryChart(run, d, width),
    element("p", {class: "note"}, key("#22a06b", "variables"), " ", key("#3b82f6", "in use"), " ",
      key("#e5484d", "planned")),
    element("h3", {}, "At the peak, " + duration(use.peakTime)),
    table(["tensor", "bytes", "of the peak"], rows));
  }))])];
}

function idlePanel(report) {
  return [perRun(report, (run) => {
    const used = report.causes.map((_, c) => c).filter((c) => sumOf(run, c) > 0)
      .sort((a, b) => sumOf(run, b) - sumOf(run, a));
    const bars = run.devices.map((device) => barLine("Device " + device.name,
      bar([["work", device.busy, "#3b82f6"],
        ...used.map((c) => [report.causes[c], device.causes[c], CAUSES[c]])], device.span),
      "idle " + percent(device.idle, device.span)));
    const rows = run.devices.map((device) => ["Device " + device.name, duration(device.idle / run.steps),
      ...used.map((c) => duration(device.causes[c] / run.steps))]);
    const remedies = used.slice(0, 3).map((c) =>
      element("p", {}, swatch(CAUSES[c]), element("b", {}, report.causes[c]), ": ", report.remedies[c]));
    const parts = [
      panel("Where the time of each device goes", ...bars,
        element("p", {class: "note"}, key("#3b82f6", "work"), " ",
          ...used.flatMap((c) => [key(CAUSES[c], report.causes[c]), " "]))),
      panel("Idle time by cause, per step", table(["", "idle",
        ...used.map((c) => report.causes[c])], rows)),
      panel("What to do", ...remedies), suggestionsPanel(run), pathPanel(run, report)];
    if (run.remote.length > 0) parts.push(remotePanel(run));
    return parts;
  })];
}

function sumOf(run, cause) {
  return run.devices.reduce((all, device) => all + device.causes[cause], 0);
}

// Null if nothing was tried, or nothing helps.
function suggestionsPanel(run) {
  return run.suggestions.length === 0 ? null : panel("What one change would give, by the simulator",
    table(["change", "a step", "faster"], run.suggestions.map(({change, seconds, faster}) =>
      [change, duration(seconds * 1e9), percent(faster, 1)])));
}

function pathPanel(run, report) {
  const rows = run.criticalPath.slice(0, 14).map((part) => {
    const subject = run.subjects[part.subject];
    const colour = part.waiting ? CAUSES[part.cause] : WORK[subject.category] || "#74808f";
    return [element("span", {}, swatch(colour), part.waiting
      ? subject.name + " is ready, waits (" + report.causes[part.cause] + ")" : subject.name),
    duration(part.time / run.steps), percent(part.time, run.measured)];
  });
  return panel("Critical path: what the length of a step is made of",
    table(["what", "per step", "of a step"], rows));
}

function remotePanel(run) {
  return panel("Remote memory, per step", table(
    ["", "fetched", "flushed", "copying", "waited for", "hidden"],
    run.remote.map((use, d) => ["Device " + run.devices[d].name, byteText(use.fetched / run.steps),
      byteText(use.flushed / run.steps), duration(use.copying / run.steps),
      duration(use.waited / run.steps), percent(Math.max(use.copying - use.waited, 0), use.copying)])));
}

function stagesPanel(report) {
  return [perRun(report, (run) => {
    if (run.stages.length === 0) return [panel("Stages", "This program has no stages.")];
    const times = run.stages.map((stage) => stage.forward + stage.backward);
    const most = Math.max(...times);
    const mean = times.reduce((a, b) => a + b, 0) / times.length;
    const bars = run.stages.map((stage, i) => barLine("Stage " + stage.stage,
      bar([["forward", stage.forward, WORK.forward], ["backward", stage.backward, WORK.backward]], most),
      duration(times[i])));
    const rows = run.stages.map((stage, i) => ["Stage " + stage.stage, String(stage.device),
      duration(stage.forward), duration(stage.backward), duration(times[i]),
      (times[i] >= mean ? "+" : "−") + percent(Math.abs(times[i] - mean), mean)]);
    const latency = (text, l) => [text, ...["min", "avg", "max"].map((k) => duration(l[k] * 1e9))];
    return [
      panel("Kernels of one micro-batch on each stage", ...bars, element("p", {class: "note"},
        key(WORK.forward, "forward"), " ", key(WORK.backward, "backward"),
        "  even shares would be " + duration(mean) + " each")),
      panel("Balance", table(["", "device", "forward", "backward", "together", "to the mean"], rows)),
      panel("Measured and ideal, per step", table(["", "time", "of measured"], [
        ["measured", duration(run.measured / run.steps), ""],
        ["these kernels in this order, all else free", duration(run.ideal / run.steps),
          percent(run.ideal, run.measured)],
        ["and all stages equal", duration(run.even / run.steps), percent(run.even, run.measured)]])),
      panel("Latencies of a micro-batch", table(["", "least", "mean", "most"], [
        latency("host to device", run.latencies.hostDevice),
        latency("through the devices", run.latencies.compute),
        latency("device to host", run.latencies.deviceHost),
        latency("together", run.latencies.roundTrip)]))];
  })];
}

function tasksPanel(report) {
  return [perRun(report, (run) => {
    const rows = run.subjects.filter((subject) => subject.runs > 0)
      .sort((a, b) => b.total - a.total).slice(0, 60)
      .map((subject) => [
        element("span", {}, swatch(WORK[subject.category] || "#74808f"), subject.name),
        String(subject.runs), duration(subject.total / run.steps), duration(subject.total / subject.runs),
        duration(subject.longest), subject.bytes > 0 ? byteText(subject.bytes) : ""]);
    const kernels = run.kernels.slice(0, 60).map((use) => [use.kernel, use.task, String(use.runs),
      duration(use.total / run.steps), duration(use.total / use.runs), duration(use.longest),
      use.gigaflopsPerSecond.toFixed(1), use.gigabytesPerSecond.toFixed(1),
      use.limitShare > 0 ? percent(use.limitShare, 1) : ""]);
    return [panel("Tasks that take longest",
      table(["task", "runs", "per step", "mean", "longest", "bytes"], rows)),
    kernels.length === 0 ? null : panel("Kernels that take longest, one by one",
      table(["kernel", "task", "runs", "per step", "mean", "longest", "Gflop/s", "GB/s", "of the limit"],
        kernels),
      element("p", {class: "note"}, "The limit is what the device has reached with large products and " +
        "copies, measured by themselves when the run was recorded. Data in caches may come faster."))];
  })];
}

function difference(part) {
  if (part.measured === 0) return "";
  const share = (part.predicted - part.measured) / part.measured;
  return (share >= 0 ? "+" : "−") + (100 * Math.abs(share)).toFixed(1) + " %";
}

// Empty if no run has a prediction.
function predictedPanel(report) {
  return report.runs.filter((run) => run.predicted !== null).map((run) => {
    const {target, step, devices, tasks} = run.predicted;
    const most = Math.max(step.measured, step.predicted);
    const pair = (text, part) => element("div", {class: "pair"},
      barLine(text, bar([["measured", part.measured, "#3b82f6"]], most), duration(part.measured)),
      barLine("", bar([["predicted", part.predicted, "#a78bfa"]], most),
        duration(part.predicted) + "  " + difference(part)));
    const row = (part) => [part.what, duration(part.measured), duration(part.predicted), difference(part)];
    return element("div", {class: "runs"},
      panel(run.title + ": a step, predicted on the target " + target,
        pair("A step", step),
        ...devices.map((part) => pair(part.what.replace("work of device", "Device"), part)),
        element("p", {class: "note"}, key("#3b82f6", "measured"), " ", key("#a78bfa", "predicted"))),
      panel("Tasks, per step", table(["task", "measured", "predicted", "difference"],
        tasks.slice(0, 40).map(row))));
  });
}

function comparePanel(report) {
  const [first] = report.runs;
  const line = (text, of, lowIsGood = true) => [text, ...report.runs.map((run) => {
    const value = of(run);
    const shown = duration(value);
    const before = of(first);
    if (run === first || before === 0) return shown;
    const change = (100 * (value - before)) / before;
    const good = lowIsGood ? change < 0 : change > 0;
    return element("span", {}, shown + " ", element("span",
      {class: Math.abs(change) < 0.05 ? "" : good ? "better" : "worse"},
      (change >= 0 ? "+" : "−") + Math.abs(change).toFixed(1) + " %"));
  })];
  const head = ["", ...report.runs.map((run) => run.title)];
  const rows = [line("time of a step", (run) => run.measured / run.steps),
    line("with these kernels alone", (run) => run.ideal / run.steps),
    line("work of all devices", (run) => totals(run).busy / run.steps),
    line("idle time of all devices", (run) => totals(run).idle / run.steps),
    ...report.causes.map((cause, c) => line("idle: " + cause, (run) => sumOf(run, c) / run.steps))];
  // Several copies may have the same name.
  const times = new Map(report.runs.map((run) => [run, new Map()]));
  const names = new Map();
  for (const run of report.runs) {
    const ofRun = times.get(run);
    for (const {name, total} of run.subjects) {
      ofRun.set(name, (ofRun.get(name) || 0) + total / run.steps);
      names.set(name, Math.max(names.get(name) || 0, ofRun.get(name)));
    }
  }
  const tasks = [...names].filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]).slice(0, 30)
    .map(([name]) => line(name, (run) => times.get(run).get(name) || 0));
  return [panel("Per step", table(head, rows)), panel("Tasks, per step", table(head, tasks))];
}
