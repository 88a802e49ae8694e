// Run: start, watch, stop, go on; runs are told by the server from their folders.
import { $, ask, count, el, file, number, options, oracle, pairs, show } from "./parts.js";
import { chart, flow, gauges, network } from "./drawing.js";
import { cap, colluding, follow } from "./whom.js";

const STATES = { running: "running", stopped: "stopped", failed: "failed", ended: "finished", unreadable: "cannot be read" };
let runs = [];
let chosen = "";
let wait = "";
let shown = "";
let picture = null;
let pictured = "";

function line(one) {
  const value = one.state === "ended" ? ` ${one.metric_words} ${number(one.joint)}, ${one.certified}` : one.state === "running" ? ` ${one.what}${one.of ? ` ${Math.round((100 * one.done) / one.of)} %` : ""}` : "";
  const mark = one.state === "ended" && one.oracle.includes("joint");
  return el("li", { "data-key": one.name }, el("a", { "data-key": one.name, href: `#/run/${encodeURIComponent(one.name)}`, "aria-current": one.name === chosen ? "true" : null }, el("b", {}, one.name), ` ${STATES[one.state]}`, el("br"), el("span", { class: "soft" }, value.trim() || one.protocol || "", mark ? " " : "", mark ? oracle() : null)));
}

export function heard(found) {
  runs = found.runs;
  show($("runs-list"), runs.length ? runs.map(line) : el("li", {}, el("p", { class: "soft" }, "None yet.")));
  watch();
}

export const ended = () => runs.filter((one) => one.state === "ended");

export function choose(name) {
  if (name !== chosen) shown = pictured = "";
  chosen = name;
  heard({ runs });
}

function head(words) {
  if ($("watch-title").textContent !== words) $("watch-title").textContent = words;
}

async function watch() {
  const one = runs.find((run) => run.name === chosen);
  if (!one) {
    if (chosen && wait !== chosen) show($("watch"), el("p", { class: "soft" }, `There is no run ${chosen} here.`));
    return;
  }
  wait = "";
  const mark = JSON.stringify(one);
  if (mark === shown) return;
  shown = mark;
  head(one.name);
  if (one.state === "unreadable") return show($("watch"), el("p", { class: "alarm" }, one.error));
  if (one.state !== "ended") return progress(one);
  try {
    result(await ask(`/api/runs/${encodeURIComponent(one.name)}`));
  } catch (error) {
    show($("watch"), el("p", { class: "alarm" }, error.message));
  }
}

// The picture stays where it is while numbers around it change, so that messages can flow.
function drawn(one) {
  const mark = JSON.stringify([one.name, one.network]);
  if (one.network && mark !== pictured) {
    pictured = mark;
    picture = el("section", { "aria-label": "Network" }, el("h3", {}, "Who talks to whom"), network(one.network));
  }
  return one.network ? picture : null;
}

function act(what, words, kind) {
  return el("button", { type: "button", class: kind, onclick: async (event) => {
    event.target.disabled = true;
    try {
      await ask(`/api/runs/${encodeURIComponent(chosen)}/${what}`, {});
    } catch (error) {
      $("watch").append(el("p", { class: "alarm", role: "alert" }, error.message));
    }
  } }, words);
}

function progress(one) {
  const running = one.state === "running";
  const had = document.activeElement?.closest?.("#watch button")?.textContent;
  const words = running ? `${one.what}${one.of ? `, ${one.done.toLocaleString("en")} of ${one.of.toLocaleString("en")}` : ""}` : one.state === "failed" ? "This run failed." : one.kept ? "Stopped. It can go on where it was." : "Stopped before its first checkpoint.";
  const about = one.about;
  show($("watch"),
    el("p", { role: "status" }, words),
    running ? el("progress", { max: one.of || 1, value: one.of ? one.done : null, "aria-label": "Progress of the run" }) : null,
    one.error ? el("p", { class: "alarm", role: "alert" }, one.error) : null,
    el("p", { class: "buttons" }, running ? act("stop", "Stop", "second") : act("resume", one.kept ? "Go on" : "Start again"), running ? null : act("discard", "Discard", "second")),
    about ? pairs([["data", file(one.data)], ["protocol", one.protocol], ["owners", `${count(about.owner_names.length, "owner")}, ${one.counted} `, about.sizes_are_private ? oracle() : null], ["protects", `one ${about.unit}`]]) : null,
    about && one.points.length ? [el("h3", {}, `${about.metric_words} on ${about.rows.toLocaleString("en")} ${about.tested_on} so far`), chart([{ label: "joint model", points: one.points, oracle: about.oracle }], [], { step: about.step, of: one.what === "training" ? one.of : 0, words: `${about.metric_words} over ${about.step}s` }), el("p", { class: "soft" }, "What each owner reaches alone, all records without privacy, and a constant are compared at the end.")] : null,
    one.gauges?.length ? [el("h3", {}, "Spent so far, of each budget"), gauges(one.gauges)] : null,
    drawn(one));
  if (had) [...$("watch").querySelectorAll("button")].find((button) => button.textContent === had)?.focus();
  if (running && one.what === "training") flow(picture?.lastChild);
}

