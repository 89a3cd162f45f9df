// What the keys do.

import { dialog, h } from "./dom.js";

const KEYS = [
  ["/", "go to the filter of the view"],
  ["p", "publish a message"],
  ["j or ↓, k or ↑", "the next and the previous row of a list"],
  ["Enter", "open the row"],
  ["[ and ]", "newer and older messages"],
  ["Ctrl + Enter", "send a form"],
  ["Esc", "close what is open"],
  ["?", "this list"],
];

export function help() {
  return dialog("Keys", () => h("dl", { class: "facts" }, KEYS.map(([keys, text]) => [h("dt", {}, keys), h("dd", {}, text)])), { class: "small" });
}
