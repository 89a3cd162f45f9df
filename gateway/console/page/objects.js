// Object stores and their objects.

import { add, h, lines } from "./dom.js";
import { field, input } from "./forms.js";
import { bytes, clock, count, oneLine, plural } from "./format.js";
import { ask, linesOf, path, send } from "./http.js";
import { bucketPages } from "./buckets.js";
import { Table } from "./table.js";
import { troublePlace } from "./trouble.js";

const EVERY = 3000;
const SHOWN = 1000;

export async function stores(box, { life }) {
  const [place, failed] = troublePlace("The stores cannot be listed");
  const name = (each) => each.bucket;
  const table = new Table({
    label: "Object stores",
    key: name,
    sort: [0, false],
    empty: teach,
    columns: [
      { title: "Store", sort: name, cell: (each) => h("a", { class: "open", href: `#/objects/${encodeURIComponent(name(each))}` }, name(each)) },
      { title: "Description", cell: (each) => each.config.description },
      { title: "Bytes", kind: "number", sort: (each) => each.bytes, cell: (each) => bytes(each.bytes) },
      { title: "Created", kind: "time", sort: (each) => each.created, cell: (each) => clock(each.created) },
      { title: "State", cell: (each) => (each.sealed ? "sealed" : "") },
    ],
  });
  add(box, [h("div", { class: "title" }, h("h1", {}, "Objects")), place, table.element]);
  life.every(EVERY, async (signal) => table.update(await bucketPages("/v1/objects", signal)), failed);
  return "Objects";
}

export async function objects(box, { names, life }) {
  const name = names[1];
  const at = path("objects", name);
  const info = await ask(at, { signal: life.signal });
  let known = [];
  const filter = input({ type: "search", "data-filter": true });
  const note = h("p", { class: "dim", role: "status" });
  const [place, failed] = troublePlace("The objects cannot be listed");
  const table = new Table({
    label: `Objects of ${name}`,
    key: (each) => each.name,
    sort: [0, false],
    empty: () => (known.length ? h("p", {}, "No object matches.") : teachObject(name)),
    columns: [
      { title: "Name", kind: "subject", sort: (each) => each.name, cell: (each) => oneLine(each.name) },
      { title: "Size", kind: "number", sort: (each) => each.size, cell: (each) => bytes(each.size) },
      { title: "Chunks", kind: "number wide", cell: (each) => count(each.chunks) },
      { title: "Changed", kind: "time", sort: (each) => each.mtime, cell: (each) => clock(each.mtime) },
      { title: "Description", kind: "wide", cell: (each) => oneLine(each.description ?? "") },
      { title: "", cell: (each) => h("a", { class: "open", href: `${at}/${encodeURIComponent(each.name)}`, download: each.name.split("/").pop(), "aria-label": `Download ${oneLine(each.name)}` }, each.link ? "Download what it leads to" : "Download") },
    ],
  });
  const show = () => {
    const found = known.filter((each) => each.name.includes(filter.value));
    table.update(found.slice(0, SHOWN));
    note.textContent = known.length > SHOWN ? `The first ${count(SHOWN)} objects.` : plural(found.length, "object");
  };
  filter.addEventListener("input", show);
  add(box, [
    h("div", { class: "title" }, h("h1", {}, h("a", { href: "#/objects" }, "Objects"), " / ", name),
      h("div", { class: "actions" }, h("a", { class: "button", href: `#/streams/${encodeURIComponent(info.stream)}` }, "Its stream"))),
    h("div", { class: "bar" }, field("Filter", filter)), place, note, table.element,
  ]);
  let seen;
  life.every(EVERY, async (signal) => {
    const { bytes: size } = await ask(at, { signal });
    if (size === seen) return;
    known = await list(at, signal);
    seen = size;
    show();
  }, failed);
  return name;
}

async function list(at, signal) {
  const response = await send(`${at}:list`, { headers: { Accept: "application/x-ndjson" }, signal });
  const found = [];
  for await (const some of linesOf(response, signal)) {
    found.push(...some.filter(Boolean).map((line) => JSON.parse(line)));
    if (found.length > SHOWN) break;
  }
  return found;
}

function teach() {
  const at = `${location.origin}/v1/objects/files`;
  return [
    h("p", {}, h("b", {}, "There is no object store yet."), " A store keeps files of any size, in chunks. In a shell:"),
    lines(`curl -X PUT ${at} -H 'Content-Type: application/json' -d '{}'`, `curl -T picture.png ${at}/picture.png`),
  ];
}

const teachObject = (name) => [h("p", {}, h("b", {}, "The store is empty."), " Store a file, in a shell:"), lines(`curl -T picture.png ${location.origin}/v1/objects/${encodeURIComponent(name)}/picture.png`)];
