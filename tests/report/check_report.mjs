// Opens reports in a headless Chromium, uses them as a person does, and checks what they show.
//
//   node tests/report/check_report.mjs RUN.html COMPARED.html PREDICTED.html BIG.html OUTPUT_FOLDER
//
// RUN is the report of a run on four devices, COMPARED that of two runs, PREDICTED that of a run
// with a prediction, BIG one with very many tasks. Screenshots go to the folder. playwright-core is taken from build/browser.
import {strict as assert} from "node:assert";
import {mkdirSync} from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const require = createRequire(path.join(root, "build/browser/package.json"));
const {chromium} = require("playwright-core");
const [run, compared, predicted, big, output] = process.argv.slice(2).map((file) => path.resolve(file));
mkdirSync(output, {recursive: true});

const browser = await chromium.launch({executablePath: "/usr/bin/chromium", args: ["--no-sandbox"]});

// A page that must not ask for anything but itself, and must not fail.
async function open(file, theme, viewport = {width: 1280, height: 900}) {
  const page = await browser.newPage({viewport, colorScheme: theme, hasTouch: viewport.width < 600});
  const problems = [];
  page.on("request", (request) => {
    if (request.url() !== pathToFileURL(file).href) problems.push("asks for " + request.url());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") problems.push(message.text()); });
  await page.goto(pathToFileURL(file).href);
  await page.waitForFunction(() => window.sluice !== undefined);
  page.problems = problems;
  return page;
}

async function shoot(page, name) {
  await page.screenshot({path: path.join(output, name + ".png")});
}

// The middle of the widest task, or idle stretch, of a device's kernels, in pixels of the page.
function widest(page, device, kind) {
  return page.evaluate(([device, kind]) => {
    const {timeline} = window.sluice;
    const place = timeline.places.find((p) => p.kind === "row" && p.row.device === device &&
      p.row.lane.kind === "compute");
    const {row, run} = place;
    const times = kind === "task"
      ? [...row.starts].map((start, i) => [start, row.ends[i]])
      : run.idleStretches[device].begins.map((begin, i) => [begin, begin + run.idleStretches[device].lengths[i]]);
    const inView = times.filter(([from, to]) => from >= timeline.from && to <= timeline.to);
    const [from, to] = inView.reduce((a, b) => (b[1] - b[0] > a[1] - a[0] ? b : a));
    const box = timeline.canvas.getBoundingClientRect();
    timeline.scroller.scrollTop = 0;
    return {x: box.left + timeline.xOf((from + to) / 2), y: box.top + place.y + place.height / 2,
      length: to - from};
  }, [device, kind]);
}

const cardText = (page) => page.locator("#card").innerText();

async function checkTimeline(page) {
  const devices = await page.evaluate(() =>
    window.sluice.timeline.places.filter((p) => p.kind === "device").map((p) => p.device));
  assert.deepEqual(devices, [0, 1, 2, 3]);
  const span = () => page.evaluate(() => window.sluice.timeline.to - window.sluice.timeline.from);
  const all = await span();
  await page.click('[data-do="in"]');
  const closer = await span();
  assert.ok(Math.abs(closer / all - 0.6) < 1e-9, `zoomed by ${closer / all}`);
  await page.keyboard.press("0");
  assert.equal(await span(), all);
  const box = await page.locator("#plot").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 80);
  await page.mouse.wheel(0, -600);
  await page.waitForFunction((before) => window.sluice.timeline.to - window.sluice.timeline.from < before / 2, all);
  const from = () => page.evaluate(() => window.sluice.timeline.from);
  const left = await from();
  await page.keyboard.press("ArrowRight");
  assert.ok(await from() > left, "the arrow key does not pan");
  const panned = await from();
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 + 150, box.y + 80);
  await page.mouse.up();
  assert.ok(await from() < panned, "dragging does not pan");
  await page.click('[data-do="step"]');
}

