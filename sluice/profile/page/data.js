// The data of the page: facts as they are, times decoded into flat arrays.

class Bytes {
  constructor(base64) {
    const text = atob(base64);
    this.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) this.bytes[i] = text.charCodeAt(i);
    this.at = 0;
  }
  // Seven bits a byte, the lowest first. Not with shifts: times have more than 32 bits.
  number() {
    let value = 0;
    let factor = 1;
    for (;;) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
      factor *= 128;
    }
  }
  skip(numbers) {
    for (; numbers > 0; --numbers) {
      while (this.bytes[this.at++] >= 128);
    }
  }
  signed() {
    const value = this.number();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
}

// The number of the first element that is not below `value`.
function lowerBound(sorted, value, from = 0) {
  let low = from;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function isRemote(lane) {
  return lane.kind === "fetch" || lane.kind === "flush";
}

function colourOf(run, lane, subject) {
  const category = run.subjects[subject].category;
  return isRemote(lane) && category === "transfer" ? WORK.remote : WORK[category] || "#74808f";
}

// One lane of one replica: its tasks in order, by columns.
class Row {
  constructor(run, lane, number, replica) {
    this.run = run;
    this.lane = lane;
    this.number = number;
    this.device = replica * run.devicesPerReplica + lane.device;
    this.colours = [];
    for (let i = 0; i < lane.tasks.length; i += 2) {
      this.colours.push(colourOf(run, lane, lane.tasks[i]));
    }
    this.starts = [];
    this.ends = [];
    this.places = [];
    this.steps = [];
  }
  finish() {
    this.starts = new Float64Array(this.starts);
    this.ends = new Float64Array(this.ends);
    this.places = new Float64Array(this.places);
    this.steps = new Int32Array(this.steps);
    // Time of all tasks before each: how full a pixel is follows from two of these.
    this.busy = new Float64Array(this.starts.length + 1);
    for (let i = 0; i < this.starts.length; ++i) {
      this.busy[i + 1] = this.busy[i] + this.ends[i] - this.starts[i];
    }
  }
  numTasks() { return this.lane.tasks.length / 2; }
  taskOf(i) { return this.places[i] % this.numTasks(); }
  roundOf(i) { return Math.floor(this.places[i] / this.numTasks()); }
}

function taskName(run, lane, task) {
  const subject = run.subjects[lane.tasks[2 * task]];
  return subject.once ? subject.name : subject.name + " m" + lane.tasks[2 * task + 1];
}

const LANE_ORDER = ["load", "fetch", "receive", "exchange", "compute", "send", "flush", "store"];

function readRows(run) {
  const rows = [];
  for (let replica = 0; replica < run.replicas; ++replica) {
    run.lanes.forEach((lane, number) => rows.push(new Row(run, lane, number, replica)));
  }
  const bytes = new Bytes(run.times);
  for (let step = 0; step < run.steps; ++step) {
    for (const row of rows) {
      let count = bytes.number();
      let place = -1;
      let end = 0;
      for (; count > 0; --count) {
        place += 1 + bytes.signed();
        const start = end + bytes.signed();
        end = start + bytes.number();
        row.starts.push(start);
        row.ends.push(end);
        row.places.push(place);
        row.steps.push(step);
      }
    }
  }
  rows.forEach((row) => row.finish());
  const order = (row) => LANE_ORDER.indexOf(row.lane.kind);
  return rows.filter((row) => row.starts.length > 0)
    .sort((a, b) => a.device - b.device || order(a) - order(b) || a.number - b.number);
}

// The idle stretches of a device. What each is made of stays in bytes until it is looked at.
class Idle {
  constructor(bytes) {
    this.bytes = bytes;
    this.begins = [];
    this.lengths = [];
    this.places = [];
    this.known = new Map();
  }
  add(begin, length, place) {
    this.begins.push(begin);
    this.lengths.push(length);
    this.places.push(place);
  }
  // With its parts: cause, time, lane, task.
  stretch(i) {
    if (!this.known.has(i)) {
      const bytes = this.bytes;
      bytes.at = this.places[i];
      const stretch = {begin: this.begins[i], length: this.lengths[i],
        nextLane: bytes.signed(), nextTask: bytes.signed(), parts: []};
      for (let parts = bytes.number(); parts > 0; --parts) {
        stretch.parts.push({
          cause: bytes.signed(), time: bytes.signed(), lane: bytes.signed(), task: bytes.signed(),
        });
      }
      stretch.sums = causeSums(stretch);
      this.known.set(i, stretch);
    }
    return this.known.get(i);
  }
}

function readStretches(run) {
  const bytes = new Bytes(run.stretches);
  const devices = run.devices.map(() => new Idle(bytes));
  for (let count = bytes.number(); count > 0; --count) {
    const device = devices[bytes.number()];
    const begin = bytes.signed();
    device.add(begin, bytes.signed(), bytes.at);
    bytes.skip(2);
    bytes.skip(4 * bytes.number());
  }
  return devices;
}

// [cause, time] with the largest first.
function causeSums(stretch) {
  const sums = new Map();
  for (const part of stretch.parts) sums.set(part.cause, (sums.get(part.cause) || 0) + part.time);
  return [...sums].sort((a, b) => b[1] - a[1]);
}

function readReport() {
  const report = JSON.parse(document.getElementById("data").textContent);
  for (const run of report.runs) {
    run.devicesPerReplica = run.devices.length / run.replicas;
    run.rows = readRows(run);
    run.idleStretches = readStretches(run);
    run.end = Math.max(...run.rows.map((row) => row.ends[row.ends.length - 1]));
    run.span = run.measured / run.steps;
    run.times = run.stretches = null;
  }
  return report;
}
