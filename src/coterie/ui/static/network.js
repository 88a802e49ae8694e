// Network: one party of this machine, or a trial with all of them, as their status files say. Read-only.
import { $, ask, el, listen, show } from "./parts.js";
import { gauges } from "./drawing.js";

let source = null;

function party(one) {
  if (one.step === undefined) return el("section", { class: "card" }, el("h2", {}, one.name), el("p", {}, one.state));
  const id = `party-${one.name}`;
  return el("section", { class: "card", "aria-labelledby": id }, el("h2", { id }, one.name),
    el("p", { role: "status" }, `${one.state}: step ${one.step.toLocaleString("en")} of ${one.of.toLocaleString("en")}`),
    el("progress", { max: one.of || 1, value: one.step, "aria-label": `Steps of ${one.name}` }),
    one.waiting_for.length ? el("p", {}, el("b", {}, `waits for ${one.waiting_for.join(", ")}`)) : el("p", { class: "soft" }, "waits for nobody"),
    one.gauge ? [el("h3", {}, "Spent on these records, over all runs"), gauges([one.gauge])] : null,
    one.certificate_days === null ? null : el("p", { class: one.certificate_days < 30 ? "alarm" : "" }, `own certificate: ${Math.floor(one.certificate_days).toLocaleString("en")} days left`),
    el("ul", {}, [...one.words.slice(1), ...one.below.filter((line) => !line.startsWith("own certificate"))].map((line) => el("li", {}, line))),
    one.peers.length ? el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Peers of ${one.name}` }, el("table", {}, el("thead", {}, el("tr", {}, ["peer", "there", "last heard", "clock", "certificate"].map((word) => el("th", { scope: "col" }, word)))), el("tbody", {}, one.peers.map(([name, ...cells]) => el("tr", {}, el("th", { scope: "row" }, name), cells.map((cell) => el("td", {}, cell))))))) : null);
}

function heard(found) {
  $("node-error").textContent = found.error ?? "";
  if (found.parties) show($("parties"), found.parties.map(party));
}

async function attach(event) {
  event.preventDefault();
  source?.close();
  show($("parties"));
  const path = `/api/node?folder=${encodeURIComponent($("node-folder").value.trim())}`;
  try {
    await ask(`${path}&once=1`);
    source = listen(path, heard);
  } catch (error) {
    $("node-error").textContent = error.message;
  }
}

export function begin() {
  $("node-form").addEventListener("submit", attach);
}
