// Compare: runs that have ended beside each other, as their files have them.
import { $, el, file, number, oracle, show } from "./parts.js";
import { chart } from "./drawing.js";
import { ended } from "./run.js";

const picked = new Set();
let listed = "";

function list(runs) {
  const mark = runs.map((one) => one.name).join("\n");
  if (mark === listed) return;
  listed = mark;
  show($("compare-list"), runs.length ? runs.map((one) => el("p", { class: "pick" }, el("input", { type: "checkbox", id: `pick-${one.name}`, checked: picked.has(one.name), onchange: (event) => {
    if (event.target.checked) picked.add(one.name);
    else picked.delete(one.name);
    beside();
  } }), el("label", { for: `pick-${one.name}` }, one.name))) : el("p", { class: "soft" }, "None yet: start one under Run."));
}

function cell(one, key) {
  return el("td", {}, number(one[key]), one.oracle.includes(key) ? " " : null, one.oracle.includes(key) ? oracle() : null);
}

function beside() {
  const runs = ended().filter((one) => picked.has(one.name));
  if (runs.length < 2) return show($("beside"), el("p", { class: "soft" }, "Choose two or more."));
  const first = runs[0];
  const alike = runs.every((one) => one.metric === first.metric && one.data === first.data && one.rows === first.rows);
  const rows = [
    ["data", (one) => el("td", {}, file(one.data))],
    ["protocol", (one) => el("td", {}, one.protocol)],
    ["owners", (one) => el("td", {}, `${one.owners.toLocaleString("en")}, ${one.counted} `, one.oracle.includes("counted") ? oracle() : null)],
    ["metric", (one) => el("td", {}, `${one.metric_words}, ${one.rows.toLocaleString("en")} rows `, one.oracle.includes("rows") ? oracle() : null)],
    ["joint model", (one) => cell(one, "joint")],
    ["a constant", (one) => cell(one, "constant")],
    ["each owner alone, same budget", (one) => cell(one, "local_only")],
    ["all records, no privacy", (one) => cell(one, "central")],
    ["gain by joining", (one) => el("td", {}, `${one.gains} of ${one.owners} `, oracle())],
    ["protects", (one) => el("td", {}, `one ${one.unit}`)],
    ["budget", (one) => el("td", {}, one.budget)],
    ["certified", (one) => el("td", {}, `${one.certified}, δ = ${one.delta}`)],
    ...(runs.some((one) => one.all_others) ? [["if all others worked together", (one) => el("td", {}, one.all_others ?? "the same")]] : []),
    ["within the budget", (one) => el("td", {}, `${one.within} of ${one.owners}`)],
    ["messages", (one) => el("td", {}, one.messages.toLocaleString("en"))],
    ["report", (one) => el("td", {}, el("a", { href: `/report/${encodeURIComponent(one.name)}`, target: "_blank", rel: "noopener" }, "open", el("span", {}, ` ${one.name}`)))],
  ];
  const step = runs.every((one) => one.step === first.step) ? first.step : "step";
  show($("beside"),
    alike ? null : el("p", { class: "alarm" }, "These runs differ in data, metric or test rows: their numbers cannot be set against each other."),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs beside each other" }, el("table", {}, el("thead", {}, el("tr", {}, el("td"), runs.map((one) => el("th", { scope: "col" }, one.name)))), el("tbody", {}, rows.map(([words, of]) => el("tr", {}, el("th", { scope: "row" }, words), runs.map(of)))))),
    alike ? [el("h3", {}, `${first.metric_words} over ${step}s`), chart(runs.map((one) => ({ label: one.name, points: one.points, oracle: one.oracle.includes("joint") })), [], { step, of: 0, words: `${first.metric_words} of ${runs.length} runs` })] : null,
    runs.length > 1 ? el("p", { class: "soft" }, "One run each: a difference may be noise.") : null);
}

export function heard() {
  list(ended());
  const mark = JSON.stringify([...picked]);
  if ($("beside").dataset.mark !== mark || !$("beside").childElementCount) {
    $("beside").dataset.mark = mark;
    beside();
  }
}

export function choose(name) {
  if (name) picked.add(name);
  listed = "";
  heard();
}
