// Plan: sliders, the forecast of `coterie plan`, and whether joining pays by `coterie plan join`.
import { $, ask, count, el, number, options, oracle, pairs, show, svg } from "./parts.js";
import { NARROW, network } from "./drawing.js";
import { cap, colluding, follow } from "./whom.js";

const METRICS = { accuracy: "accuracy", auc: "AUC", r2: "R²" };
const EACH = 12;
let busy = false;
let again = false;
let drawn = "";
let caps = {};
let gaining = null;
let hub = null;

// A slider and a number that say the same; a slider over decades moves in logarithms.
function linked(range) {
  const box = $(range.dataset.number);
  const log = "log" in range.dataset;
  const [low, high] = [Number(range.min), Number(range.max)];
  const whole = box.step !== "any";
  const there = (value) => (log ? 1000 * Math.log(Math.max(value, low) / low) / Math.log(high / low) : value);
  const back = (value) => (log ? low * (high / low) ** (value / 1000) : Number(value));
  if (log) Object.assign(range, { min: 0, max: 1000, step: 1 });
  range.value = there(Number(box.value));
  const spoken = () => range.setAttribute("aria-valuetext", box.value);
  spoken();
  range.addEventListener("input", () => {
    const value = Number(back(range.value).toPrecision(2));
    box.value = whole ? Math.round(value) : value;
    spoken();
    changed();
  });
  box.addEventListener("input", () => {
    range.value = there(Number(box.value));
    spoken();
    changed();
  });
}

// As `coterie plan` takes it: persons by how many records they have, an owner as a whole.
function protection() {
  const kind = $("plan-unit").value;
  if (kind === "column") return { records_per_person: $("plan-person").value.trim(), records_per_unit: cap("plan") };
  return kind === "owner" ? { unit: kind, records_per_unit: cap("plan") } : {};
}

function each() {
  const many = Number($("owners-number").value);
  const possible = many >= 1 && many <= EACH;
  $("differ").disabled = !possible;
  if (!possible) $("differ").checked = false;
  $("each").hidden = !$("differ").checked;
  while ($("each").children.length > many) $("each").lastChild.remove();
  while ($("differ").checked && $("each").children.length < many) {
    const at = $("each").children.length;
    const field = (what, id, low, high, value, step) => {
      const box = el("input", { id: `${id}-${at}-number`, type: "number", min: low, step, value, "aria-label": `${what} of owner ${at + 1}, as a number` });
      const range = el("input", { id: `${id}-${at}`, type: "range", min: low, max: high, "data-number": box.id, "data-log": true });
      return el("div", {}, el("label", { for: range.id }, `${what} of owner ${at + 1}`), range, box);
    };
    $("each").append(el("div", { class: "each" }, field("records", "size", 20, 100000, $("records-number").value, "1"), field("ε", "budget", 0.05, 16, $("epsilon-number").value, "any")));
    $("each").lastChild.querySelectorAll("input[type=range]").forEach(linked);
  }
}

function question() {
  const many = Number($("owners-number").value);
  const differ = $("differ").checked;
  const of = (id) => Array.from({ length: many }, (_, at) => $(`${id}-${at}-number`).value);
  const asked = {
    dimension: Number($("dimension-number").value),
    classes: Number($("classes").value),
    delta: Number($("delta").value),
    topology: $("topology").value,
    rounds_at_most: Number($("rounds-number").value),
    protocol: $("protocol").value,
    epsilon: differ ? of("budget").join(",") : $("epsilon-number").value,
  };
  Object.assign(asked, differ ? { sizes: of("size").join(",") } : { owners: many, records: Number($("records-number").value) });
  return { ...asked, ...protection(), colluding: colluding("plan") };
}

function sizes() {
  const many = Number($("owners-number").value);
  const one = Number($("records-number").value);
  return $("differ").checked ? Array.from({ length: many }, (_, at) => Number($(`size-${at}-number`).value)) : Array(Math.min(many, 501)).fill(one);
}

// One question at a time: what moved meanwhile is asked when the answer has come.
async function changed() {
  each();
  follow("plan", caps);
  again = true;
  if (busy) return;
  busy = true;
  $("forecast").setAttribute("aria-busy", "true");
  while (again) {
    again = false;
    try {
      picture();
      forecast(await ask("/api/plan", question()));
    } catch (error) {
      show($("forecast"), el("p", { class: "alarm" }, error.message));
    }
  }
  busy = false;
  $("forecast").setAttribute("aria-busy", "false");
}

