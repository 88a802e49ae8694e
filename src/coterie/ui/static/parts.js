// Small pieces that every page uses. Text is set as text: nothing that comes from a file becomes markup.
const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

export function lost(words) {
  const place = $("lost");
  place.hidden = !words;
  if (place.textContent !== words) place.textContent = words;
}

const GONE = "The server does not answer. Start `coterie ui` again and open the address that it prints; runs go on.";
const STRANGER = "The server was started anew. Open the address that it printed.";

// What the server answers; an Error with its one line where it refuses.
export async function ask(path, question) {
  const how = question === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) };
  let answer;
  try {
    answer = await fetch(path, how);
  } catch {
    lost(GONE);
    throw new Error(GONE);
  }
  if (answer.status === 401) {
    lost(STRANGER);
    throw new Error(STRANGER);
  }
  lost("");
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

// Server-sent events, opened again by the browser when they break; a refusal is told apart by asking once.
export function listen(path, heard) {
  const source = new EventSource(path);
  source.onmessage = (message) => {
    lost("");
    heard(JSON.parse(message.data));
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) ask("/api/runs").catch(() => {});
    else lost(GONE);
  };
  return source;
}

export const oracle = () => el("span", { class: "oracle", title: "computed from private records; no owner releases it" }, "oracle");

export function number(value) {
  if (value === null || value === undefined) return "not finite";
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
}

export const count = (many, what) => `${many.toLocaleString("en")} ${what}${many === 1 ? "" : what.endsWith("s") ? "es" : "s"}`;

// A data set's name, or the last part of a file's path, with all of it for whoever points at it.
export const file = (path) => el("span", { title: path }, path.split("/").at(-1));

export function pairs(rows) {
  return el("dl", {}, rows.filter(Boolean).map(([key, ...value]) => el("div", {}, el("dt", {}, key), el("dd", {}, ...value))));
}

// Only what has changed is put in place, so that focus and what is being read are not lost, and a press that began on a
// button ends on the same one. What has a key keeps its element, whatever is in it; it must not listen for anything.
export function show(place, ...parts) {
  const wanted = parts.flat().filter(Boolean);
  wanted.forEach((want, at) => {
    const have = place.childNodes[at];
    if (!have) place.append(want);
    else if (!settled(have, want)) have.replaceWith(want);
  });
  while (place.childNodes.length > wanted.length) place.lastChild.remove();
}

function settled(have, want) {
  if (have === want || have.isEqualNode(want)) return true;
  if (!want.dataset?.key || have.dataset?.key !== want.dataset.key) return false;
  for (const name of have.getAttributeNames()) if (!want.hasAttribute(name) && name !== "open") have.removeAttribute(name);
  for (const name of want.getAttributeNames()) have.setAttribute(name, want.getAttribute(name));
  show(have, ...want.childNodes);
  return true;
}

export function options(select, names, chosen) {
  for (const name of names) select.append(el("option", { value: name, selected: name === chosen }, name));
}
