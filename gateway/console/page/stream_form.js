// Creating and changing a stream.

import { dialog, h, say } from "./dom.js";
import { area, check, field, form, input, number, select, wrong } from "./forms.js";
import { duration, written } from "./format.js";
import { path, send } from "./http.js";

const LIMITS = [["max_msgs", "Most messages"], ["max_bytes", "Most bytes"], ["max_msgs_per_subject", "Most messages of each subject"], ["max_msg_size", "Largest message, in bytes"]];
const TIMES = [["max_age", "Longest age"], ["duplicate_window", "How long message ids are remembered"]];
const FLAGS = [["allow_direct", "Direct Get: many messages are read at once"], ["allow_msg_ttl", "Messages may have a time to live"], ["allow_rollup_hdrs", "Roll-ups"], ["allow_atomic", "Atomic batches"]];

/** Open the form for a new stream, or for that of the view `at`. */
export function editStream(at) {
  const config = at?.info.config ?? { allow_direct: true };
  return dialog(at ? `Edit the stream ${at.name}` : "New stream", (close) => page(at, config, close), { class: "sheet" });
}

function page(at, config, close) {
  const name = input({ value: at?.name ?? "", required: true, readonly: Boolean(at), class: "mono", placeholder: "ORDERS" });
  const subjects = area({ value: (config.subjects ?? []).join("\n"), rows: "3", class: "mono", placeholder: "orders.>" });
  const description = input({ value: config.description ?? "" });
  const retention = select(["limits", "interest", "workqueue"], config.retention);
  const discard = select([["old", "remove the oldest messages"], ["new", "refuse new messages"]], config.discard);
  const storage = select(["file", "memory"], config.storage, { disabled: Boolean(at) });
  const limits = LIMITS.map(([key, text]) => [key, text, input({ inputmode: "numeric", placeholder: "no limit", value: config[key] > 0 ? String(config[key]) : "" })]);
  const times = TIMES.map(([key, text]) => [key, text, input({ placeholder: key === "max_age" ? "no limit" : "2m", value: written(config[key]) })]);
  const flags = FLAGS.map(([key, text]) => [key, ...check(text, { checked: Boolean(config[key]) })]);
  const more = area({ rows: "3", class: "mono", placeholder: '{"max_consumers": 10}' });
  const gather = () => {
    const wanted = { subjects: subjects.value.split(/[\s,]+/).filter(Boolean), description: description.value, retention: retention.value, discard: discard.value, storage: storage.value };
    for (const [key, text, control] of limits) wanted[key] = number(control, text) || -1;
    for (const [key, text, control] of times) wanted[key] = time(control, text);
    if (!wanted.duplicate_window) delete wanted.duplicate_window;
    for (const [key, , control] of flags) wanted[key] = control.checked;
    return { ...wanted, ...further(more) };
  };
  const save = async () => {
    const wanted = gather();
    const target = path("streams", name.value.trim());
    if (!at) await send(target, { method: "PUT", json: wanted, headers: { "If-None-Match": "*" } });
    else await send(target, { method: "PATCH", json: changed(config, wanted) });
    say(`The stream ${name.value} was ${at ? "changed" : "created"}.`);
    close(true);
    if (at) at.look();
    else location.hash = `#/streams/${encodeURIComponent(name.value.trim())}`;
  };
  return form([
    field("Name", name),
    field("Subjects", subjects, "One a line. * stands for one token, > at the end for all that follow. Without any: the stream's name."),
    field("Description", description),
    h("div", { class: "pair" }, field("Retention", retention, "workqueue: a message goes when it was acknowledged; interest: when all consumers did"), field("When full", discard), field("Storage", storage)),
    h("div", { class: "pair" }, limits.map(([, text, control]) => field(text, control)), times.map(([, text, control]) => field(text, control, "such as 90s, 2h or 7d"))),
    h("div", { class: "checks" }, flags.map(([, label]) => label)),
    field("Further members, as JSON", more, "Whatever a stream's configuration has; it goes before what is above."),
  ], at ? `Change ${at.name}` : "Create", save, { cancel: () => close(), title: at ? "Not changed" : "Not created" });
}

/** Nanoseconds of a field. */
export function time(control, what) {
  const found = duration(control.value);
  if (found === undefined) throw wrong(`${what}: a time such as 90s, 2h or 7d.`);
  return found;
}

/** The members of a field with JSON. */
export function further(control) {
  if (!control.value.trim()) return {};
  let found;
  try {
    found = JSON.parse(control.value);
  } catch (error) {
    throw wrong(`Further members are no JSON: ${error.message}`);
  }
  if (!found || typeof found !== "object" || Array.isArray(found)) throw wrong("Further members: a JSON object.");
  return found;
}

/** The members that are others now: what the form does not know stays as it is. */
export function changed(before, wanted) {
  const same = (key) => JSON.stringify(before[key] ?? absent(wanted[key])) === JSON.stringify(wanted[key]);
  return Object.fromEntries(Object.entries(wanted).filter(([key]) => !same(key)));
}

function absent(value) {
  if (typeof value === "boolean") return false;
  return typeof value === "string" ? "" : Array.isArray(value) ? [] : -1;
}
