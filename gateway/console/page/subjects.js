// The subjects of a stream, and how many messages each has.

import { add, h } from "./dom.js";
import { field, form, input } from "./forms.js";
import { count, oneLine } from "./format.js";
import { ask, path } from "./http.js";
import { Table } from "./table.js";

const SHOWN = 2000;

export async function subjects(box, { name, query, life }) {
  const filter = input({ type: "search", class: "mono", value: query.get("filter") ?? "", placeholder: ">", "data-filter": true });
  const note = h("p", { class: "dim", role: "status" });
  const table = new Table({
    label: "Subjects",
    key: (each) => each.subject,
    empty: () => h("p", {}, "No message has such a subject."),
    columns: [
      { title: "Subject", kind: "subject", sort: (each) => each.subject, cell: (each) => h("a", { class: "open mono", href: `#/streams/${encodeURIComponent(name)}/messages?subject=${encodeURIComponent(each.subject)}` }, oneLine(each.subject)) },
      { title: "Messages", kind: "number", sort: (each) => each.messages, cell: (each) => count(each.messages) },
    ],
  });
  const load = async () => {
    const wanted = { filter: filter.value.trim() };
    const page = await ask(`${path("streams", name)}/subjects`, { query: wanted, signal: life.signal });
    table.update(page.subjects.slice(0, SHOWN));
    const shown = Math.min(SHOWN, page.subjects.length);
    note.textContent = shown < page.total ? `${count(shown)} of ${count(page.total)} subjects; a filter shows others.` : `${count(page.total)} subjects`;
  };
  add(box, [h("div", { class: "filters" }, form([field("Filter, with wildcards", filter)], "Show", load)), note, table.element]);
  await load();
}
