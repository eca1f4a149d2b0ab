// The timeline: rows of lanes, drawn on a canvas that is as large as what one sees. Tasks that are
// narrower than a pixel are drawn together, so that the cost of a picture depends on its size only.

const AXIS = 26;

// The first of a lane's items after i that is not drawn in the same pixel. Those in between end there,
// too, except the last one: it may be long.
function nextToDraw(starts, i, endOfPixel, lastIsWide) {
  const next = lowerBound(starts, endOfPixel, i + 1);
  return next > i + 1 && lastIsWide(next - 1) ? next - 1 : next;
}

class Timeline {
  constructor(report) {
    this.report = report;
    this.scroller = document.getElementById("scroller");
    this.canvas = document.getElementById("plot");
    this.context = this.canvas.getContext("2d");
    this.search = "";
    this.byClock = false;
    this.shifts = new Map();  // of runs whose steps are beside each other
    this.gutter = 150;  // left of the lanes, for their names
    this.arrange();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    this.fit();
  }

  // Where every row is, from the top.
  arrange() {
    this.places = [];
    let y = AXIS;
    for (const run of this.report.runs) {
      if (this.report.runs.length > 1) {
        this.places.push({kind: "run", run, y, height: 30});
        y += 30;
      }
      let device = -1;
      for (const row of run.rows) {
        if (row.device !== device) {
          device = row.device;
          y += 6;
          this.places.push({kind: "device", run, device, y, height: 20});
          y += 20;
        }
        const height = row.lane.kind === "compute" ? 34 : 15;
        this.places.push({kind: "row", run, row, y, height});
        y += height + 2;
      }
      y += 10;
    }
    this.height = y;
  }

  offset(run) { return this.byClock ? run.clock : this.shifts.get(run) || 0; }
  end() { return Math.max(...this.report.runs.map((run) => run.end + this.offset(run))); }
  width() { return Math.max(this.scroller.clientWidth - this.gutter - 8, 100); }
  scale() { return this.width() / (this.to - this.from); }
  xOf(time) { return this.gutter + (time - this.from) * this.scale(); }
  timeAt(x) { return this.from + (x - this.gutter) / this.scale(); }

