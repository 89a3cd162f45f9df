// One consumer: how far it is, and its next messages.

import { add, button, dialog, fill, h, say } from "./dom.js";
import { confirm, field, form, input, number } from "./forms.js";
import { ago, clock, count, nanos, oneLine, plural } from "./format.js";
import { ask, askText, path, send } from "./http.js";
import { editConsumer } from "./consumer_form.js";
import { lag, stateOf } from "./consumers.js";
import { row } from "./payload.js";
import { openMessage } from "./message.js";
import { time } from "./stream_form.js";
import { trouble, troublePlace } from "./trouble.js";

const EVERY = 2000;
const JUDGED = { ack: "acknowledged", nak: "given back", term: "terminated", progress: "kept: its ack wait began again" };

export async function consumer(box, at) {
  const name = at.rest[0];
  const self = { at, name, url: path("streams", at.name, "consumers", name), info: null };
  self.info = await ask(self.url, { signal: at.life.signal });
  const figures = h("dl", { class: "figures" });
  const setup = h("dl", { class: "facts" });
  const [place, failed] = troublePlace();
  const pause = button("", () => pauseOrResume(self), {});
  const next = h("div", { class: "deliveries", "aria-label": "Messages that were fetched", role: "list" });
  const show = () => {
    fill(figures, figuresOf(self.info));
    fill(setup, setupOf(self.info));
    pause.textContent = self.info.paused ? "Resume" : "Pause…";
  };
  const isPull = !self.info.config.deliver_subject;
  add(box, [
    h("div", { class: "title" }, h("h2", {}, h("a", { href: `#/streams/${encodeURIComponent(at.name)}/consumers` }, "Consumers"), " / ", name),
      h("div", { class: "actions" },
        isPull && button("Next message", () => fetchNext(self, next), { class: "primary" }), pause,
        button("Reset…", () => reset(self)), button("Edit consumer…", () => editConsumer(at, self.info, () => self.look())),
        button("Delete consumer…", () => remove(self), { class: "danger" }))),
    place, figures, next, letters(self), h("h3", {}, "Configuration"), setup,
  ]);
  show();
  self.look = at.life.every(EVERY, async (signal) => {
    self.info = await ask(self.url, { signal });
    show();
  }, failed);
  return `${at.name} / ${name}`;
}

function figuresOf(info) {
  const rows = [
    ["Lag", count(lag(info))], ["Pending", count(info.num_pending)], ["Unacknowledged", count(info.num_ack_pending)], ["Redelivered", count(info.num_redelivered)],
    ["Delivered to", count(info.delivered.stream_seq)], ["Acknowledged to", count(info.ack_floor.stream_seq)], ["Last delivery", ago(info.delivered.last_active) || "never"], ["State", stateOf(info) || "idle"],
  ];
  return rows.map(([text, value]) => h("div", {}, h("dt", {}, text), h("dd", {}, value)));
}

function setupOf({ config, created }) {
  const rows = [
    ["Kind", `${config.deliver_subject ? `push to ${config.deliver_subject}` : "pull"}, ${config.durable_name ? "durable" : "ephemeral"}`],
    ["Subjects", config.filter_subject ?? config.filter_subjects?.join(", ") ?? "all"], ["Begins with", config.deliver_policy], ["Acknowledged", config.ack_policy],
    ["Within", nanos(config.ack_wait)], ["Most deliveries", config.max_deliver > 0 ? count(config.max_deliver) : "no limit"], ["Most unacknowledged", count(config.max_ack_pending)], ["Created", clock(created)],
  ];
  return rows.flatMap(([text, value]) => [h("dt", {}, text), h("dd", {}, value)]);
}

