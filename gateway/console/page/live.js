// A stream as it grows. The view keeps some hundred rows, however many come.

import { add, button, h } from "./dom.js";
import { field, form, input, select } from "./forms.js";
import { clock, count, plural, rate } from "./format.js";
import { Refused, Unreachable, link, linesOf, path, send } from "./http.js";
import { openMessage } from "./message.js";
import { row } from "./payload.js";
import { Reader } from "./reading.js";
import { MOST, Rows } from "./rows.js";
import { trouble } from "./trouble.js";

const BEGINNINGS = [["new", "from now on"], ["last", "from the last message"], ["last_per_subject", "from the last of each subject"], ["all", "from the first message"]];
const POLL = 1000;
const RETRY = 1000;
const QUEUE = ["consumer-pull-requires-ack", "consumer-wq-requires-explicit-ack", "consumer-wq-multiple-unfiltered", "consumer-wq-consumer-not-unique"];

export async function live(box, at) {
  const view = new Live(box, at);
  view.start();
}

class Live {
  #control = null;
  #position = "";
  #waiting = [];
  #skipped = 0;
  #total = 0;
  #grown = { total: 0, at: 0 };

  constructor(box, at) {
    this.at = at;
    this.rows = new Rows(`Live messages of ${at.name}`, (each) => openMessage({ stream: at.name, seq: each.seq }));
    this.filter = input({ class: "mono", type: "search", placeholder: "all subjects", "data-filter": true, value: at.query.get("subject") ?? "" });
    this.from = select(BEGINNINGS, at.query.get("from") ?? "new");
    this.pause = button("Pause", () => this.#toggle());
    this.clear = button("Clear", () => this.rows.clear());
    this.state = h("p", { class: "dim", role: "status" });
    this.pace = h("span", { class: "dim" });
    this.errors = h("div", {});
    const begin = async () => this.start();
    add(box, [
      h("div", { class: "filters" }, form([field("Subject", this.filter), field("Begin", this.from)], "Follow", begin)),
      h("div", { class: "bar" }, this.pause, this.clear, this.pace), this.errors, this.state, this.rows.element,
    ]);
    at.life.signal.addEventListener("abort", () => this.#control?.abort());
    this.#draw();
  }

  /** Follow from the beginning that the form says. */
  start() {
    this.#position = "";
    this.#total = this.#skipped = 0;
    this.#waiting = [];
    this.rows.clear();
    const query = new URLSearchParams({ ...(this.filter.value && { subject: this.filter.value }), ...(this.from.value !== "new" && { from: this.from.value }) }).toString();
    history.replaceState(null, "", `#/streams/${encodeURIComponent(this.at.name)}/live${query && `?${query}`}`);
    this.#follow();
  }

  #toggle() {
    if (this.#control) {
      this.#control.abort();
      this.#control = null;
      this.pause.textContent = "Resume";
      this.state.textContent = "Paused. Resume goes on behind the last message that came, and leaves none out.";
      return;
    }
    this.#follow();
  }

  async #follow() {
    this.#control?.abort();
    const control = (this.#control = new AbortController());
    this.pause.textContent = "Pause";
    this.errors.replaceChildren();
    while (!control.signal.aborted) {
      try {
        await this.#feed(control.signal);
      } catch (error) {
        if (control.signal.aborted) return;
        if (error instanceof Refused && QUEUE.includes(error.kind)) return this.#poll(control.signal);
        if (error instanceof Refused && error.status < 500 && error.status !== 429) return this.#stop(error);
      }
      this.state.textContent = "The feed was cut off. It goes on by itself behind the last message that came.";
      await waited(RETRY, control.signal);
    }
  }

  #stop(error) {
    this.#control = null;
    this.pause.textContent = "Follow again";
    this.state.textContent = "";
    this.errors.replaceChildren(trouble(error, "This cannot be followed"));
  }