  show(from, to) {
    const end = this.end();
    const span = Math.min(Math.max(to - from, 20), end * 1.04 || 1);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, -0.02 * end), end * 1.02 - span);
    this.to = this.from + span;
    this.draw();
  }
  fit() {
    this.shifts.clear();
    this.show(-0.02 * this.end(), 1.02 * this.end());
  }
  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }
  // Begin and end of the second step, which is the first that nothing had to be prepared for.
  stepOf(run) {
    const step = run.steps > 1 ? 1 : 0;
    let from = Infinity;
    let to = 0;
    for (const row of run.rows) {
      const first = row.steps.indexOf(step);
      const last = row.steps.lastIndexOf(step);
      if (first >= 0) {
        from = Math.min(from, row.starts[first]);
        to = Math.max(to, row.ends[last]);
      }
    }
    return {from, to};
  }
  // Steps of several runs begin together, unless the runs are at their time of day.
  oneStep() {
    const [first] = this.report.runs;
    const steps = this.report.runs.map((run) => ({run, ...this.stepOf(run)}));
    const {from} = steps[0];
    for (const step of steps) this.shifts.set(step.run, from - step.from);
    const shown = this.byClock ? steps.slice(0, 1) : steps;
    const length = Math.max(...shown.map((step) => step.to - step.from));
    const margin = length * 0.02;
    this.show(from - margin + this.offset(first), from + length + margin + this.offset(first));
  }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    const width = this.scroller.clientWidth;
    this.gutter = width < 600 ? 114 : 150;
    const limit = parseFloat(getComputedStyle(this.scroller).maxHeight) || this.height;
    const height = Math.min(this.height, limit);
    document.getElementById("spacer").style.height = Math.max(this.height - height, 0) + "px";
    if (width === 0) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = height + "px";
    const style = getComputedStyle(document.documentElement);
    this.ink = style.getPropertyValue("--ink");
    this.soft = style.getPropertyValue("--soft");
    this.line = style.getPropertyValue("--line");
    this.lane = style.getPropertyValue("--lane");
    this.panel = style.getPropertyValue("--panel");
    const c = this.context;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = this.panel;
    c.fillRect(0, 0, width, height);
    c.textBaseline = "middle";
    const top = this.scroller.scrollTop;
    this.drawGrid(height);
    for (const place of this.places) {
      const y = place.y - top;
      if (y + place.height >= AXIS && y <= height) this.drawPlace(place, y);
    }
    this.drawAxis();
    document.getElementById("window").textContent =
      duration(Math.max(this.from, 0)) + " … " + duration(Math.min(this.to, this.end()));
  }

  ticks() {
    const rough = (this.to - this.from) / Math.max(this.width() / 110, 3);
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
    const list = [];
    for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) list.push(t);
    return list;
  }
  drawGrid(height) {
    this.context.fillStyle = this.line;
    for (const t of this.ticks()) this.context.fillRect(Math.round(this.xOf(t)), AXIS, 1, height);
  }
  drawAxis() {
    const c = this.context;
    c.fillStyle = this.panel;
    c.fillRect(0, 0, this.scroller.clientWidth, AXIS - 2);
    c.fillStyle = this.soft;
    c.font = "11px system-ui, sans-serif";
    c.textAlign = "center";
    for (const t of this.ticks()) {
      const x = this.xOf(t);
      if (x > this.gutter + 12) c.fillText(tickText(t), x, AXIS / 2);
    }
    c.fillStyle = this.line;
    c.fillRect(0, AXIS - 2, this.scroller.clientWidth, 1);
  }

  drawPlace(place, y) {
    const c = this.context;
    c.textAlign = "left";
    if (place.kind === "run") {
      c.fillStyle = this.ink;
      c.font = "600 14px system-ui, sans-serif";
      c.fillText(place.run.title, 12, y + place.height / 2);
    } else if (place.kind === "device") {
      const idle = place.run.devices[place.device];
      c.fillStyle = this.ink;
      c.font = "600 12.5px system-ui, sans-serif";
      const name = "Device " + idle.name;
      c.fillText(name, 12, y + place.height / 2);
      const width = c.measureText(name).width;
      c.fillStyle = this.soft;
      c.font = "11.5px system-ui, sans-serif";
      c.fillText("busy " + percent(idle.busy, idle.span), 22 + width, y + place.height / 2);
    } else {
      this.drawRow(place, y);
    }
  }

  drawRow(place, y) {
    const c = this.context;
    const {row, height} = place;
    c.fillStyle = this.lane;
    c.fillRect(this.gutter, y, this.width(), height);
    c.save();
    c.beginPath();
    c.rect(this.gutter, y, this.width(), height);
    c.clip();
    if (row.lane.kind === "compute") this.drawIdle(place, y);
    this.drawTasks(place, y);
    c.restore();
    c.fillStyle = this.panel;
    c.fillRect(0, y, this.gutter - 6, height);
    c.fillStyle = this.soft;
    c.font = "11.5px system-ui, sans-serif";
    c.textAlign = "right";
    c.fillText(row.lane.name, this.gutter - 12, y + height / 2);
  }

  drawIdle(place, y) {
    const c = this.context;
    const {run, row, height} = place;
    const idle = run.idleStretches[row.device];
    const scale = this.scale();
    const from = this.from - this.offset(run);
    c.textAlign = "center";
    c.font = "11px system-ui, sans-serif";
    const isWide = (i) => idle.lengths[i] * scale >= 2;
    for (let i = Math.max(lowerBound(idle.begins, from) - 1, 0); i < idle.begins.length;) {
      const x = this.gutter + (idle.begins[i] - from) * scale;
      if (x > this.gutter + this.width()) break;
      if (!isWide(i)) {
        // The first one in a pixel stands for all of them.
        c.globalAlpha = 0.3;
        c.fillStyle = CAUSES[idle.stretch(i).sums[0][0]];
        c.fillRect(Math.floor(x), y + 3, 1, height - 6);
        i = nextToDraw(idle.begins, i, from + (Math.floor(x) + 1 - this.gutter) / scale, isWide);
        continue;
      }
      let left = x;
      for (const [cause, time] of idle.stretch(i).sums) {
        c.globalAlpha = 0.3;
        c.fillStyle = CAUSES[cause];
        c.fillRect(left, y + 3, time * scale, height - 6);
        c.globalAlpha = 0.9;
        c.fillRect(left, y + height - 4, time * scale, 2);
        if (time * scale > 66) {
          c.globalAlpha = 1;
          c.fillStyle = this.soft;
          c.fillText(this.report.causes[cause], left + (time * scale) / 2, y + height / 2);
        }
        left += time * scale;
      }
      ++i;
    }
    c.globalAlpha = 1;
  }

  drawTasks(place, y) {
    const c = this.context;
    const {run, row, height} = place;
    const scale = this.scale();
    const from = this.from - this.offset(run);
    const right = this.gutter + this.width();
    const found = this.search === "" ? null : this.matchesOf(row);
    const isWide = (i) => (row.ends[i] - row.starts[i]) * scale >= 1.5;
    c.textAlign = "center";
    c.font = (height > 20 ? "600 11.5px" : "10px") + " system-ui, sans-serif";
    for (let i = lowerBound(row.ends, from); i < row.starts.length;) {
      const x = this.gutter + (row.starts[i] - from) * scale;
      if (x > right) break;
      const width = (row.ends[i] - row.starts[i]) * scale;
      const task = row.taskOf(i);
      const dim = found !== null && found[task] === 0;
      c.fillStyle = row.colours[task];
      if (isWide(i)) {
        c.globalAlpha = dim ? 0.15 : 1;
        c.fillRect(x, y + 1, Math.max(width - (width > 4 ? 1 : 0), 1), height - 2);
        if (!dim) this.label(run, row, task, x, y, width, height);
        ++i;
      } else {
        const next = nextToDraw(row.starts, i, from + (Math.floor(x) + 1 - this.gutter) / scale, isWide);
        const full = Math.min((row.busy[next] - row.busy[i]) * scale, 1);
        c.globalAlpha = dim ? 0.1 : 0.3 + 0.7 * full;
        c.fillRect(Math.floor(x), y + 1, 1, height - 2);
        i = next;
      }
    }
    c.globalAlpha = 1;
  }

  // The micro-batch, with the kind of work where there is room.
  label(run, row, task, x, y, width, height) {
    const subject = run.subjects[row.lane.tasks[2 * task]];
    if (width < (height > 20 ? 14 : 18)) return;
    const left = Math.max(x, this.gutter);
    const right = Math.min(x + width, this.gutter + this.width());
    const c = this.context;
    const batch = subject.once ? "" : String(row.lane.tasks[2 * task + 1]);
    const texts = height > 20
      ? [taskName(run, row.lane, task), subject.name.charAt(0).toUpperCase() + batch, batch]
      : [taskName(run, row.lane, task), batch];
    for (const text of texts) {
      if (text !== "" && c.measureText(text).width < right - left - 5) {
        c.fillStyle = "#ffffff";
        c.fillText(text, (left + right) / 2, y + height / 2 + 0.5);
        return;
      }
    }
  }

  // By task: whether its name has the text.
  matchesOf(row) {
    if (row.searched !== this.search) {
      row.searched = this.search;
      row.found = new Uint8Array(row.numTasks());
      for (let task = 0; task < row.found.length; ++task) {
        row.found[task] = taskName(row.run, row.lane, task).toLowerCase().includes(this.search) ? 1 : 0;
      }
    }
    return row.found;
  }

  setSearch(text) {
    this.search = text.trim().toLowerCase();
    let count = 0;
    if (this.search !== "") {
      for (const run of this.report.runs) {
        for (const row of run.rows) {
          const found = this.matchesOf(row);
          for (let i = 0; i < row.starts.length; ++i) count += found[row.taskOf(i)];
        }
      }
    }
    document.getElementById("matches").textContent =
      this.search === "" ? "" : count + (count === 1 ? " match" : " matches");
    this.draw();
  }

  // Shows the first task after the middle that matches; from the end it goes on at the begin.
  nextMatch() {
    if (this.search === "") return;
    const middle = (this.from + this.to) / 2;
    const nearest = (from) => {
      let best = null;
      for (const run of this.report.runs) {
        for (const row of run.rows) {
          const found = this.matchesOf(row);
          for (let i = lowerBound(row.starts, from - this.offset(run)); i < row.starts.length; ++i) {
            if (found[row.taskOf(i)] === 0) continue;
            const start = row.starts[i] + this.offset(run);
            if (start > from && (best === null || start < best.start)) {
              best = {start, end: row.ends[i] + this.offset(run)};
            }
            break;
          }
        }
      }
      return best;
    };
    const best = nearest(middle + (this.to - this.from) * 1e-6) || nearest(-1);
    if (best === null) return;
    const span = Math.min(this.to - this.from, Math.max((best.end - best.start) * 12, 200));
    const at = (best.start + best.end) / 2 + span * 1e-7;
    this.show(at - span / 2, at + span / 2);
  }

  // What is under a point of the canvas: a task, an idle stretch, or null.
  at(x, y) {
    const place = this.places.find((p) => p.kind === "row" &&
      y + this.scroller.scrollTop >= p.y && y + this.scroller.scrollTop < p.y + p.height);
    if (!place || x < this.gutter) return null;
    const {run, row} = place;
    const time = this.timeAt(x) - this.offset(run);
    const slack = 1.5 / this.scale();
    const next = lowerBound(row.ends, time - slack);
    if (next < row.starts.length && row.starts[next] <= time + slack) {
      return {kind: "task", run, row, i: next};
    }
    if (row.lane.kind !== "compute") return null;
    const idle = run.idleStretches[row.device];
    const i = lowerBound(idle.begins, time + 1e-9) - 1;
    return i >= 0 && time < idle.begins[i] + idle.lengths[i]
      ? {kind: "idle", run, row, stretch: idle.stretch(i)} : null;
  }

  cardOf(found) {
    const {run, row} = found;
    const device = "Device " + run.devices[row.device].name + ", " + row.lane.name;
    if (found.kind === "task") {
      const {i} = found;
      const subject = run.subjects[row.lane.tasks[2 * row.taskOf(i)]];
      const rows = [["Where", device],
        ["Begins", duration(row.starts[i])], ["Takes", duration(row.ends[i] - row.starts[i])],
        ["Mean of its kind", duration(subject.total / subject.runs)],
        ["Step, round", row.steps[i] + ", " + row.roundOf(i)]];
      if (subject.stage >= 0) rows.push(["Stage", String(subject.stage)]);
      if (subject.bytes > 0) rows.push(["Bytes", byteText(subject.bytes)]);
      return [element("b", {}, swatch(row.colours[row.taskOf(i)]),
        taskName(run, row.lane, row.taskOf(i))), table([], rows)];
    }
    const {stretch} = found;
    const next = stretch.nextLane < 0 ? "the end of the step"
      : taskName(run, run.lanes[stretch.nextLane], stretch.nextTask);
    const rows = stretch.sums.map(([cause, time]) => {
      const part = stretch.parts.filter((p) => p.cause === cause)
        .sort((a, b) => b.time - a.time)[0];
      const lane = run.lanes[part.lane];
      const what = element("span", {}, swatch(CAUSES[cause]), this.report.causes[cause],
        lane.tasks.length > 0 ? ": " + taskName(run, lane, part.task) : "");
      return [what, duration(time)];
    });
    return [element("b", {}, "Idle for " + duration(stretch.length)),
      element("div", {class: "note"}, device + ", until " + next), table([], rows)];
  }

  hover(event) {
    const card = document.getElementById("card");
    const box = this.canvas.getBoundingClientRect();
    const found = this.drag ? null : this.at(event.clientX - box.left, event.clientY - box.top);
    card.hidden = found === null;
    if (found === null) return;
    card.replaceChildren(...this.cardOf(found));
    const size = card.getBoundingClientRect();
    const left = event.clientX + 16 + size.width > window.innerWidth
      ? event.clientX - size.width - 12 : event.clientX + 16;
    card.style.left = Math.max(left, 4) + "px";
    card.style.top = Math.max(Math.min(event.clientY + 16, window.innerHeight - size.height - 8), 4) + "px";
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      const x = event.clientX - canvas.getBoundingClientRect().left;
      if (x < this.gutter) return;  // scrolls the rows
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        this.pan(((event.deltaX || event.deltaY) / this.width()) * 0.8);
      } else {
        this.zoom(Math.exp(event.deltaY * 0.0016), this.timeAt(x));
      }
      this.hover(event);
    }, {passive: false});
    const down = new Map();  // where each pointer is
    const grip = () => {
      const xs = [...down.values()];
      const middle = xs.reduce((sum, x) => sum + x, 0) / xs.length;
      return {x: middle, spread: Math.max(Math.abs(xs[0] - xs[xs.length - 1]), 30), fingers: xs.length};
    };
    const hold = () => {
      this.drag = down.size === 0 ? null : {...grip(), from: this.from, to: this.to};
      canvas.classList.toggle("dragging", down.size > 0);
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      down.set(event.pointerId, event.clientX - canvas.getBoundingClientRect().left);
      hold();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (down.has(event.pointerId)) {
        down.set(event.pointerId, event.clientX - canvas.getBoundingClientRect().left);
        // What was under the middle of the fingers stays there.
        const {x, spread} = grip();
        const {from, to} = this.drag;
        const at = from + ((this.drag.x - this.gutter) / this.width()) * (to - from);
        const span = this.drag.fingers > 1 ? ((to - from) * this.drag.spread) / spread : to - from;
        const begin = at - ((x - this.gutter) / this.width()) * span;
        this.show(begin, begin + span);
      }
      this.hover(event);
    });
    const release = (event) => {
      down.delete(event.pointerId);
      hold();
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => { document.getElementById("card").hidden = true; });
    canvas.addEventListener("dblclick", (event) => {
      const box = canvas.getBoundingClientRect();
      const found = this.at(event.clientX - box.left, event.clientY - box.top);
      if (!found) return;
      const [from, to] = found.kind === "task"
        ? [found.row.starts[found.i], found.row.ends[found.i]]
        : [found.stretch.begin, found.stretch.begin + found.stretch.length];
      const offset = this.offset(found.run);
      this.show(from + offset - (to - from), to + offset + (to - from));
    });
    this.scroller.addEventListener("scroll", () => this.draw());
  }
}
