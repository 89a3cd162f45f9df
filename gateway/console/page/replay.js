// A part of a stream again, at the pace at which it was stored or at once, into the view.

import { add, button, h } from "./dom.js";
import { field, form, input, number, select, wrong } from "./forms.js";
import { clock, plural, rfc3339, span } from "./format.js";
import { openMessage } from "./message.js";
import { Reader } from "./reading.js";
import { MOST, Rows } from "./rows.js";
import { trouble } from "./trouble.js";

const PAGE = 200;
const SMALL = 20; // where messages are read one by one
const PACES = [["0", "at once"], ["1", "as it was stored"], ["10", "10 times as fast"], ["100", "100 times as fast"]];
const SOON = 20; // milliseconds that no one waits for

export async function replay(box, at) {
  const player = new Player(box, at);
  if (at.query.get("seq") || at.query.get("time")) player.start().catch(() => undefined);
}

class Player {
  #control = null;
  #next = 1;
  #shown = 0;
  #skip = () => undefined;

  constructor(box, at) {
    this.at = at;
    const { query } = at;
    this.rows = new Rows(`Replay of ${at.name}`, (each) => openMessage({ stream: at.name, seq: each.seq }));
    this.subject = input({ class: "mono", type: "search", placeholder: "all subjects", "data-filter": true, value: query.get("subject") ?? "" });
    this.seq = input({ inputmode: "numeric", placeholder: "the first", value: query.get("seq") ?? "" });
    this.time = input({ type: "datetime-local", step: "1", value: query.get("time") ?? "" });
    this.pace = select(PACES, query.get("pace") ?? "1");
    this.state = h("p", { class: "dim", role: "status" });
    this.pause = button("Pause", () => this.#toggle(), { hidden: true });
    this.skip = button("Skip the wait", () => this.#skip(), { hidden: true });
    this.errors = h("div", {});
    add(box, [
      h("div", { class: "filters" }, form([
        field("Subject", this.subject), field("From sequence", this.seq), field("or from time", this.time), field("Pace", this.pace),
      ], "Replay", () => this.start())),
      h("div", { class: "bar" }, this.pause, this.skip), this.errors, this.state, this.rows.element,
    ]);
    at.life.signal.addEventListener("abort", () => this.#control?.abort());
    this.state.textContent = "Shows messages here again, oldest first. Nothing is published and no consumer is moved.";
  }

  /** Begin where the form says. Throws what is wrong with it. */
  async start() {
    this.#control?.abort();
    this.#control = null;
    const from = number(this.seq, "From sequence", 1);
    if (from && this.time.value) throw wrong("From a sequence or from a time: one of them.");
    this.#address();
    this.reader = new Reader(this.at.name, this.subject.value.trim(), this.at.info.config.allow_direct);
    const at = this.time.value ? await this.reader.at(rfc3339(this.time.value)) : (from ?? 1);
    if (at === undefined) throw wrong("Nothing was stored since then.");
    this.#next = at;
    this.#shown = 0;
    this.rows.clear();
    this.#play();
  }

  #toggle() {
    if (!this.#control) {
      this.#play();
      return;
    }
    this.#control.abort();
    this.#rest("Paused", "Resume");
  }

  async #play() {
    const control = (this.#control = new AbortController());
    this.pause.hidden = false;
    this.pause.textContent = "Pause";
    this.state.textContent = "Reading…";
    this.errors.replaceChildren();
    try {
      const full = await this.#run(Number(this.pace.value), control.signal);
      if (control.signal.aborted) return;
      if (full) this.#rest(`The view is full`, `Next ${MOST}`);
      else this.#over();
    } catch (error) {
      if (control.signal.aborted) return;
      this.errors.replaceChildren(trouble(error, "The replay has stopped"));
      this.#rest("Stopped", "Go on");
    }
  }

  #rest(why, label) {
    this.#control = null;
    this.skip.hidden = true;
    this.pause.hidden = false;
    this.pause.textContent = label;
    this.state.textContent = `${why} after ${plural(this.#shown, "message")}; sequence ${this.#next} would be next.`;
  }

  #over() {
    this.#control = null;
    this.pause.hidden = this.skip.hidden = true;
    this.state.textContent = `This was the end: ${plural(this.#shown, "message")}. `;
    this.state.append(h("a", { href: `#/streams/${encodeURIComponent(this.at.name)}/live` }, "Follow what comes from now on"));
  }

  /** Show page after page; at once until the view is full, which is answered with true. */
  async #run(pace, signal) {
    const began = { at: performance.now(), time: undefined };
    let filled = 0;
    for (;;) {
      const page = this.reader.direct ? PAGE : SMALL;
      const rows = await this.reader.forward(this.#next, pace ? page : Math.min(page, MOST - filled), Infinity, signal);
      if (!rows.length) return false;
      if (!pace) {
        this.#put(rows);
        filled += rows.length;
        if (filled >= MOST) return true;
        continue;
      }
      for (const row of rows) {
        await this.#until(row, pace, began, signal);
        if (signal.aborted) return false;
        this.#put([row]);
      }
    }
  }

  /** Wait as long as the message came after the first one; a wait may be skipped. */
  async #until(row, pace, began, signal) {
    const time = Date.parse(row.time);
    began.time ??= time;
    const wait = began.at + (time - began.time) / pace - performance.now();
    if (wait < SOON) return;
    this.state.textContent = `Message ${row.seq}, of ${clock(row.time)}, is next in ${span(wait / 1000)}.`;
    this.skip.hidden = wait < 1000;
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.min(wait, 2 ** 31 - 1));
      this.#skip = () => {
        clearTimeout(timer);
        began.at -= wait;
        resolve();
      };
      signal.addEventListener("abort", () => resolve(clearTimeout(timer)), { once: true });
    });
    this.skip.hidden = true;
  }

  #put(rows) {
    this.rows.above(rows);
    this.#shown += rows.length;
    this.#next = rows.at(-1).seq + 1;
    this.state.textContent = `${plural(this.#shown, "message")} so far, to ${clock(rows.at(-1).time)}.`;
  }

  #address() {
    const said = { subject: this.subject.value.trim(), seq: this.seq.value.trim(), time: this.time.value, pace: this.pace.value === "1" ? "" : this.pace.value };
    const query = new URLSearchParams(Object.entries(said).filter(([, value]) => value)).toString();
    history.replaceState(null, "", `#/streams/${encodeURIComponent(this.at.name)}/replay${query && `?${query}`}`);
  }
}
