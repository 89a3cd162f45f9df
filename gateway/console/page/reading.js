// Messages of a stream by sequence, forwards and backwards, on streams of every kind.
//
// The server reads forwards. Backwards is: read a window of as many sequences as messages are
// wanted, which holds no more than these, then the one before it, twice as wide while they are sparse.

import { Refused, ask, askText, path } from "./http.js";
import { row } from "./payload.js";

const BATCH = 500;
const BYTES = 4 << 20;
const AT_ONCE = 6; // browsers have six connections to a server
const ONE_BY_ONE = ["direct-not-allowed", "not-permitted"];
const NONE = ["no-message-found", "stream-not-found"];

export class Reader {
  /** `direct`: whether messages come many at once; false: the stream does not allow it. */
  constructor(stream, filter = "", direct = true) {
    this.stream = stream;
    this.filter = filter;
    this.direct = direct;
  }

  /** Up to `count` messages from sequence `low` to `high`, in order. */
  async forward(low, count, high = Infinity, signal = undefined) {
    if (low > high) return [];
    if (this.direct) {
      try {
        return await this.#many(low, count, high, signal);
      } catch (error) {
        if (!(error instanceof Refused) || !ONE_BY_ONE.includes(error.kind)) throw error;
        this.direct = false;
      }
    }
    return this.#single(low, count, high, signal);
  }

  /** Up to `count` messages up to sequence `high`, the newest first, none before `low`. */
  async backward(high, count, low = 1, signal = undefined) {
    const found = [];
    let width = count;
    let top = this.filter ? Math.min(high, (await this.#last(signal)) ?? 0) : high;
    while (top >= low && found.length < count) {
      const bottom = Math.max(low, top - width + 1);
      const rows = await this.#window(bottom, top, width, signal);
      found.push(...rows.reverse().slice(0, count - found.length));
      top = bottom - 1;
      width *= 2;
    }
    return found;
  }

  /** The sequence of the first message at a time or behind it; undefined when there is none. */
  async at(time, signal = undefined) {
    const query = { start_time: time };
    return (await this.#one(query, signal))?.seq;
  }

  async #window(bottom, top, width, signal) {
    if (!this.direct && !this.filter) return this.#parts(bottom, top, signal);
    let rows = [];
    for (let low = bottom; low <= top; ) {
      const some = await this.forward(low, BATCH, top, signal);
      rows = [...rows, ...some].slice(-BATCH);
      if (some.length < BATCH) break;
      low = some.at(-1).seq + 1;
    }
    return rows;
  }

  async #many(low, count, high, signal) {
    const found = [];
    let at = low;
    while (found.length < count) {
      const wanted = Math.min(BATCH, count - found.length, high - at + 1);
      const json = { seq: at, batch: wanted, max_bytes: BYTES, ...(this.filter && { next_by: this.filter }) };
      const url = `${path("streams", this.stream, "messages")}:read`;
      const text = await askText(url, { method: "POST", json, headers: { Accept: "application/x-ndjson" }, signal });
      const lines = text.trimEnd().split("\n");
      const { end } = JSON.parse(lines.pop());
      const rows = lines.map(row);
      found.push(...rows.filter((each) => each.seq <= high));
      if (!rows.length || !end.pending || rows.at(-1).seq >= high) break;
      at = rows.at(-1).seq + 1;
    }
    return found;
  }

  async #single(low, count, high, signal) {
    const found = [];
    for (let at = low; at <= high && found.length < count; ) {
      const next = await this.#one({ next_by: this.filter || ">", seq: at }, signal);
      if (!next || next.seq > high) break;
      found.push(next);
      at = next.seq + 1;
    }
    return found;
  }

  /** A range one by one, several at a time. */
  async #parts(bottom, top, signal) {
    const size = Math.ceil((top - bottom + 1) / AT_ONCE);
    const parts = [];
    for (let at = bottom; at <= top; at += size) {
      parts.push(this.#single(at, size, Math.min(top, at + size - 1), signal));
    }
    return (await Promise.all(parts)).flat();
  }

  async #last(signal) {
    return (await this.#one({ last_by: this.filter }, signal))?.seq;
  }

  async #one(query, signal) {
    try {
      return row(await askText(path("streams", this.stream, "messages"), { query, signal }));
    } catch (error) {
      if (error instanceof Refused && NONE.includes(error.kind)) return undefined;
      throw error;
    }
  }
}

/** How many messages of a stream a page holds: fewer where they are large. */
export function pageSize(state, most) {
  const average = state.messages ? state.bytes / state.messages : 0;
  return average > 80_000 ? Math.max(5, Math.floor((4 << 20) / average)) : most;
}

/** The information of a stream. */
export const streamInfo = (stream, signal) => ask(path("streams", stream), { signal });
