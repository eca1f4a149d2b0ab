// Bars and curves of the other panels.

function memoryChart(run, number, width) {
  const use = run.memory[number];
  const height = 150;
  const left = 62;
  const bottom = 20;
  const top = Math.max(use.planned, use.peak, 1) * 1.08;
  const x = (time) => left + ((width - left - 10) * time) / run.end;
  const y = (bytes) => 8 + (height - bottom - 8) * (1 - bytes / top);
  let path = "";
  use.points.forEach(([time, bytes], i) => {
    path += i === 0 ? "M" + x(time).toFixed(2) + " " + y(bytes).toFixed(2)
      : "H" + x(time).toFixed(2) + "V" + y(bytes).toFixed(2);
  });
  path += "H" + x(run.end).toFixed(2);
  const area = path + "V" + y(0).toFixed(2) + "H" + x(use.points[0][0]).toFixed(2) + "Z";
  const svg = drawing("svg", {viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Memory of device " + run.devices[number].name});
  for (const share of [0, 0.5, 1]) {
    const bytes = share * Math.max(use.planned, use.peak);
    svg.append(
      drawing("line", {x1: left, x2: width - 10, y1: y(bytes), y2: y(bytes), stroke: "var(--line)"}),
      Object.assign(drawing("text", {x: left - 8, y: y(bytes) + 4, "text-anchor": "end"}),
        {textContent: byteText(Math.round(bytes))}));
  }
  svg.append(
    drawing("path", {d: area, fill: "#3b82f6", "fill-opacity": 0.28}),
    drawing("rect", {x: left, width: width - left - 10, y: y(use.state), height: y(0) - y(use.state),
      fill: "#22a06b", "fill-opacity": 0.35}),
    drawing("path", {d: path, fill: "none", stroke: "#3b82f6", "stroke-width": 0.7}),
    drawing("line", {x1: left, x2: width - 10, y1: y(use.planned), y2: y(use.planned),
      stroke: "#e5484d", "stroke-dasharray": "5 4"}),
    drawing("circle", {cx: x(use.peakTime), cy: y(use.peak), r: 4, fill: "#3b82f6",
      stroke: "var(--panel)", "stroke-width": 1.5}));
  for (const share of [0, 0.5, 1]) {
    svg.append(Object.assign(drawing("text", {x: x(share * run.end), y: height - 5,
      "text-anchor": share === 1 ? "end" : share === 0 ? "start" : "middle"}),
    {textContent: duration(share * run.end)}));
  }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const time = (((event.clientX - box.left) * width) / box.width - left) / (width - left - 10) * run.end;
    const i = lowerBound(use.points.map((point) => point[0]), time + 1e-9) - 1;
    if (i < 0 || time > run.end) return;
    tip(event, element("b", {}, byteText(use.points[i][1])),
      element("div", {class: "note"}, "at " + duration(time)));
  });
  svg.addEventListener("pointerleave", () => { document.getElementById("card").hidden = true; });
  return svg;
}

function tip(event, ...children) {
  const card = document.getElementById("card");
  card.hidden = false;
  card.replaceChildren(...children);
  const size = card.getBoundingClientRect();
  card.style.left = Math.max(Math.min(event.clientX + 14, window.innerWidth - size.width - 8), 4) + "px";
  card.style.top = Math.min(event.clientY + 14, window.innerHeight - size.height - 8) + "px";
}

// parts: [text, value, colour]; a bar is as long as `whole`.
function bar(parts, whole) {
  const made = element("div", {class: "bar"});
  for (const [text, value, colour] of parts) {
    if (value <= 0) continue;
    const part = element("div", {"data-part": text});
    part.style.width = (100 * value) / whole + "%";
    part.style.background = colour;
    part.addEventListener("pointermove", (event) => tip(event, element("b", {}, swatch(colour), text),
      element("div", {class: "note"}, duration(value) + ", " + percent(value, whole))));
    part.addEventListener("pointerleave", () => { document.getElementById("card").hidden = true; });
    made.append(part);
  }
  return made;
}

function barLine(head, made, tail) {
  return element("div", {class: "barline"}, element("span", {}, head), made, element("span", {}, tail));
}

function key(colour, text, cause = false) {
  const box = element("i", cause ? {class: "cause"} : {});
  box.style.background = colour;
  return element("span", {class: "key"}, box, text);
}