async function picture() {
  const asked = JSON.stringify({ topology: $("topology").value, sizes: sizes(), hub });
  if (asked === drawn) return;
  drawn = asked;
  try {
    const { drawing } = await ask("/api/topology", JSON.parse(asked));
    if (asked !== drawn) return; // something else was asked meanwhile
    show($("plan-picture"), network(drawing), drawing?.hub ? el("p", { class: "soft" }, `With the recommended protocol all owners meet at the ${drawing.hub}.`) : null);
    mark();
  } catch (error) {
    show($("plan-picture"), el("p", { class: "soft" }, error.message));
  }
}

// Owners who would not gain are drawn without colour.
function mark() {
  document.querySelectorAll("#plan-picture g").forEach((disc, at) => disc.classList.toggle("stays", gaining !== null && !gaining[at]));
}

function gains(who) {
  gaining = who?.gains ?? null;
  mark();
  if (!who) return show($("gains"), el("p", { class: "soft" }, "Told of several owners, and of records or persons; where an owner is one unit it is not."));
  const many = gaining.filter(Boolean).length;
  const size = (value) => Number(value.toPrecision(2)).toLocaleString("en");
  const told = who.below ? `it pays for those with fewer than about ${size(who.below)} records (${size(who.low)} to ${size(who.high)})` : "the joint model is no better than knowing nothing";
  show($("gains"),
    el("p", {}, el("b", {}, `${many.toLocaleString("en")} of ${count(gaining.length, "owner")}`), `, by their sizes alone: ${told}.`),
    el("p", { class: "soft" }, "Against a model of its own records without privacy. In the picture, owners who gain have colour."));
}

const points = (value) => Number((100 * value).toPrecision(2));

function interval(one) {
  const top = Math.max(5, Math.ceil(points(one.high) / 5) * 5);
  const wide = innerWidth < NARROW ? 340 : 600;
  const x = (value) => 12 + ((wide - 24) * Math.min(top, 100 * value)) / top;
  return svg("svg", { class: "interval", viewBox: `0 0 ${wide} 48`, role: "img", "aria-label": `${METRICS[one.name]}: ${points(one.lost)} points below, between ${points(one.low)} and ${points(one.high)}` },
    svg("line", { class: "track", x1: 12, x2: wide - 12, y1: 14, y2: 14 }),
    svg("line", { class: "band", x1: x(one.low), x2: x(one.high), y1: 14, y2: 14 }),
    svg("line", { class: "point", x1: x(one.lost), x2: x(one.lost), y1: 14, y2: 14 }),
    svg("text", { x: 4, y: 42 }, "0"),
    svg("text", { x: wide - 4, y: 42, "text-anchor": "end" }, `${top} points`));
}

function forecast({ plan, promise, certified, command }) {
  gains(plan.joining);
  hub = plan.hub;
  picture();
  const told = plan.predicted.metrics;
  const first = told[0];
  const best = plan.recommended;
  const unknown = plan.predicted.metrics_by === "made-up rows";
  const useless = plan.useful ? null : el("p", { class: "alarm" }, "Hardly better than knowing nothing: this budget buys no model of use here.");
  show($("forecast"),
    useless,
    el("p", { class: "headline" }, "About ", el("b", {}, `${points(first.lost)} points of 100`), ` of ${METRICS[first.name]} below the best linear model; between ${points(first.low)} and ${points(first.high)}.`),
    told.map((one) => el("div", {}, el("p", { class: "soft" }, `${METRICS[one.name]}: ${points(one.lost)} points lost (${points(one.low)} to ${points(one.high)})`), interval(one))),
    el("p", { class: "promise" }, el("b", {}, "The promise: "), promise, plan.all_others_epsilon === null ? "" : ` If all others work together against one, ε is up to ${number(plan.all_others_epsilon)} instead of ${certified}.`),
    pairs([
      ["protects", `one ${plan.unit}`],
      ["protocol", best.protocol],
      ["certified", `ε ≤ ${certified} for everyone`],
      ["rounds", best.rounds.toLocaleString("en")],
      ["messages", best.messages.toLocaleString("en")],
      ["noise on an owner's sum", spread(best.noise_scale)],
      ["metrics to publish", `±${points(plan.evaluation.half_width)} points for ${points(plan.evaluation.share)} % of every budget`],
    ]),
    el("details", { "data-key": "others" }, el("summary", {}, "Other protocols, and what this rests on"),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Other protocols" }, el("table", {}, el("thead", {}, el("tr", {}, ["protocol", "excess risk", "between"].map((one) => el("th", { scope: "col" }, one)))),
        el("tbody", {}, [{ protocol: best.protocol, excess_risk: plan.predicted.excess_risk, interval: plan.predicted.interval }, ...plan.others].map((one) => el("tr", {}, el("th", { scope: "row" }, one.protocol), el("td", {}, number(one.excess_risk)), el("td", {}, `${number(one.interval[0])} to ${number(one.interval[1])}`))),
          Object.entries(plan.refused).map(([name, why]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { colspan: 2 }, why)))))),
      el("p", { class: "soft" }, `A model that knows nothing has an excess risk of ${number(plan.predicted.knowing_nothing)}. ${unknown ? "Points are of made-up rows: how good the best model is nobody knows without public rows." : ""}`),
      plan.caps ? el("p", { class: "soft" }, `Of ${plan.units.toLocaleString("en")} units. What other caps would cost, in points of ${METRICS[first.name]}: ${plan.caps.map(atCap).join("; ")}.`) : null,
      el("p", {}, el("code", {}, command))));
}

