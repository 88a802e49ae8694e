// Whom a certificate protects, and who must be honest for it: what the forms of Plan and Run have in common.
import { $ } from "./parts.js";

const NOTES = {
  "": "Every owner's own noise keeps its promise, whatever all others do.",
  masked: "Sums are added under masks: only the sum of all can be read. The promise holds if no more than so many of the others pool what they know.",
};

// The most records of one that are kept; null: as many as usual.
export const cap = (form) => Number($(`${form}-cap`).value) || null;

// How many others may collude; null: nobody need be honest.
export const colluding = (form) => ($(`${form}-honest`).value ? Number($(`${form}-colluding-number`).value) : null);

// What the choices need is shown, and what they mean is said; `caps` are the usual ones.
export function follow(form, caps) {
  const kind = $(`${form}-unit`).value;
  $(`${form}-person-row`).hidden = kind !== "column";
  $(`${form}-cap-row`).hidden = !(kind in caps);
  $(`${form}-cap`).placeholder = caps[kind] ?? "";
  $(`${form}-colluding-row`).hidden = !$(`${form}-honest`).value;
  $(`${form}-honest-note`).textContent = NOTES[$(`${form}-honest`).value];
}
