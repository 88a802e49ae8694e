// Pictures: who talks to whom, with messages on their way, and a metric over steps.
import { el, number, oracle, svg } from "./parts.js";

const NUMBERED = 40;
const FLOWING = 40;
export const NARROW = 500; // pixels of a phone: pictures are drawn narrower, so that their words stay readable

export function network(drawing) {
  if (!drawing) return el("p", { class: "soft" }, "Too many owners or links to draw.");
  const { side, top, height, dense, owners, links, hub } = drawing;
  const middle = { x: side / 2, y: side / 2 };
  const lines = hub ? owners.map((one) => [one, middle]) : links.map(([a, b]) => [owners[a], owners[b]]);
  const drawn = svg("svg", { class: dense ? "network dense" : "network", viewBox: `0 ${top} ${side} ${height}`, role: "img", "aria-label": drawing.words });
  drawn.append(...lines.map(([a, b]) => svg("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y })));
  owners.forEach((one, at) => {
    const title = svg("title", {}, `${one.name}: ${one.holds}`);
    const disc = svg("g", {}, title, svg("circle", { cx: one.x, cy: one.y, r: one.r }));
    if (owners.length <= NUMBERED && one.r >= 8) disc.append(svg("text", { x: one.x, y: one.y, class: "inside" }, String(at + 1)));
    drawn.append(disc);
  });
  if (hub) {
    const width = 7 * hub.length + 16;
    drawn.append(svg("rect", { x: (side - width) / 2, y: side / 2 - 13, width, height: 26, rx: 6, class: "hub" }), svg("text", { x: side / 2, y: side / 2 }, hub));
  }
  drawn.lines = lines;
  return drawn;
}

// Dots along some of the links, once: called whenever a run tells that it went on.
export function flow(drawn) {
  if (!drawn?.lines?.length || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const step = Math.max(1, Math.floor(drawn.lines.length / FLOWING));
  for (let at = Math.floor(Math.random() * step); at < drawn.lines.length; at += step) {
    for (const [a, b] of [drawn.lines[at], [...drawn.lines[at]].reverse()]) {
      const dot = svg("circle", { class: "flow", r: 3, cx: a.x, cy: a.y });
      drawn.append(dot);
      const moved = dot.animate([{ transform: "none" }, { transform: `translate(${b.x - a.x}px, ${b.y - a.y}px)` }], { duration: 700, delay: 200 * Math.random(), easing: "ease-in-out" });
      moved.onfinish = moved.oncancel = () => dot.remove();
    }
  }
}

function ticks(low, high) {
  const rough = (high - low || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.floor(low / step + 1e-9); at <= Math.ceil(high / step - 1e-9); at += 1) found.push(at * step);
  return found.length > 1 ? found : [low, low + step];
}

// series: [{label, points: [[step, value]], oracle}], levels: [{label, value, kind, oracle}]
export function chart(series, levels, { step, of, words }) {
  const [wide, tall, left, below, top] = [innerWidth < NARROW ? 340 : 640, 260, 52, 34, 10];
  const points = series.flatMap((one) => one.points.filter((point) => point[1] !== null));
  const shown = levels.filter((one) => one.value !== null);
  const heights = [...points.map((point) => point[1]), ...shown.map((one) => one.value)];
  const marks = heights.length ? ticks(Math.min(...heights), Math.max(...heights)) : [0, 1];
  const [low, high] = [marks[0], marks[marks.length - 1]];
  const last = of || Math.max(1, ...points.map((point) => point[0]));
  const x = (value) => left + ((wide - left - 12) * value) / last;
  const y = (value) => top + ((tall - top - below) * (high - value)) / (high - low);
  const drawn = svg("svg", { class: "chart", viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": words });
  for (const mark of marks) {
    drawn.append(svg("line", { class: "rule", x1: left, x2: wide - 12, y1: y(mark), y2: y(mark) }), svg("text", { x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, number(mark)));
  }
  for (const mark of [0, Math.round(last / 2), last]) drawn.append(svg("text", { x: x(mark), y: tall - 16, "text-anchor": "middle" }, mark.toLocaleString("en")));
  drawn.append(svg("text", { x: wide - 12, y: tall - 1, "text-anchor": "end" }, step));
  for (const one of shown) drawn.append(svg("line", { class: one.kind, x1: left, x2: wide - 12, y1: y(one.value), y2: y(one.value) }));
  series.forEach((one, at) => {
    const path = one.points.filter((point) => point[1] !== null).map((point) => `${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`);
    if (path.length) drawn.append(svg("path", { class: `mean c${at % 6}`, d: `M${path.join(" L")}${path.length === 1 ? " h0" : ""}` }));
  });
  const keys = [...series.map((one, at) => ({ ...one, kind: `mean c${at % 6}`, value: one.points.at(-1)?.[1] ?? null })), ...levels];
  const key = el("ul", { class: "key" }, keys.map((one) => el("li", {}, svg("svg", { viewBox: "0 0 29 12", "aria-hidden": "true" }, svg("line", { class: one.kind, x1: 0, x2: 29, y1: 6, y2: 6 })), el("span", {}, `${one.label}: `, el("b", {}, number(one.value)), one.oracle ? " " : "", one.oracle ? oracle() : null))));
  return el("div", {}, drawn, key);
}

export function gauges(list) {
  if (!list.length) return null;
  const LISTED = 12;
  const item = (one) => {
    const who = one.owners.length === 1 ? one.owners[0] : one.owners.length <= 3 ? one.owners.join(", ") : `${one.owners.length.toLocaleString("en")} owners alike`;
    const share = one.spent === null ? 1 : Math.min(1, one.spent / one.budget);
    return el("li", {}, el("div", {}, el("span", { title: one.owners.slice(0, 40).join(", ") }, who), el("span", { class: one.within ? null : "alarm" }, one.words, one.within ? "" : ", above")), el("progress", { max: 1, value: share, "aria-label": `${who}: ${one.words}` }));
  };
  const rest = list.slice(LISTED);
  return el("div", {}, el("ul", { class: "gauges" }, list.slice(0, LISTED).map(item)), rest.length ? el("details", {}, el("summary", {}, `${rest.length} more`), el("ul", { class: "gauges" }, rest.map(item))) : null);
}
