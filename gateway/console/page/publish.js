// Publishing one message.

import { copier, dialog, fill, h } from "./dom.js";
import { area, field, form, input, number, select, wrong } from "./forms.js";
import { Refused, ask } from "./http.js";

const KINDS = [["text", "Text"], ["json", "JSON (checked, sent as written)"], ["base64", "Base64, for bytes"]];
const OWN = ["Nats-Msg-Id"]; // the field says it

/**
 * Open the form. `subject`, `kind`, `payload` and `headers` (pairs of a name and its values) are
 * what it begins with; `from` names the message that is published again.
 */
export function publish({ subject = "", kind = "text", payload = "", headers = [], from = "" }) {
  const own = headers.filter(([name]) => !OWN.includes(name) && !name.startsWith("Nats-Expected-"));
  const controls = {
    subject: input({ value: subject, required: true, class: "mono", placeholder: "orders.new", autofocus: true }),
    kind: select(KINDS, kind),
    payload: area({ value: payload, class: "mono", rows: "8" }),
    headers: area({ value: own.flatMap(([name, values]) => values.map((value) => `${name}: ${value}`)).join("\n"), class: "mono", rows: "3" }),
    id: input({ class: "mono" }),
    expected: input({ inputmode: "numeric" }),
    of: select([["last_subject_seq", "of this subject"], ["last_seq", "of the whole stream"]]),
  };
  return dialog(from ? `Publish ${from} again` : "Publish", () => page(controls), { class: "sheet" });
}

function page(controls) {
  const place = h("div", { role: "status" });
  const curl = h("pre", { tabindex: "0" });
  const note = () => {
    try {
      curl.textContent = curlOf(entry(controls));
    } catch (error) {
      curl.textContent = error.message;
    }
  };
  const send = async () => {
    place.replaceChildren();
    const wanted = entry(controls);
    const [result] = await ask("/v1/publish", { method: "POST", json: [wanted] });
    if (result.error) throw new Refused(result.error.status, result.error, 0);
    fill(place, receipt(result));
  };
  const made = form([
    field("Subject", controls.subject, "Which stream stores the message is found by its subject."),
    field("Payload is", controls.kind),
    field("Payload", controls.payload),
    field("Headers", controls.headers, "A line for each, such as Region: eu"),
    h("div", { class: "pair" },
      field("Message id", controls.id, "A repetition with the same id is stored once."),
      field("Expected last sequence", controls.expected, "Store only if it is still this one; 0: there is none."),
      field("Sequence", controls.of)),
    place,
  ], "Publish", send, { title: "Not stored" });
  made.addEventListener("input", note);
  note();
  const shell = h("details", {}, h("summary", {}, "The same with curl"), h("div", { class: "lines" }, curl, copier(() => curl.textContent)));
  return [made, shell];
}

function receipt({ stream, seq, duplicate }) {
  const at = `#/streams/${encodeURIComponent(stream)}/messages?seq=${seq}`;
  const text = duplicate ? "Known already by its message id, and not stored again: " : "Stored durably as ";
  return h("p", { class: "done" }, text, h("a", { href: at }, `${stream} ${seq}`));
}

/** What the form says, as a line of `POST /v1/publish`. */
function entry({ subject, kind, payload, headers, id, expected, of }) {
  const wanted = { subject: subject.value.trim() };
  if (kind.value === "base64") wanted.data_base64 = checkedBase64(payload.value);
  else wanted.text = kind.value === "json" ? checkedJson(payload.value) : payload.value;
  const found = headersOf(headers.value);
  if (found.length) wanted.headers = Object.fromEntries(found);
  if (id.value) wanted.msg_id = id.value;
  const seq = number(expected, "Expected last sequence");
  if (seq !== undefined) wanted.expect = { [of.value]: seq };
  return wanted;
}

/** Lines of `Name: value` as names with their values. */
function headersOf(text) {
  const found = new Map();
  for (const line of text.split("\n").filter((each) => each.trim())) {
    const at = line.indexOf(":");
    if (at < 1) throw wrong(`Headers: “${line.slice(0, 40)}” is no line such as Name: value.`);
    const name = line.slice(0, at).trim();
    found.set(name, [...(found.get(name) ?? []), line.slice(at + 1).trim()]);
  }
  return [...found];
}

function checkedJson(text) {
  try {
    JSON.parse(text);
  } catch (error) {
    throw wrong(`The payload is no JSON: ${error.message}`);
  }
  return text;
}

function checkedBase64(text) {
  const packed = text.replace(/\s/g, "");
  try {
    atob(packed);
  } catch {
    throw wrong("The payload is no base64.");
  }
  return packed;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curlOf(wanted) {
  return `curl ${location.origin}/v1/publish -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify([wanted]))}`;
}