/** Fetch one message and show it with what can be said of it. */
async function fetchNext(self, place) {
  const json = { batch: 1, no_wait: true };
  let text;
  try {
    text = await askText(`${self.url}:fetch`, { method: "POST", json, headers: { Accept: "application/x-ndjson" } });
  } catch (error) {
    place.replaceChildren(trouble(error, "No message was fetched"));
    return;
  }
  const line = text.trim().split("\n").find((each) => each.startsWith("{"));
  if (!line) {
    say(self.info.paused ? "The consumer is paused: it delivers nothing." : "There is no message to deliver now.");
    return;
  }
  const found = row(line);
  const state = h("span", { class: "dim" }, ` delivery ${found.delivered}, ${plural(found.pending ?? 0, "message")} behind it`);
  const needsAck = self.info.config.ack_policy !== "none";
  const buttons = h("span", { class: "buttons" });
  const judge = (verb) => async () => {
    try {
      await acknowledge(self, verb, found.token);
      state.textContent = ` ${JUDGED[verb]}`;
      if (verb !== "progress") buttons.remove();
    } catch (error) {
      state.textContent = ` ${error.message}`;
    }
    self.look();
  };
  if (needsAck) add(buttons, [button("Ack", judge("ack"), { class: "primary" }), button("Give back", judge("nak")), button("Terminate", judge("term")), button("Still working", judge("progress"))]);
  place.prepend(h("div", { role: "listitem", class: "delivery" },
    h("p", {}, button(`${found.seq}`, () => openMessage({ stream: self.at.name, seq: found.seq }), { class: "open" }), " ", h("span", { class: "mono" }, oneLine(found.subject)), state),
    h("pre", {}, oneLine(found.text)), buttons));
  while (place.children.length > 20) place.lastChild.remove();
  self.look();
}

async function acknowledge(self, verb, token) {
  const { failed } = await ask(`${self.url}:${verb}`, { method: "POST", json: { tokens: [token], sync: true } });
  if (failed.length) throw new Error(failed[0].problem.detail ?? failed[0].problem.title);
}

async function pauseOrResume(self) {
  if (self.info.paused) {
    try {
      await send(`${self.url}:resume`, { method: "POST" });
      say(`${self.name} delivers again.`);
    } catch (error) {
      say(error.message);
    }
    self.look();
    return;
  }
  const length = input({ value: "10m", required: true });
  await dialog(`Pause the consumer ${self.name}?`, (close) => form([
    h("p", {}, `${self.name} delivers nothing for this time. What it has delivered can still be acknowledged.`),
    field("For", length, "such as 90s, 10m or 2h"),
  ], `Pause ${self.name}`, async () => {
    await send(`${self.url}:pause`, { method: "POST", json: { duration: time(length, "For") } });
    self.look();
    close(true);
  }, { cancel: () => close() }), { class: "small" });
}

function reset(self) {
  const seq = input({ inputmode: "numeric", placeholder: "behind what was acknowledged" });
  return dialog(`Reset the consumer ${self.name}?`, (close) => form([
    h("p", {}, `${self.name} forgets what it delivered and begins again: its readers get messages that they had before.`),
    field("At sequence", seq),
  ], `Reset ${self.name}`, async () => {
    const from = number(seq, "At sequence", 1);
    await send(`${self.url}:reset`, { method: "POST", json: from ? { seq: from } : {} });
    say(`${self.name} begins again.`);
    self.look();
    close(true);
  }, { cancel: () => close(), danger: true }), { class: "small" });
}

async function remove(self) {
  const text = `The consumer ${self.name} of ${self.at.name} goes, and with it what it remembers of deliveries and acknowledgements. The messages stay. This cannot be undone.`;
  const act = () => send(self.url, { method: "DELETE" });
  if (!(await confirm(`Delete the consumer ${self.name}?`, text, `Delete ${self.name}`, act))) return;
  say(`The consumer ${self.name} was deleted.`);
  location.hash = `#/streams/${encodeURIComponent(self.at.name)}/consumers`;
}

/** Where its dead letters are, and a way back for them. */
function letters(self) {
  const to = self.info.config.metadata?.["jetgate.dead_letter"];
  if (!to) return null;
  const back = async () => {
    let done;
    const act = async () => {
      const json = { stream: self.at.name, consumer: self.name };
      done = await ask(`${path("streams", to)}:redrive`, { method: "POST", json });
    };
    const text = `The dead letters of ${self.name} in ${to} are published again on the subjects they came from, and deleted in ${to}.`;
    if (await confirm(`Send the dead letters of ${self.name} back?`, text, "Send them back", act)) say(`${plural(done.redriven, "message")} sent back, ${count(done.failed.length)} failed.`);
  };
  return h("p", {}, "Dead letters go to ", h("a", { href: `#/streams/${encodeURIComponent(to)}` }, to), ". ", button("Send them back…", back, { class: "quiet" }));
}