function value(one, key) {
  return [el("b", {}, number(one[key])), one.oracle.includes(key) ? " " : null, one.oracle.includes(key) ? oracle() : null];
}

function result(one) {
  if (one.name !== chosen) return;
  const is = (key) => one.oracle.includes(key);
  show($("watch"),
    el("p", { class: "headline", role: "status" }, `${count(one.owners, "owner")} reach ${one.metric_words} `, value(one, "joint"), "; a constant has ", value(one, "constant"), ". ", el("span", { class: one.within === one.owners ? "good" : "alarm" }, `${one.within} of ${one.owners} within the budget`), "."),
    el("p", { class: "promise" }, el("b", {}, "The promise: "), one.promise),
    el("p", { class: "buttons" }, el("a", { class: "button", href: `/report/${encodeURIComponent(one.name)}`, target: "_blank", rel: "noopener" }, "Open the report"), el("a", { class: "button second", href: `#/compare/${encodeURIComponent(one.name)}` }, "Compare")),
    chart([{ label: "joint model", points: one.points, oracle: is("joint") }], [
      { label: "each owner alone, same budget", value: one.local_only, kind: "floor", oracle: is("local_only") },
      { label: "all records, no privacy", value: one.central, kind: "ceiling", oracle: is("central") },
      { label: `a constant (${one.constant_says})`, value: one.constant, kind: "constant", oracle: is("constant") },
    ], { step: one.step, of: one.rounds, words: `${one.metric_words} over ${one.step}s: joint model ${number(one.joint)}` }),
    pairs([["data", file(one.data)], ["protocol", one.protocol], ["owners", `${count(one.owners, "owner")}, ${one.counted} `, is("counted") ? oracle() : null], ["protects", `one ${one.unit}`], ["certified", one.certified, `, δ = ${one.delta}`], one.all_others ? ["if all others worked together", one.all_others] : null, ["budget", one.budget], one.owners > 1 ? ["gain by joining", `${one.gains} of ${one.owners} `, oracle()] : null, [`${one.step}s`, one.rounds.toLocaleString("en")], ["messages", one.messages.toLocaleString("en")], ["took", `${one.seconds} s`]]),
    el("h3", {}, "Each owner's budget"), gauges(one.gauges),
    drawn(one));
}

// As `coterie run --unit` takes it.
function protection() {
  const kind = $("run-unit").value;
  if (!kind) return {};
  return { unit: kind === "column" ? `column:${$("run-person").value.trim()}` : kind, records_per_unit: cap("run") };
}

async function start(event) {
  event.preventDefault();
  const button = event.target.querySelector("button");
  const value = (id) => $(id).value.trim();
  const asked = { data: value("run-data"), target: value("run-target"), owner_column: value("run-owner-column"), columns: value("run-columns"), protocol: value("run-protocol"), topology: value("run-topology"), epsilon: value("run-epsilon"), delta: Number(value("run-delta")), owners: value("run-owners") ? Number(value("run-owners")) : null, seed: Number(value("run-seed")), evaluate: value("run-evaluate") ? Number(value("run-evaluate")) : null, ...protection(), view: $("run-honest").value, colluding: colluding("run") };
  button.disabled = true;
  $("run-error").textContent = "";
  try {
    const { name } = await ask("/api/runs", asked);
    wait = name;
    location.hash = `#/run/${encodeURIComponent(name)}`;
    head(name);
    show($("watch"), el("p", { role: "status" }, "Starting."));
  } catch (error) {
    $("run-error").textContent = error.message;
  }
  button.disabled = false;
}

export function begin(choices) {
  options($("run-protocol"), choices.protocols, "dual_averaging");
  options($("run-topology"), choices.topologies, "ring");
  for (const one of choices.datasets) $("datasets").append(el("option", { value: one.name }, one.description));
  $("runs-folder").textContent = choices.runs;
  const show = () => follow("run", choices.caps);
  for (const id of ["run-unit", "run-honest"]) $(id).addEventListener("change", show);
  show();
  $("run-form").addEventListener("submit", start);
}