// Every task and idle stretch that is some pixels wide is drawn, whatever narrow ones are before it.
async function checkBlocks(page) {
  const [wide, missing] = await page.evaluate(() => {
    const {timeline} = window.sluice;
    const drawn = [];
    const {context} = timeline;
    const fill = context.fillRect;
    context.fillRect = (x, y, width, height) => drawn.push({x, y, width, height});
    timeline.fit();
    delete context.fillRect;
    context.fillRect = fill;
    const missing = [];
    let wide = 0;
    for (const {kind, run, row, y, height} of timeline.places) {
      if (kind !== "row" || y + height > timeline.canvas.clientHeight) continue;
      const expect = (from, to, margin, what) => {
        const [left, right] = [timeline.xOf(from), timeline.xOf(to)];
        if (right - left < 3) return;
        ++wide;
        const covered = drawn.filter((block) => block.y === y + margin && block.height === height - 2 * margin)
          .reduce((sum, block) => sum + Math.max(0, Math.min(block.x + block.width, right) - Math.max(block.x, left)), 0);
        if (covered < right - left - 1.1) missing.push(`${what} of ${row.lane.name} at ${from}`);
      };
      row.starts.forEach((start, i) => expect(start, row.ends[i], 1, "task"));
      if (row.lane.kind !== "compute") continue;
      const idle = run.idleStretches[row.device];
      idle.begins.forEach((begin, i) => expect(begin, begin + idle.lengths[i], 3, "idle stretch"));
    }
    return [wide, missing];
  });
  assert.ok(wide > 20, `only ${wide} wide blocks`);
  assert.deepEqual(missing, []);
}

async function checkCards(page) {
  const block = await widest(page, 1, "task");
  await page.mouse.move(block.x, block.y);
  await page.waitForSelector("#card:not([hidden])");
  const task = await cardText(page);
  assert.match(task, /Device 1, compute/);
  assert.match(task, /(forward|backward|update)/);
  assert.match(task, /Takes\s+[\d.]+ (ns|µs|ms)/);
  await shoot(page, "task_" + await page.evaluate(() => document.documentElement.dataset.theme));
  const gap = await widest(page, 3, "idle");
  await page.mouse.move(gap.x, gap.y);
  const idle = await cardText(page);
  assert.match(idle, /Idle for/);
  assert.match(idle, /until (the end of the step|\w+)/);
  assert.match(idle, /(ramp|imbalance|transfer|remote memory|input|host|cores)/);
  // What the card lists adds up to the stretch.
  const sum = await page.evaluate(([x, y]) => {
    const {timeline} = window.sluice;
    const box = timeline.canvas.getBoundingClientRect();
    const {stretch} = timeline.at(x - box.left, y - box.top);
    return stretch.parts.reduce((all, part) => all + part.time, 0) - stretch.length;
  }, [gap.x, gap.y]);
  assert.equal(sum, 0);
  await shoot(page, "idle_card_" + await page.evaluate(() => document.documentElement.dataset.theme));
}

async function checkSearch(page) {
  await page.keyboard.press("0");
  await page.fill("#search", "backward 2 m3");
  const text = await page.locator("#matches").innerText();
  const expected = await page.evaluate(() => {
    let count = 0;
    for (const row of window.sluice.report.runs[0].rows) {
      for (let i = 0; i < row.starts.length; ++i) {
        count += taskName(row.run, row.lane, row.taskOf(i)).includes("backward 2 m3") ? 1 : 0;
      }
    }
    return count;
  });
  assert.ok(expected > 0);
  assert.equal(text, expected + (expected === 1 ? " match" : " matches"));
  await page.press("#search", "Enter");
  await page.press("#search", "Escape");
  assert.equal(await page.locator("#matches").innerText(), "");
  await page.click('[data-do="fit"]');
}