  /** One connection, until it ends. */
  async #feed(signal) {
    const query = { filter: this.filter.value.trim(), from: this.#position ? "" : this.from.value, last_event_id: this.#position };
    const response = await send(`${path("streams", this.at.name)}/tail`, { query, headers: { Accept: "text/event-stream" }, signal });
    let event = {};
    for await (const lines of linesOf(response, signal)) {
      for (const line of lines) {
        const [, name, value] = /^(\w*): ?(.*)$/.exec(line) ?? [];
        if (name) event[name] = value;
        else if (!line && event.data !== undefined) event = this.#took(event);
      }
    }
    throw new Unreachable("the feed ended");
  }

  #took({ event, id, data }) {
    this.#position = id ?? this.#position;
    if (event === "end") {
      const said = JSON.parse(data);
      const problem = said.problem ?? said;
      throw new Refused(problem.status ?? 500, problem, 0);
    }
    if (event === "position" || event === "gap") this.#place(event, JSON.parse(data));
    else this.#message(data);
    return {};
  }

  #place(event, { recovered, first_seq, last_seq, seq }) {
    const now = clock(new Date().toISOString()).slice(11, 19);
    if (event === "position") this.state.textContent = `${this.#total ? "Connected again" : "Following"} since ${now}, behind sequence ${count(seq)}.`;
    if (recovered !== false) return;
    this.#show();
    this.rows.remark(`Messages may be missing here: what was behind them is gone. The stream has ${first_seq} to ${last_seq}.`);
  }

  #message(line) {
    this.#total++;
    this.#waiting.push(line);
    if (this.#waiting.length > 2 * MOST) {
      this.#skipped += this.#waiting.length - MOST;
      this.#waiting = this.#waiting.slice(-MOST);
    }
  }

  /** Streams whose consumers must acknowledge are looked at every second instead. */
  async #poll(signal) {
    const reader = new Reader(this.at.name, this.filter.value.trim(), this.at.info.config.allow_direct);
    let next = this.from.value === "new" ? this.at.info.state.last_seq + 1 : 1;
    this.state.textContent = "Every second the stream is looked at: a work queue has no other readers than its consumers. What they take in between is not seen.";
    while (!signal.aborted) {
      try {
        const rows = await reader.forward(next, MOST, Infinity, signal);
        this.#total += rows.length;
        if (rows.length) next = rows.at(-1).seq + 1;
        this.rows.above(rows);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused && error.status < 500) return this.#stop(error);
      }
      await waited(POLL, signal);
    }
  }

  /** Show what has come, a few times a second at most. */
  #draw() {
    const turn = () => {
      this.#show();
      const now = performance.now();
      if (now - this.#grown.at > 1000) {
        const speed = (this.#total - this.#grown.total) / ((now - this.#grown.at) / 1000);
        const many = this.#skipped ? `, ${count(this.#skipped)} too quick to show` : "";
        this.pace.textContent = this.#total ? `${plural(this.#total, "message")}${many}${speed > 0 && this.#grown.at ? `, ${rate(speed)}` : ""}; the newest ${MOST} are kept` : `Waiting for messages; the newest ${MOST} are kept`;
        this.#grown = { total: this.#total, at: now };
      }
    };
    const timer = setInterval(turn, 150);
    this.at.life.signal.addEventListener("abort", () => clearInterval(timer));
    turn();
  }

  #show() {
    const lines = this.#waiting;
    if (!lines.length) return;
    this.#waiting = [];
    this.#skipped += Math.max(0, lines.length - MOST);
    this.rows.above(lines.slice(-MOST).map(row));
  }
}

/** Wait, and while the connection is lost until it is back. */
async function waited(ms, signal) {
  await new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => resolve(clearTimeout(timer)), { once: true });
  });
  while (link.lost && !signal.aborted) {
    await new Promise((resolve) => {
      link.addEventListener("back", resolve, { once: true });
      signal.addEventListener("abort", resolve, { once: true });
    });
  }
}
