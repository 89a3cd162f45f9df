// One key-value bucket: its keys, their values and histories.

import { add, button, dialog, fill, h, say } from "./dom.js";
import { area, confirm, field, form, input, select, wrong } from "./forms.js";
import { ago, bytes, clock, count, oneLine, plural } from "./format.js";
import { Refused, ask, linesOf, path, send } from "./http.js";
import { bytesOf, payloadOf } from "./message.js";
import { row, textOf, toBase64 } from "./payload.js";
import { Table } from "./table.js";
import { trouble, troublePlace } from "./trouble.js";

const EVERY = 2000;
const SHOWN = 1000;

export async function bucket(box, { names, query, life }) {
  const name = names[1];
  const at = path("kv", name);
  let info = await ask(at, { signal: life.signal });
  const filter = input({ type: "search", class: "mono", value: query.get("keys") ?? "", placeholder: "colors.*", "data-filter": true });
  const summary = h("p", { class: "summary" });
  const note = h("p", { class: "dim", role: "status" });
  const [place, failed] = troublePlace("The keys cannot be listed");
  const open = (key) => openKey({ bucket: name, key, history: info.config.history, changed: () => load() });
  const table = new Table({
    label: `Keys of ${name}`,
    key: (each) => each.key,
    sort: [0, false],
    empty: () => (filter.value ? h("p", {}, "No key matches.") : h("p", {}, h("b", {}, "No key has a value."), " Put one with the button above.")),
    columns: [
      { title: "Key", kind: "subject", sort: (each) => each.key, once: (latest) => button(oneLine(latest().key), () => open(latest().key), { class: "open" }) },
      { title: "Revision", kind: "number", sort: (each) => each.revision, cell: (each) => count(each.revision) },
      { title: "Stored", kind: "time", sort: (each) => each.created, cell: (each) => clock(each.created) },
    ],
  });
  let seen;
  const load = async () => {
    const found = await keysOf(at, filter.value.trim(), life.signal);
    table.update(found.slice(0, SHOWN));
    note.textContent = found.length > SHOWN ? `The first ${count(SHOWN)} keys; a filter shows others.` : plural(found.length, "key");
    seen = info.last_revision;
    const wanted = filter.value.trim();
    history.replaceState(null, "", `#/kv/${encodeURIComponent(name)}${wanted ? `?keys=${encodeURIComponent(wanted)}` : ""}`);
  };
  const show = () => {
    const { config } = info;
    fill(summary, [plural(info.keys, "key"), plural(info.values, "value"), bytes(info.bytes), `history ${config.history}`, config.ttl ? "expires" : "", config.description].filter(Boolean).map((text) => h("span", {}, text)));
  };
  add(box, [
    h("div", { class: "title" }, h("h1", {}, h("a", { href: "#/kv" }, "Key-value"), " / ", name),
      h("div", { class: "actions" },
        button("Put…", () => put({ bucket: name, changed: load })),
        h("a", { class: "button", href: `#/streams/${encodeURIComponent(info.stream)}` }, "Its stream"),
        button("Delete…", () => remove(name, info), { class: "danger" }))),
    summary, h("div", { class: "filters" }, form([field("Keys, with wildcards", filter)], "Show", load)), place, note, table.element,
  ]);
  show();
  life.every(EVERY, async (signal) => {
    info = await ask(at, { signal });
    show();
    if (info.last_revision !== seen) await load();
  }, failed);
  if (query.get("key")) open(query.get("key"));
  return name;
}

/** Keys while they arrive, one more than are shown. */
async function keysOf(at, keys, signal) {
  const response = await send(`${at}:keys`, { query: { keys }, headers: { Accept: "application/x-ndjson" }, signal });
  const found = [];
  for await (const lines of linesOf(response, signal)) {
    found.push(...lines.filter(Boolean).map((line) => JSON.parse(line)));
    if (found.length > SHOWN) break;
  }
  return found;
}

async function remove(name, info) {
  const text = `The bucket ${name} goes, with its ${plural(info.keys, "key")}. This cannot be undone.`;
  if (!(await confirm(`Delete the bucket ${name}?`, text, `Delete ${name}`, () => send(path("kv", name), { method: "DELETE" })))) return;
  say(`The bucket ${name} was deleted.`);
  location.hash = "#/kv";
}

