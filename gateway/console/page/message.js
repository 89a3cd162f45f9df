// One message: all of it, and what can be done with it.

import { add, button, copier, dialog, fill, h, say } from "./dom.js";
import { confirm } from "./forms.js";
import { ago, bytes, clock, visible } from "./format.js";
import { ask, path, send } from "./http.js";
import { fromBase64, hexDump, pretty, textOf, toBase64 } from "./payload.js";
import { publish } from "./publish.js";
import { Reader } from "./reading.js";
import { trouble } from "./trouble.js";

const SHOWN = 64 << 10;
const KEPT = 4096; // bytes of hex

/**
 * Open a message in a sheet. `filter` is for its neighbours; `moved(seq)` is told which one is
 * shown; `changed` is called when it was deleted.
 */
export function openMessage({ stream, seq, filter = "", moved, changed }) {
  return dialog(`${stream} ${seq}`, (close, heading) => {
    const box = h("div", { class: "message" });
    const show = async (wanted) => {
      heading.textContent = `${stream} ${wanted}`;
      moved?.(wanted);
      try {
        const found = await read(stream, wanted);
        fill(box, page(found, { close, show, filter, changed }));
      } catch (error) {
        fill(box, trouble(error, `Message ${wanted} cannot be shown`), walk(stream, wanted, filter, show));
      }
    };
    show(seq);
    return box;
  }, { class: "sheet" });
}

async function read(stream, seq) {
  const at = path("streams", stream, "messages", seq);
  const [shown, raw] = await Promise.all([
    ask(at),
    send(at, { headers: { Accept: "application/octet-stream" } }).then((answer) => answer.arrayBuffer()),
  ]);
  return { ...shown, headers: Object.entries(shown.headers ?? {}), bytes: new Uint8Array(raw), at };
}

function page(found, { close, show, filter, changed }) {
  const { stream, subject, seq, time, headers } = found;
  const again = () => publish({ subject, headers, ...asText(found.bytes), from: `${stream} ${seq}` });
  const remove = async () => {
    const act = async () => {
      await send(found.at, { method: "DELETE" });
      say(`Message ${seq} of ${stream} was deleted.`);
    };
    const text = `Message ${seq} of the stream ${stream} (${visible(subject)}, ${bytes(found.bytes.length)}) is removed and its payload overwritten. This cannot be undone.`;
    if (!(await confirm(`Delete message ${seq}?`, text, `Delete message ${seq}`, act))) return;
    changed?.();
    close();
  };
  return [
    walk(stream, seq, filter, show),
    h("dl", { class: "facts" },
      h("dt", {}, "Subject"), h("dd", { class: "mono" }, visible(subject)),
      h("dt", {}, "Stored"), h("dd", {}, clock(time), h("span", { class: "dim" }, ` ${ago(time)}`)),
      h("dt", {}, "Size"), h("dd", {}, bytes(found.bytes.length))),
    headers.length > 0 && headerTable(headers),
    payloadOf(found.bytes),
    h("div", { class: "buttons" },
      button("Publish again…", again),
      copier(() => textOf(found.bytes) ?? toBase64(found.bytes), "Copy payload"),
      h("a", { class: "button", href: found.at, download: `${stream}-${seq}` }, "Download"),
      copier(() => `${location.origin}/#/streams/${encodeURIComponent(stream)}/messages?seq=${seq}`, "Copy link"),
      button("Delete…", remove, { class: "danger" })),
  ];
}

/** The neighbours of a message. */
function walk(stream, seq, filter, show) {
  const reader = new Reader(stream, filter);
  const to = async (find) => {
    try {
      const [next] = await find();
      if (next) show(next.seq);
      else say("There is no other message in this direction.");
    } catch (error) {
      say(error.message);
    }
  };
  return h("div", { class: "buttons" },
    button("← Older", () => to(() => reader.backward(seq - 1, 1))),
    button("Newer →", () => to(() => reader.forward(seq + 1, 1))));
}

function headerTable(headers) {
  const rows = headers.flatMap(([name, values]) => values.map((value) => h("tr", {}, h("th", { scope: "row" }, visible(name)), h("td", {}, visible(value)))));
  return h("table", { class: "headers", "aria-label": "Headers" }, h("tbody", {}, rows));
}

/** A payload, as JSON, text or hex. */
export function payloadOf(data) {
  const text = textOf(data);
  const json = text === undefined ? undefined : pretty(text);
  const forms = [json !== undefined && ["JSON", json], text !== undefined && ["Text", text], ["Hex", null]].filter(Boolean);
  const place = h("div", {});
  const name = `form${Math.random()}`;
  const choose = ([kind, value]) => fill(place, kind === "Hex" ? hex(data) : long(value));
  const choices = forms.map((each, index) => h("label", {}, h("input", { type: "radio", name, checked: index === 0, change: () => choose(each) }), h("span", {}, each[0])));
  choose(forms[0]);
  return h("section", { "aria-label": "Payload" }, h("div", { class: "choices", role: "radiogroup", "aria-label": "Show the payload as" }, choices), data.length ? place : h("p", { class: "dim" }, "The payload is empty."));
}

function long(text) {
  const pre = h("pre", { class: "payload", tabindex: "0" }, visible(text.slice(0, SHOWN)));
  if (text.length <= SHOWN) return pre;
  const more = button(`Show all of it (${bytes(text.length)})`, () => {
    pre.textContent = visible(text);
    more.remove();
  });
  return [pre, more];
}

function hex(data) {
  const pre = h("pre", { class: "payload hex", tabindex: "0" }, hexDump(data.subarray(0, KEPT)));
  if (data.length <= KEPT) return pre;
  return add(h("div", {}), [pre, h("p", { class: "dim" }, `The first ${bytes(KEPT)} of ${bytes(data.length)}; the download has all.`)]);
}

/** What the form for publishing begins with. */
function asText(data) {
  const text = textOf(data);
  return text === undefined ? { kind: "base64", payload: toBase64(data) } : { kind: "text", payload: text };
}

/** The bytes that a form says. Throws when they are no base64. */
export const bytesOf = (kind, text) => (kind === "base64" ? fromBase64(text) : new TextEncoder().encode(text));
