// The messages of a stream, the newest first, a page at a time.

import { add, button, fill, h, lines } from "./dom.js";
import { field, form, input, number } from "./forms.js";
import { plural, rfc3339 } from "./format.js";
import { openMessage } from "./message.js";
import { Reader, pageSize } from "./reading.js";
import { Rows } from "./rows.js";
import { troublePlace } from "./trouble.js";

const PAGE = 50;
const HELD = ["subject", "before", "since", "until"]; // members of the address

export async function messages(box, at) {
  const wanted = Object.fromEntries(HELD.map((key) => [key, at.query.get(key) ?? ""]));
  const view = new Messages(box, at, wanted);
  await view.load();
  const seq = Number(at.query.get("seq"));
  if (seq > 0) view.open({ seq });
}

class Messages {
  #seen = 0;
  #reading; // what stops the reading of a page that is under way

  constructor(box, at, wanted) {
    this.at = at;
    this.wanted = wanted;
    this.rows = new Rows(`Messages of ${at.name}`, (row) => this.open(row));
    this.note = h("div", {});
    this.fresh = button("", () => this.#newest(), { class: "fresh", hidden: true });
    this.older = button("Older →", () => this.#older(), { "data-key": "]" });
    this.newer = button("← Newer", () => this.#newer(), { "data-key": "[" });
    this.newest = button("Newest", () => this.#newest());
    this.where = h("span", { class: "dim", role: "status" });
    [this.place, this.failed] = troublePlace("The messages cannot be read");
    add(box, [this.#filters(), this.place, this.note, this.fresh, this.rows.element,
      h("div", { class: "pager" }, this.newest, this.newer, this.older, this.where)]);
    at.life.on(at.state, "seen", () => this.#tellFresh());
    at.life.on(at.state, "changed", () => this.load());
  }

  #filters() {
    const { subject, since, until, before } = this.wanted;
    const controls = {
      subject: input({ value: subject, class: "mono", "data-filter": true, placeholder: "orders.*", type: "search" }),
      since: input({ value: since, type: "datetime-local", step: "1" }),
      until: input({ value: until, type: "datetime-local", step: "1" }),
      before: input({ value: before, inputmode: "numeric", placeholder: "the newest" }),
    };
    this.sequence = controls.before;
    const apply = async () => {
      number(controls.before, "Up to sequence", 1);
      for (const key of HELD) this.wanted[key] = controls[key].value.trim();
      await this.load();
    };
    return h("div", { class: "filters" }, form([
      field("Subject", controls.subject),
      field("Up to sequence", controls.before),
      field("Since", controls.since),
      field("Until", controls.until),
    ], "Show", apply));
  }

  /** Read and show the page that the address says, in the place of one that is being read. */
  async load(find = (reader, low, high, size, signal) => reader.backward(high, size, low, signal)) {
    const { name, info: { config, state }, life } = this.at;
    this.#address();
    this.#reading?.abort();
    const mine = (this.#reading = new AbortController());
    const signal = AbortSignal.any([mine.signal, life.signal]);
    const reader = (this.reader = new Reader(name, this.wanted.subject, config.allow_direct));
    this.rows.table.setAttribute("aria-busy", "true");
    try {
      const [low, high] = await this.#bounds(reader, state, signal);
      const size = pageSize(state, PAGE);
      const before = Number(this.wanted.before) || Infinity;
      const rows = await find(reader, low, Math.min(before, high), size, signal);
      if (signal.aborted) return;
      this.#seen = state.last_seq;
      this.rows.replace(rows);
      this.#tell(rows, low, high, size);
      this.failed(undefined);
    } catch (error) {
      if (!signal.aborted) this.failed(error);
    } finally {
      if (mine === this.#reading) {
        this.#reading = undefined;
        this.rows.table.removeAttribute("aria-busy");
      }
    }
  }

  async #bounds(reader, state, signal) {
    const { since, until } = this.wanted;
    const low = since ? await reader.at(rfc3339(since), signal) : Math.max(state.first_seq, 1);
    const end = until ? await reader.at(rfc3339(until), signal) : undefined;
    return [low ?? Infinity, end === undefined ? state.last_seq : end - 1];
  }

  #tell(rows, low, high, size) {
    const [newest, oldest] = [rows[0]?.seq, rows.at(-1)?.seq];
    this.older.disabled = !rows.length || oldest <= low || rows.length < size;
    this.newer.disabled = !rows.length || newest >= high;
    this.newest.disabled = this.newer.disabled && !this.wanted.before;
    this.where.textContent = rows.length ? `${plural(rows.length, "message")}, ${newest} to ${oldest}` : "";
    this.fresh.hidden = true;
    this.rows.element.hidden = !rows.length;
    fill(this.note, !rows.length && this.#nothing(), rows.length > 0 && !this.reader.direct && slow(this.at));
  }

  #nothing() {
    const { info: { config, state }, name } = this.at;
    const said = HELD.some((key) => this.wanted[key]);
    if (state.messages) return h("div", { class: "empty" }, h("p", {}, said ? "No message matches. Clear a field to see more." : "Nothing is here any more."));
    const subject = (config.subjects?.[0] ?? "a").replace(/[*>]/g, "new");
    return h("div", { class: "empty" },
      h("p", {}, h("b", {}, `${name} holds no message.`), " Publish one, with the button above or in a shell:"),
      lines(`curl -d 'hello' ${location.origin}/v1/subjects/${encodeURIComponent(subject)}`));
  }

  #tellFresh() {
    if (this.#reading) return; // nothing is shown yet to compare with; the next look comes
    const more = this.at.info.state.last_seq - this.#seen;
    if (more <= 0 || this.wanted.until || this.wanted.before) return;
    if (!this.rows.length && !HELD.some((key) => this.wanted[key])) {
      this.load();
      return;
    }
    this.fresh.hidden = false;
    this.fresh.textContent = `${plural(more, "message")} since then: show`;
  }

  #older() {
    this.#go(this.rows.oldest.seq - 1);
    return this.load();
  }

  #newer() {
    const from = this.rows.newest.seq + 1;
    return this.load(async (reader, _low, _high, size, signal) => {
      const rows = (await reader.forward(from, size, Infinity, signal)).reverse();
      this.#go(rows[0]?.seq ?? "");
      this.#address();
      return rows.length ? rows : reader.backward(this.at.info.state.last_seq, size, 1, signal);
    });
  }

  #newest() {
    this.#go("");
    return this.load();
  }

  #go(before) {
    this.wanted.before = this.sequence.value = String(before);
  }

  #address(seq) {
    const said = HELD.filter((key) => this.wanted[key]).map((key) => [key, this.wanted[key]]);
    const query = new URLSearchParams(seq ? [...said, ["seq", seq]] : said).toString();
    const name = encodeURIComponent(this.at.name);
    history.replaceState(null, "", `#/streams/${name}/messages${query && `?${query}`}`);
  }

  open(row) {
    openMessage({
      stream: this.at.name, seq: row.seq, filter: this.wanted.subject,
      moved: (seq) => this.#address(seq), changed: () => this.load(),
    }).then(() => !this.at.life.signal.aborted && this.#address());
  }
}

function slow({ name, info: { config } }) {
  return h("p", { class: "dim" }, config.allow_direct ? "Messages are read one by one: this user may not use Direct Get." : `Messages are read one by one, for ${name} does not allow Direct Get; Edit… can allow it.`);
}
