// The page: which view is shown, keys, and whether the server is there.

import { fill, h, say } from "./dom.js";
import { help } from "./help.js";
import { Life, link, onUnauthorized } from "./http.js";
import { bucket } from "./bucket.js";
import { buckets } from "./buckets.js";
import { objects, stores } from "./objects.js";
import { publish } from "./publish.js";
import { server } from "./server.js";
import { showWho, signIn } from "./signin.js";
import { stream } from "./stream.js";
import { streams } from "./streams.js";
import { trouble } from "./trouble.js";

const main = document.querySelector("main");
const lost = document.querySelector(".lost");
const me = document.querySelector(".me");
let life = new Life();

/** Views by the first word of the hash: `one` when a name follows. */
const VIEWS = {
  streams: { all: streams, one: stream },
  kv: { all: buckets, one: bucket },
  objects: { all: stores, one: objects },
  server: { all: server, one: server },
};

/** Where a hash leads: `#/streams/ORDERS/messages?subject=a`. */
function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  let names;
  try {
    names = path.split("/").map(decodeURIComponent);
  } catch {
    names = [];
  }
  return { names, query: new URLSearchParams(query) };
}

async function show() {
  const at = place();
  const { all, one } = VIEWS[at.names[0]] ?? VIEWS.streams;
  life.stop();
  life = new Life();
  const mine = life;
  for (const each of document.querySelectorAll("nav[aria-label=Main] a")) {
    const here = each.hash === `#/${VIEWS[at.names[0]] ? at.names[0] : "streams"}`;
    here ? each.setAttribute("aria-current", "page") : each.removeAttribute("aria-current");
  }
  const box = h("div", { class: "view" });
  try {
    const title = await (at.names[1] ? one : all)(box, { ...at, life: mine });
    if (mine.signal.aborted) return;
    document.title = `${title} · jetgate`;
  } catch (error) {
    if (mine.signal.aborted) return;
    fill(box, h("h1", {}, at.names[1] ?? "jetgate"), trouble(error), h("p", {}, h("a", { href: `#/${at.names[0] || "streams"}` }, "Back to the list")));
    const again = () => mine === life && show();
    mine.on(link, "back", again);
  }
  fill(main, box);
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
  const filter = main.querySelector("[data-filter]");
  if (event.key === "/" && filter) filter.focus();
  else if (event.key === "?") help();
  else if (event.key === "p") publishHere();
  else if (event.key === "[" || event.key === "]") main.querySelector(`[data-key="${event.key}"]:not(:disabled)`)?.click();
  else return;
  event.preventDefault();
}

/** Publish, to the subject that the view is about. */
function publishHere() {
  publish({ subject: main.querySelector("[data-subject]")?.dataset.subject });
}

function tellLost() {
  lost.hidden = !link.lost;
  lost.textContent = link.lost ? "No connection to the server. It is looked for; the view goes on by itself." : "";
}

onUnauthorized(signIn);
addEventListener("hashchange", () => {
  main.focus({ preventScroll: true }); // first: who is quick has the focus elsewhere when all is shown
  show();
});
addEventListener("keydown", keys);
addEventListener("signed-in", () => showWho(me).catch(() => undefined));
link.addEventListener("lost", tellLost);
link.addEventListener("back", async () => {
  tellLost();
  showWho(me).catch(() => undefined);
  const fresh = await fetch("/", { cache: "no-store" }).then((answer) => answer.text(), () => "");
  const version = document.querySelector("meta[name=version]").content;
  if (fresh && !fresh.includes(`content="${version}"`)) say("The server has another version now: reload the page.");
});
document.querySelector(".brand").after(h("button", { type: "button", class: "primary top-publish", click: publishHere }, "Publish"));
await showWho(me).catch(() => undefined);
await show();