// The best clip under one cap, in the first metric's points.
function atCap(one) {
  const lost = points(Math.min(...one.clips.map((clip) => clip.metrics[0].lost)));
  return one.records_per_unit === null ? `${lost} if one record alone were protected` : `${lost} with ${one.records_per_unit.toLocaleString("en")}`;
}

function spread(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high - low < 1e-3 * high ? number(low) : `${number(low)} to ${number(high)}`;
}

async function joined(event) {
  event.preventDefault();
  const place = $("join-answer");
  const button = event.target.querySelector("button");
  const value = (id) => $(id).value.trim();
  const asked = { owner: value("join-owner"), data: value("join-data"), partners: Number(value("join-partners")), partner_records: Number(value("join-records")), target: value("join-target"), owner_column: value("join-owner-column"), columns: value("join-columns"), epsilon: Number($("epsilon-number").value), delta: Number($("delta").value), topology: $("topology").value, rounds_at_most: Number($("rounds-number").value) };
  button.disabled = true;
  show(place, el("p", { class: "soft" }, "Computing; this takes up to half a minute."));
  try {
    const { join, command } = await ask("/api/join", asked);
    const gains = join.predicted_gain > 0;
    const within = join.joint.interval[0] <= join.alone.excess_risk && join.alone.excess_risk <= join.joint.interval[1];
    const even = join.break_even_epsilon === null ? "no ε up to 30 makes it pay" : `it pays from about ε = ${number(join.break_even_epsilon)}`;
    const others = join.break_even_partners === null ? "no number of partners up to 128 does" : `from about ${join.break_even_partners} partners on`;
    show(place,
      el("p", { class: "headline" }, el("b", {}, `${join.owner} ${gains ? "gains" : "loses"} by joining`), within ? ", within the forecast's uncertainty " : " ", oracle()),
      el("ul", {}, join.in_metric.map((one) => el("li", {}, `${METRICS[one.name]}: ${signed(one.gain)} points (${signed(one.low)} to ${signed(one.high)}), against its own model without privacy`))),
      el("p", {}, `At ε = ${asked.epsilon}, with ${asked.partners} partners of ${asked.partner_records.toLocaleString("en")} records: ${even}; ${others}.`),
      el("p", { class: "soft" }, "A decision made on it is visible to the others, tells a little about these records, and is in no budget. Partners' records are taken to be like the owner's."),
      el("p", {}, el("code", {}, command)));
  } catch (error) {
    show(place, el("p", { class: "alarm", role: "alert" }, error.message));
  }
  button.disabled = false;
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(points(value))}`;

export function begin(choices) {
  caps = choices.caps;
  options($("protocol"), choices.forecast);
  options($("topology"), choices.topologies, "ring");
  $("plan-form").querySelectorAll("input[type=range]").forEach(linked);
  for (const id of ["delta", "classes", "protocol", "topology", "plan-unit", "plan-person", "plan-cap", "plan-honest", "differ"]) $(id).addEventListener("change", changed);
  $("plan-form").addEventListener("submit", (event) => event.preventDefault());
  $("join-form").addEventListener("submit", joined);
  changed();
}
