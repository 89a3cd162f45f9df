// One stream: what it holds, who reads it, how it is set up.

import { add, button, dialog, fill, h, say } from "./dom.js";
import { confirm, field, form, input, number, wrong } from "./forms.js";
import { ago, bytes, clock, count, nanos, plural, rate } from "./format.js";
import { ask, path, send } from "./http.js";
import { consumer } from "./consumer.js";
import { consumers } from "./consumers.js";
import { live } from "./live.js";
import { messages } from "./messages.js";
import { Rates } from "./rates.js";
import { streamInfo } from "./reading.js";
import { replay } from "./replay.js";
import { editStream } from "./stream_form.js";
import { subjects } from "./subjects.js";
import { troublePlace } from "./trouble.js";

const EVERY = 1000;
const TABS = { messages: ["Messages", messages], live: ["Live", live], replay: ["Replay", replay], subjects: ["Subjects", subjects], consumers: ["Consumers", consumers], config: ["Configuration", configuration] };

export async function stream(box, { names, query, life }) {
  const [, name, wanted = "messages", ...rest] = names;
  const tab = TABS[wanted] ? wanted : "messages";
  const at = { name, rest, query, life, info: await streamInfo(name, life.signal), state: new EventTarget() };
  const summary = h("p", { class: "summary" });
  const [place, failed] = troublePlace();
  const rates = new Rates();
  const inside = h("section", { "aria-label": TABS[tab][0] });
  add(box, [
    h("div", { class: "title" }, h("h1", {}, h("a", { href: "#/streams" }, "Streams"), " / ", name), actions(at)),
    summary,
    h("nav", { class: "tabs", "aria-label": "Stream" }, Object.entries(TABS).map(([key, [text]]) => h("a", { href: `#/streams/${encodeURIComponent(name)}/${key}`, "aria-current": key === tab && "page" }, text))),
    place,
    inside,
  ]);
  const show = () => fill(summary, facts(at.info, rates));
  show();
  const look = life.every(EVERY, async (signal) => {
    at.info = await streamInfo(name, signal);
    show();
    at.state.dispatchEvent(new Event("seen"));
  }, failed);
  at.look = look;
  const title = await (tab === "consumers" && rest[0] ? consumer : TABS[tab][1])(inside, at);
  return title ?? `${name} ${TABS[tab][0].toLowerCase()}`;
}

function facts({ config, state }, rates) {
  const held = state.messages ? `sequences ${count(state.first_seq)} to ${count(state.last_seq)}` : `next sequence ${count(state.last_seq + 1)}`;
  const last = state.last_seq ? [held, `last ${ago(state.last_ts)}`] : [];
  const now = rate(rates.of("", state.last_seq));
  const parts = [plural(state.messages, "message"), bytes(state.bytes), plural(state.num_subjects ?? 0, "subject"), ...last, now, plural(state.consumer_count, "consumer")];
  return [
    h("span", { class: "mono" }, config.subjects?.join(" ") || (config.mirror ? `mirror of ${config.mirror.name}` : "")),
    parts.filter(Boolean).map((text) => h("span", {}, text)),
    config.sealed && h("span", { class: "tag" }, "sealed"),
    config.retention !== "limits" && h("span", { class: "tag" }, config.retention),
  ];
}

function actions(at) {
  const subject = (at.info.config.subjects?.[0] ?? "").replace(/[*>].*$/, "");
  return h("div", { class: "actions", "data-subject": subject },
    button("Edit…", () => editStream(at)),
    button("Purge…", () => purge(at)),
    button("Delete…", () => remove(at), { class: "danger" }));
}

async function remove({ name, info: { state } }) {
  const text = `The stream ${name} goes, with its ${plural(state.messages, "message")} and ${plural(state.consumer_count, "consumer")}. This cannot be undone.`;
  const act = () => send(path("streams", name), { method: "DELETE" });
  if (!(await confirm(`Delete the stream ${name}?`, text, `Delete ${name}`, act))) return;
  say(`The stream ${name} was deleted.`);
  location.hash = "#/streams";
}

function purge(at) {
  const filter = input({ class: "mono", placeholder: "all subjects" });
  const keep = input({ inputmode: "numeric" });
  const seq = input({ inputmode: "numeric" });
  return dialog(`Purge the stream ${at.name}?`, (close) => form([
    h("p", {}, `Messages of ${at.name} are removed: all ${count(at.info.state.messages)} of them, or fewer by what is said here. This cannot be undone.`),
    field("Only of the subject", filter),
    field("Keep the newest", keep, "How many stay."),
    field("Only below the sequence", seq),
  ], `Purge ${at.name}`, async () => {
    const json = { filter: filter.value.trim(), keep: number(keep, "Keep") ?? 0, seq: number(seq, "Sequence") ?? 0 };
    if (json.keep && json.seq) throw wrong("Keep the newest, or only below a sequence: one of them.");
    const { purged } = await ask(`${path("streams", at.name)}:purge`, { method: "POST", json });
    say(`${plural(purged, "message")} of ${at.name} removed.`);
    at.look();
    at.state.dispatchEvent(new Event("changed"));
    close(true);
  }, { cancel: () => close(), danger: true }), { class: "small" });
}

/** The configuration, as JSON and in words. */
async function configuration(box, at) {
  const show = () => {
    const { config, created } = at.info;
    const rows = [
      ["Retention", config.retention], ["Storage", config.storage], ["When full", `discard ${config.discard}`],
      ["Most messages", config.max_msgs > 0 && count(config.max_msgs)], ["Most bytes", config.max_bytes > 0 && bytes(config.max_bytes)],
      ["Longest age", config.max_age > 0 && nanos(config.max_age)], ["Most of each subject", config.max_msgs_per_subject > 0 && count(config.max_msgs_per_subject)],
      ["Largest message", config.max_msg_size > 0 && bytes(config.max_msg_size)], ["Message ids remembered", nanos(config.duplicate_window)],
      ["Direct Get", config.allow_direct ? "allowed" : "not allowed: messages are read one by one"], ["Created", clock(created)],
    ];
    fill(facts, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value || "no limit")]));
    const text = JSON.stringify(config, null, 2);
    if (pre.textContent !== text) pre.textContent = text;
  };
  const facts = h("dl", { class: "facts" });
  const pre = h("pre", { class: "payload", tabindex: "0" });
  add(box, [facts, h("h2", {}, "All of it"), pre]);
  show();
  at.life.on(at.state, "seen", show);
}
