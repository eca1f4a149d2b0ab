"use strict";
// Numbers and elements as people want them.

function duration(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return (ns / 1e9).toFixed(3) + " s";
  if (size >= 1e6) return (ns / 1e6).toFixed(3) + " ms";
  if (size >= 1e3) return (ns / 1e3).toFixed(2) + " µs";
  return Math.round(ns) + " ns";
}

// Without the zeros that round times end with.
function tickText(ns) {
  return ns === 0 ? "0" : duration(ns).replace(/\.?0+ (?=\D)/, (zeros) => (zeros.includes(".") ? " " : zeros))
    .replace(/(\.\d*[1-9])0+ /, "$1 ");
}

function byteText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) {
    bytes /= 1024;
    ++unit;
  }
  return (unit === 0 ? bytes : bytes.toFixed(bytes < 10 ? 2 : 1)) + " " + units[unit];
}

function percent(part, whole) {
  return (whole > 0 ? (100 * part) / whole : 0).toFixed(1) + " %";
}

// element("td", {class: "x"}, "text" or children...)
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function drawing(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Rows of texts or elements.
function table(head, rows) {
  const body = element("tbody", {}, ...rows.map((row) =>
    element("tr", {}, ...row.map((cell) => element("td", {}, cell)))));
  return element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((cell) => element("th", {}, cell)))), body);
}

// A colour for every kind of work and every cause of idle time, in both themes.
const WORK = {
  forward: "#3b82f6", backward: "#f59e0b", backward_input: "#f59e0b", backward_weight: "#d9673f",
  update: "#22a06b", pack: "#8b98a9", feed: "#0ea5b7", drain: "#14b8a6", transfer: "#a364e8",
  reduce: "#c955d8", barrier: "#74808f", send: "#8b7cf0", receive: "#8b7cf0", remote: "#e2569b",
};
const CAUSES = ["#8e9bad", "#e5484d", "#a364e8", "#e2569b", "#0ea5b7", "#d6a40c", "#a9743f"];

function swatch(colour) {
  const made = element("span", {class: "swatch"});
  made.style.background = colour;
  return made;
}
