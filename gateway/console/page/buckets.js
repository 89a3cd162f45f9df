// Key-value buckets.

import { add, button, dialog, h, lines, say } from "./dom.js";
import { check, field, form, input, number } from "./forms.js";
import { bytes, count, nanos } from "./format.js";
import { ask, path, send } from "./http.js";
import { time } from "./stream_form.js";
import { Table } from "./table.js";
import { troublePlace } from "./trouble.js";

const EVERY = 3000;

/** The buckets of all pages; a page tells of so many streams, not buckets. */
export async function bucketPages(url, signal) {
  const found = [];
  for (let offset = 0; ; ) {
    const page = await ask(url, { query: { offset: offset || "" }, signal });
    found.push(...page.buckets);
    offset = page.offset + page.limit;
    if (!page.limit || offset >= page.total) return found;
  }
}

export async function buckets(box, { life }) {
  const [place, failed] = troublePlace("The buckets cannot be listed");
  const name = (each) => each.bucket;
  const table = new Table({
    label: "Key-value buckets",
    key: name,
    sort: [0, false],
    empty: teach,
    columns: [
      { title: "Bucket", sort: name, cell: (each) => h("a", { class: "open", href: `#/kv/${encodeURIComponent(name(each))}` }, name(each)) },
      { title: "Description", kind: "wide", cell: (each) => each.config.description },
      { title: "Keys", kind: "number", sort: (each) => each.keys, cell: (each) => count(each.keys) },
      { title: "Values", kind: "number wide", sort: (each) => each.values, cell: (each) => count(each.values) },
      { title: "Bytes", kind: "number", sort: (each) => each.bytes, cell: (each) => bytes(each.bytes) },
      { title: "History", kind: "number", cell: (each) => each.config.history },
      { title: "Kept for", kind: "wide", cell: (each) => (each.config.ttl ? nanos(each.config.ttl) : "ever") },
    ],
  });
  add(box, [
    h("div", { class: "title" }, h("h1", {}, "Key-value"), h("div", { class: "actions" }, button("New bucket…", create))),
    place, table.element,
  ]);
  life.every(EVERY, async (signal) => table.update(await bucketPages("/v1/kv", signal)), failed);
  return "Key-value";
}

function create() {
  const name = input({ required: true, class: "mono", placeholder: "settings" });
  const description = input({});
  const history = input({ inputmode: "numeric", value: "1" });
  const ttl = input({ placeholder: "ever" });
  const [marks, markers] = check("Keys may have a life of their own");
  return dialog("New bucket", (close) => form([
    field("Name", name, "letters, digits, - and _"), field("Description", description),
    h("div", { class: "pair" }, field("Revisions kept of each key", history, "1 to 64"), field("Everything is kept for", ttl, "such as 90s, 2h or 7d")), marks,
  ], "Create", async () => {
    const json = { description: description.value, history: number(history, "Revisions", 1) ?? 1, ttl: time(ttl, "Kept for") };
    if (markers.checked) json.limit_marker_ttl = "1h";
    await send(path("kv", name.value.trim()), { method: "PUT", json, headers: { "If-None-Match": "*" } });
    say(`The bucket ${name.value} was created.`);
    close(true);
    location.hash = `#/kv/${encodeURIComponent(name.value.trim())}`;
  }, { cancel: () => close(), title: "Not created" }), { class: "small" });
}

function teach() {
  const at = `${location.origin}/v1/kv/settings`;
  return [
    h("p", {}, h("b", {}, "There is no bucket yet."), " A bucket keeps the last values of keys, and every client of NATS can use it. Make one with the button above, or in a shell:"),
    lines(`curl -X PUT ${at} -H 'Content-Type: application/json' -d '{"history": 5}'`, `curl -X PUT ${at}/colors.sky --data-binary blue`),
  ];
}
