// Which page is shown, by the part of the address after #; and the one stream that tells about runs.
import { $, ask, el, listen, show } from "./parts.js";
import * as compare from "./compare.js";
import * as network from "./network.js";
import * as plan from "./plan.js";
import * as run from "./run.js";

const PAGES = { plan: "Plan", run: "Run", compare: "Compare", network: "Network" };

function route(moved) {
  const [, page, name] = (location.hash || "#/plan").split("/");
  const at = page in PAGES ? page : "plan";
  for (const one of Object.keys(PAGES)) $(one).hidden = one !== at;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${at}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${PAGES[at]}, coterie`;
  const given = name ? decodeURIComponent(name) : "";
  if (at === "run") run.choose(given);
  if (at === "compare") compare.choose(given);
  if (moved) $(at === "run" && given ? "watch-title" : "main").focus();
}

addEventListener("hashchange", () => route(true));
route(false);
network.begin();
listen("/api/events", (found) => {
  run.heard(found);
  compare.heard();
});
try {
  const choices = await ask("/api/choices");
  plan.begin(choices);
  run.begin(choices);
} catch (error) {
  show($("forecast"), el("p", { class: "alarm" }, error.message));
}