async function checkPanels(page) {
  const theme = await page.evaluate(() => document.documentElement.dataset.theme);
  await page.click('[data-tab="memory"]');
  assert.equal(await page.locator("#memory svg").count(), 4);
  assert.match(await page.locator("#memory .panel").first().innerText(), /Device 0: [\d.]+ \w+ of [\d.]+ \w+ planned/);
  await shoot(page, "memory_" + theme);
  await page.click('[data-tab="idle"]');
  // The bars are as long as the times that they stand for, and fill the whole.
  const bars = await page.evaluate(() => [...document.querySelectorAll("#idle .bar")].map((bar) =>
    [...bar.children].reduce((sum, part) => sum + part.getBoundingClientRect().width, 0) /
      bar.getBoundingClientRect().width));
  assert.equal(bars.length, 4);
  for (const full of bars) assert.ok(Math.abs(full - 1) < 0.01, `a bar is filled by ${full}`);
  const exact = await page.evaluate(() => window.sluice.report.runs[0].devices.every((device) =>
    device.causes.reduce((a, b) => a + b, 0) === device.idle && device.idle + device.busy === device.span));
  assert.ok(exact, "causes do not add up to the idle time");
  const [shown, known] = await page.evaluate(() => {
    const {report} = window.sluice;
    const [run] = report.runs;
    const [, panel] = document.querySelectorAll("#idle .panel");
    const head = [...panel.querySelectorAll("th")].map((cell) => cell.textContent);
    const rows = [...panel.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((c) => c.textContent));
    return [rows, run.devices.map((device) => ["Device " + device.name, duration(device.idle / run.steps),
      ...head.slice(2).map((name) => duration(device.causes[report.causes.indexOf(name)] / run.steps))])];
  });
  assert.deepEqual(shown, known);
  await shoot(page, "idle_" + theme);
  for (const tab of ["stages", "tasks"]) {
    await page.click(`[data-tab="${tab}"]`);
    assert.ok(await page.locator(`#${tab} tbody tr`).count() >= 4);
    await shoot(page, tab + "_" + theme);
  }
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(wide <= 0, `the page is ${wide} pixels wider than 1280`);
  await page.click('[data-tab="timeline"]');
}

async function checkTheme(page, theme) {
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme);
  const before = await background();
  await page.click("#theme");
  assert.notEqual(await background(), before);
  await page.click("#theme");
  assert.equal(await background(), before);
}

// Paper is white whatever the screen has, and the screen has its colours again afterwards.
async function checkPaper(page, theme) {
  const shown = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
  assert.equal(await shown(), "light");
  await page.emulateMedia({media: "print"});
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  for (const panel of ["memory", "idle", "stages", "tasks"]) {
    assert.ok(await page.locator("#" + panel).isVisible(), `${panel} is not printed`);
  }
  await page.screenshot({path: path.join(output, `print_${theme}.png`), fullPage: true});
  await page.emulateMedia({media: "screen"});
  await page.evaluate(() => window.dispatchEvent(new Event("afterprint")));
  assert.equal(await shown(), theme);
}

// Nothing is wider than a phone, and two fingers zoom.
async function checkPhone(file, theme) {
  const page = await open(file, theme, {width: 390, height: 844});
  for (const tab of await page.locator("#tabs button").evaluateAll((all) => all.map((one) => one.dataset.tab))) {
    await page.locator(`[data-tab="${tab}"]`).click();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(wide <= 0, `${tab} is ${wide} pixels wider than a phone`);
    await shoot(page, `phone_${tab}_${theme}`);
  }
  await page.click('[data-tab="timeline"]');
  const zoomed = await page.evaluate(() => {
    const {timeline} = window.sluice;
    timeline.fit();
    const canvas = timeline.canvas;
    canvas.setPointerCapture = () => {};  // these fingers are made up
    const box = canvas.getBoundingClientRect();
    const touch = (name, pointerId, x) => canvas.dispatchEvent(new PointerEvent(name,
      {pointerId, pointerType: "touch", clientX: box.left + x, clientY: box.top + 60, bubbles: true}));
    const middle = timeline.timeAt(200);
    const before = timeline.to - timeline.from;
    touch("pointerdown", 1, 180);
    touch("pointerdown", 2, 220);
    touch("pointermove", 1, 160);
    touch("pointermove", 2, 240);
    touch("pointerup", 1, 160);
    touch("pointerup", 2, 240);
    const after = timeline.to - timeline.from;
    return {factor: before / after, moved: Math.abs(timeline.timeAt(200) - middle) / before};
  });
  assert.ok(Math.abs(zoomed.factor - 2) < 1e-6 && zoomed.moved < 1e-6, JSON.stringify(zoomed));
  assert.deepEqual(page.problems, []);
  await page.close();
}

