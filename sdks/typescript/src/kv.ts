import { NotFound } from "./errors.js";
import { follow } from "./events.js";
import { encoded, members, type Payload, type Shown } from "./payloads.js";
import { uniqueId } from "./publishing.js";
import { NDJSON, jsonOf, pathOf, revisionOf, textOf, type Answer, type Before, type Transport } from "./transport.js";

interface EntryMembers extends Shown {
  bucket: string;
  key: string;
  revision: number;
  created: string;
  operation: Operation;
}

/** What an entry is: a value, or the marker of its end. */
export type Operation = "PUT" | "DEL" | "PURGE";

const decoder = new TextDecoder();

/** A value of a key, or the marker of its end. `created` in RFC 3339. */
export class Entry {
  constructor(
    readonly bucket: string,
    readonly key: string,
    readonly revision: number,
    readonly created: string,
    readonly operation: Operation,
    readonly value: Uint8Array,
  ) {}

  /** The value as UTF-8. */
  text(): string {
    return decoder.decode(this.value);
  }

  /** The value as JSON. */
  json<T = unknown>(): T {
    return JSON.parse(this.text()) as T;
  }
}

/**
 * What a watch tells.
 *
 * `event` is `put`, `delete` or `purge` of the `entry`; `ready`: what was there has been told,
 * changes follow; `reset`: what happened meanwhile is not known, so forget everything: all there is
 * follows.
 */
export type Change =
  | { event: "put" | "delete" | "purge"; position: string; entry: Entry }
  | { event: "ready" | "reset"; position: string; entry?: undefined };

/** What to watch. */
export interface WatchOptions {
  history?: boolean;
  updatesOnly?: boolean;
  ignoreDeletes?: boolean;
  metaOnly?: boolean;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

/** A bucket. Writes have an id and are repeated until there is an outcome. */
export class Bucket {
  constructor(
    private readonly transport: Transport,
    readonly name: string,
  ) {}

  /** The value of a key, the last or that of a revision; undefined where it has none. */
  async get(key: string, options: { revision?: number } = {}): Promise<Entry | undefined> {
    const query: Record<string, string> = {};
    if (options.revision !== undefined) query["revision"] = String(options.revision);
    const path = pathOf(["kv", this.name, key]);
    let answer: Answer;
    try {
      answer = await this.transport.send("GET", path, { query, headers: { Accept: "*/*" } });
    } catch (error) {
      if (error instanceof NotFound && error.kind === "key-not-found") return undefined;
      throw error;
    }
    const revision = revisionOf(answer.headers, path);
    const created = answer.headers.get("Js-Created") ?? "";
    return new Entry(this.name, key, revision, created, "PUT", answer.body);
  }

  /** Store a value; its revision. */
  put(key: string, value: Payload): Promise<number> {
    return this.write(key, value, {});
  }

  /** Store a value if the key has none, for `ttl` (`10s`). Throws PreconditionFailed. */
  create(key: string, value: Payload, options: { ttl?: string } = {}): Promise<number> {
    const lifetime: Record<string, string> = options.ttl ? { "Nats-TTL": options.ttl } : {};
    return this.write(key, value, { "If-None-Match": "*", ...lifetime });
  }

  /** Store a value if the last one has this revision. Throws PreconditionFailed. */
  update(key: string, value: Payload, revision: number): Promise<number> {
    return this.write(key, value, { "If-Match": `"${revision}"` });
  }

  private async write(key: string, value: Payload, headers: Record<string, string>): Promise<number> {
    const [body, type] = encoded(value);
    const sent = { ...headers, ...(type && { "Content-Type": type }) };
    const answer = await this.changed("PUT", pathOf(["kv", this.name, key]), sent, body);
    return jsonOf<{ revision: number }>(answer).revision;
  }

  private changed(
    method: string,
    path: string,
    headers: Record<string, string>,
    body?: Uint8Array<ArrayBuffer>,
  ): Promise<Answer> {
    const id = uniqueId();
    const asked = { headers: { "Idempotency-Key": id, ...headers }, ...(body && { body }) };
    const before: Before = () => this.transport.refuseLarge(body?.length ?? 0);
    return this.transport.repeat(id, method, path, asked, undefined, before);
  }

  /** Put a marker behind the values of a key, if the last one has this revision. */
  async delete(key: string, options: { revision?: number } = {}): Promise<void> {
    await this.changed("DELETE", pathOf(["kv", this.name, key]), condition(options.revision));
  }

  /** Remove the values of a key but for a marker, which is kept for `ttl`. */
  async purge(key: string, options: { revision?: number; ttl?: string } = {}): Promise<void> {
    const headers = condition(options.revision);
    if (options.ttl) headers["Nats-TTL"] = options.ttl;
    await this.changed("POST", pathOf(["kv", this.name, key], "purge"), headers);
  }

  /** What is kept of a key, markers too, oldest first. Throws NotFound. */
  async history(key: string): Promise<Entry[]> {
    const path = pathOf(["kv", this.name, key], "history");
    const answer = await this.transport.send("GET", path, { headers: { Accept: NDJSON } });
    const lines = textOf(answer).split("\n");
    return lines.filter(Boolean).map(entryOf);
  }

  /** The keys that have a value, of those that one of the filters selects. */
  async keys(...filters: string[]): Promise<string[]> {
    const path = pathOf(["kv", this.name], "keys");
    const answer = await this.transport.send("GET", path, { query: selected(filters) });
    return jsonOf<{ keys: { key: string }[] }>(answer).keys.map((each) => each.key);
  }

  /** What is there, then changes as they happen, across lost connections and restarts. */
  async *watch(
    filters: string[] = [],
    options: WatchOptions = {},
  ): AsyncGenerator<Change, void, undefined> {
    const flags = {
      history: options.history,
      updates_only: options.updatesOnly,
      ignore_deletes: options.ignoreDeletes,
      meta_only: options.metaOnly,
    };
    const query = selected(filters);
    for (const [name, on] of Object.entries(flags)) if (on) query[name] = "true";
    const path = pathOf(["kv", this.name], "watch");
    let isReady = false;
    for await (const event of follow(this.transport, path, query, true, options.signal)) {
      if (event === undefined) continue;
      const position = event.id;
      if (event.event === "open") {
        if ((JSON.parse(event.data) as { recovered?: boolean }).recovered === false) {
          isReady = false;
          yield { event: "reset", position };
        }
      } else if (event.event === "ready") {
        if (!isReady) yield { event: "ready", position };
        isReady = true;
      } else {
        const kind = event.event as "put" | "delete" | "purge";
        yield { event: kind, position, entry: entryOf(event.data) };
      }
    }
  }
}

function condition(revision: number | undefined): Record<string, string> {
  return revision === undefined ? {} : { "If-Match": `"${revision}"` };
}

function selected(filters: string[]): Record<string, string> {
  return filters.length ? { keys: filters.join() } : {};
}

function entryOf(text: string): Entry {
  const [shown, value] = members<EntryMembers>(text);
  const { bucket, key, revision, created, operation } = shown;
  return new Entry(bucket, key, revision, created, operation, value);
}
