// Tables whose rows stay the same elements while their figures change, so that focus, selection
// and what a screen reader is at are kept.

import { fill, h } from "./dom.js";

/**
 * A table. `columns`: `title`, `cell(row)` (text or a node), and maybe `kind` (a class: `number`,
 * `wide` for what narrow screens leave out), `sort(row)`; or `once(latest)`, a node that is made once
 * for a row and asks `latest()` for its figures. `key(row)` says which row it is.
 */
export class Table {
  #rows = new Map();
  #sorted = null;
  #shown = [];

  constructor({ label, columns, key, empty, sort }) {
    this.columns = columns;
    this.key = key;
    this.empty = empty;
    this.#sorted = sort ?? null;
    this.body = h("tbody", {});
    this.heads = columns.map((column, index) => this.#head(column, index));
    this.table = h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, this.heads)), this.body);
    this.note = h("div", { class: "empty" });
    this.element = h("div", { class: "scroll", keydown: (event) => this.#keys(event) }, this.table, this.note);
    this.note.hidden = true;
  }

  #head(column, index) {
    const attributes = { scope: "col", class: column.kind };
    if (!column.sort) return h("th", attributes, column.title || h("span", { class: "hidden" }, "Actions"));
    const click = () => {
      const [at, down] = this.#sorted ?? [];
      this.#sorted = [index, at === index ? !down : column.kind?.includes("number") ?? false];
      this.update(this.#shown);
    };
    return h("th", attributes, h("button", { type: "button", class: "sort", click }, column.title));
  }

  /** Show these rows, those that were there already in place. */
  update(rows) {
    this.#shown = rows;
    const kept = new Map();
    const wanted = this.#inOrder(rows).map((row) => {
      const key = this.key(row);
      const found = this.#rows.get(key) ?? this.#line(row);
      found.row = row;
      kept.set(key, found);
      this.columns.forEach((column, index) => column.cell && show(found.line.children[index], column.cell(row)));
      return found.line;
    });
    for (const [key, { line }] of this.#rows) if (!kept.has(key)) line.remove();
    this.#rows = kept;
    wanted.forEach((line, index) => {
      if (this.body.children[index] !== line) this.body.insertBefore(line, this.body.children[index] ?? null);
    });
    this.table.hidden = rows.length === 0;
    this.note.hidden = rows.length > 0;
    if (rows.length === 0 && this.empty) fill(this.note, this.empty());
    this.#arrows();
  }

  #line(row) {
    const made = { row };
    const latest = () => made.row;
    made.line = h("tr", {}, this.columns.map((column) => h("td", { class: column.kind }, column.once?.(latest))));
    return made;
  }

  #inOrder(rows) {
    if (!this.#sorted) return rows;
    const [index, down] = this.#sorted;
    const value = this.columns[index].sort;
    const compared = [...rows].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
    return down ? compared.reverse() : compared;
  }

  #arrows() {
    this.heads.forEach((head, index) => {
      const [at, down] = this.#sorted ?? [];
      if (at === index) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  #keys(event) {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const openers = [...this.body.querySelectorAll(".open")];
    const at = openers.indexOf(event.target);
    const next = openers[at < 0 ? 0 : at + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
}

function show(cell, value) {
  if (value instanceof Node) {
    if (cell.childNodes.length !== 1 || !value.isEqualNode(cell.firstChild)) fill(cell, value);
    return;
  }
  const text = value === null || value === undefined ? "" : String(value);
  if (cell.textContent !== text || cell.firstElementChild) cell.textContent = text;
}
