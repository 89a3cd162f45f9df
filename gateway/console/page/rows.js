// A list of messages, the newest first, that never grows beyond some hundred rows.

import { h } from "./dom.js";
import { bytes, clock, oneLine } from "./format.js";

export const MOST = 500;

export class Rows {
  #rows = [];

  /** `open` is called with the row that somebody wants to look into. */
  constructor(label, open) {
    this.open = open;
    this.body = h("tbody", {});
    const head = (text, kind) => h("th", { scope: "col", class: kind }, text);
    this.table = h("table", { "aria-label": label, class: "messages" },
      h("thead", {}, h("tr", {}, head("Sequence", "number"), head("Stored"), head("Subject"), head("Payload"), head("Size", "number wide"))), this.body);
    this.element = h("div", { class: "scroll", keydown: (event) => this.#keys(event) }, this.table);
  }

  get length() {
    return this.#rows.length;
  }

  get newest() {
    return this.#rows[0];
  }

  get oldest() {
    return this.#rows.at(-1);
  }

  clear() {
    this.#rows = [];
    this.body.replaceChildren();
  }

  /** Show these, the newest first, and no others. */
  replace(rows) {
    this.#rows = rows.slice(0, MOST);
    this.body.replaceChildren(...this.#rows.map((row) => this.#line(row)));
  }

  /** Put newer ones, oldest first, above those that are shown. */
  above(rows) {
    const fresh = rows.slice(-MOST).reverse();
    this.#rows = [...fresh, ...this.#rows].slice(0, MOST);
    this.body.prepend(...fresh.map((row) => this.#line(row)));
    while (this.body.children.length > MOST) this.body.lastChild.remove();
  }

  /** Put a remark above those that are shown. */
  remark(text) {
    this.body.prepend(h("tr", { class: "remark" }, h("td", { colspan: "5" }, text)));
    while (this.body.children.length > MOST) this.body.lastChild.remove();
  }

  #line(row) {
    const opener = h("button", { type: "button", class: "open", "aria-label": `Open message ${row.seq}` }, row.seq);
    const badge = row.headers > 0 && h("span", { class: "tag", title: "message headers" }, `${row.headers} hdr`);
    return h("tr", { click: () => this.open(row) },
      h("td", { class: "number" }, opener),
      h("td", { class: "time" }, clock(row.time)),
      h("td", { class: "subject" }, oneLine(row.subject)),
      h("td", { class: `payload${row.isBinary ? " binary" : ""}` }, badge, oneLine(row.text)),
      h("td", { class: "number wide" }, bytes(row.size)));
  }

  #keys(event) {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = [...this.body.querySelectorAll(".open")];
    const at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? 0 : at + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
}