for (const theme of ["light", "dark"]) {
  const page = await open(run, theme);
  await shoot(page, "timeline_" + theme);
  await checkTheme(page, theme);
  await checkTimeline(page);
  await checkBlocks(page);
  await page.click('[data-do="step"]');
  await checkCards(page);
  await shoot(page, "step_" + theme);
  await checkSearch(page);
  await checkPanels(page);
  await checkPaper(page, theme);
  assert.deepEqual(page.problems, []);
  await page.close();
  await checkPhone(predicted, theme);
  console.log(`${theme}: timeline, cards, search, memory, idle time, stages, tasks, paper, phone`);
}

{
  const page = await open(compared, "light");
  assert.equal(await page.evaluate(() => window.sluice.timeline.places.filter((p) => p.kind === "run").length), 2);
  await shoot(page, "two_runs");
  await page.click('[data-do="step"]');  // of both, beginning together
  const [begins, ends] = await page.evaluate(() => {
    const {report, timeline} = window.sluice;
    const steps = report.runs.map((run) => ({...timeline.stepOf(run), by: timeline.offset(run)}));
    return [steps.map((step) => step.from + step.by - timeline.from),
      steps.map((step) => timeline.to - step.to - step.by)];
  });
  assert.ok(begins[0] > 0 && Math.abs(begins[0] - begins[1]) < 1e-3, begins.join(" "));
  assert.ok(Math.min(...ends) > 0, ends.join(" "));
  await shoot(page, "two_steps");
  await page.click('[data-do="align"]');
  await page.click('[data-do="align"]');
  await page.click('[data-tab="compare"]');
  assert.match(await page.locator("#compare").innerText(), /time of a step/);
  assert.ok(await page.locator("#compare .better, #compare .worse").count() > 0);
  await shoot(page, "compare");
  assert.deepEqual(page.problems, []);
  await page.close();
  console.log("two runs: timelines, comparison");
}

for (const theme of ["light", "dark"]) {
  const page = await open(predicted, theme);
  assert.equal(await page.evaluate(() => window.sluice.timeline.places.filter((p) => p.kind === "run").length), 2);
  await page.click('[data-tab="predicted"]');
  assert.equal(await page.locator("#predicted .pair").count(), 5);  // a step and four devices
  assert.match(await page.locator("#predicted").innerText(), /Tasks, per step[^]*backward 1[^]*[+−][\d.]+ %/);
  await shoot(page, "predicted_" + theme);
  assert.deepEqual(page.problems, []);
  await page.close();
  console.log(`${theme}: predicted beside measured`);
}

{
  const begin = performance.now();
  const page = await open(big, "light");
  const seconds = (performance.now() - begin) / 1000;
  const [tasks, blocks] = await page.evaluate(() => {
    const {report, timeline} = window.sluice;
    const context = timeline.context;
    const fill = context.fillRect;
    let blocks = 0;
    context.fillRect = (...args) => {
      ++blocks;
      fill.apply(context, args);
    };
    timeline.fit();
    delete context.fillRect;
    return [report.runs[0].rows.reduce((sum, row) => sum + row.starts.length, 0), blocks];
  });
  // Few pixels, few blocks, however many tasks there are.
  const rows = await page.evaluate(() => window.sluice.timeline.places.length);
  assert.ok(tasks >= 2_000_000, `${tasks} tasks`);
  assert.ok(blocks < rows * 1280 + 1000, `${blocks} blocks are drawn`);
  await shoot(page, "big");
  assert.deepEqual(page.problems, []);
  console.log(`${tasks} tasks: open after ${seconds.toFixed(2)} s, drawn by ${blocks} blocks`);
}

await browser.close();