/** Put a value; with a `revision` only if the key still has that. */
function put({ bucket: name, key = "", value = "", kind = "text", revision, changed }) {
  const controls = { key: input({ value: key, required: true, readonly: Boolean(key), class: "mono", placeholder: "colors.sky" }), kind: select([["text", "Text"], ["base64", "Base64, for bytes"]], kind), value: area({ value, class: "mono", rows: "8" }) };
  return dialog(key ? `Change ${oneLine(key)}` : `Put a value into ${name}`, (close) => form([
    field("Key", controls.key, "letters, digits and - _ / = in tokens separated by dots"), field("Value is", controls.kind), field("Value", controls.value),
  ], "Put", async () => {
    const headers = { "Content-Type": "application/octet-stream" };
    if (revision !== undefined) headers["If-Match"] = `"${revision}"`;
    let body;
    try {
      body = bytesOf(controls.kind.value, controls.value.value);
    } catch {
      throw wrong("The value is no base64.");
    }
    const stored = await ask(path("kv", name, controls.key.value.trim()), { method: "PUT", body, headers });
    say(`${stored.key} has revision ${stored.revision} now.`);
    close(true);
    await changed?.();
  }, { cancel: () => close(), title: "Not stored" }), { class: "sheet" });
}

function openKey({ bucket: name, key, changed }) {
  return dialog(`${name} ${oneLine(key)}`, (close) => {
    const box = h("div", { class: "message" });
    const at = path("kv", name, key);
    const load = async () => {
      try {
        fill(box, await keyPage({ at, name, key, close, load, changed }));
      } catch (error) {
        fill(box, trouble(error, `${oneLine(key)} cannot be shown`));
      }
    };
    load();
    return box;
  }, { class: "sheet" });
}

async function keyPage({ at, name, key, close, load, changed }) {
  const [current, history] = await Promise.all([valueOf(at), ask(`${at}:history`, {})]);
  const after = async () => {
    await changed?.();
    await load();
  };
  const edit = () => {
    const text = current && textOf(current.data);
    const value = current ? (text ?? toBase64(current.data)) : "";
    put({ bucket: name, key, value, kind: current && text === undefined ? "base64" : "text", revision: current?.revision, changed: after });
  };
  const end = (verb, title, text, method, url) => async () => {
    const done = await confirm(title, text, `${verb} ${oneLine(key)}`, () => send(url, { method, headers: current ? { "If-Match": `"${current.revision}"` } : {} }));
    if (!done) return;
    await changed?.();
    close();
  };
  return [
    current ? payloadOf(current.data) : h("p", {}, "The key has no value: it was deleted, or has expired."),
    current && h("p", { class: "dim" }, `Revision ${current.revision}, ${bytes(current.data.length)}`),
    h("div", { class: "buttons" },
      button(current ? "Change…" : "Put…", edit),
      current && h("a", { class: "button", href: at, download: key.replaceAll("/", "_") }, "Download"),
      button("Delete…", end("Delete", `Delete ${oneLine(key)}?`, `The key ${oneLine(key)} of ${name} has no value afterwards. Older revisions stay in its history.`, "DELETE", at), { class: "danger" }),
      button("Purge…", end("Purge", `Purge ${oneLine(key)}?`, `The key ${oneLine(key)} of ${name} and its history are removed. This cannot be undone.`, "POST", `${at}:purge`), { class: "danger" })),
    h("h3", {}, "History"),
    historyTable(history.entries),
  ];
}

async function valueOf(at) {
  try {
    const answer = await send(at, { headers: { Accept: "application/octet-stream" } });
    return { revision: Number(answer.headers.get("ETag").replaceAll('"', "")), data: new Uint8Array(await answer.arrayBuffer()) };
  } catch (error) {
    if (error instanceof Refused && error.kind === "key-not-found") return undefined;
    throw error;
  }
}

function historyTable(entries) {
  const head = ["Revision", "Stored", "", "Value"].map((text, index) => h("th", { scope: "col", class: index === 0 && "number" }, text || h("span", { class: "hidden" }, "Operation")));
  const lines = [...entries].reverse().map((entry) => h("tr", {},
    h("td", { class: "number" }, count(entry.revision)), h("td", { class: "time", title: clock(entry.created) }, ago(entry.created)),
    h("td", {}, h("span", { class: "tag" }, entry.operation)), h("td", { class: "payload" }, entry.operation === "PUT" ? oneLine(row(JSON.stringify(entry)).text) : "")));
  return h("div", { class: "scroll" }, h("table", { "aria-label": "History" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, lines)));
}
