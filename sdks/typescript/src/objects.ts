import {
  BadRequest,
  Conflict,
  ConnectionLost,
  JetgateError,
  NotFound,
  Unauthorized,
  isPassing,
} from "./errors.js";
import { follow } from "./events.js";
import { toBase64 } from "./payloads.js";
import { Backoff } from "./retrying.js";
import { Sha256 } from "./sha256.js";
import { jsonOf, pathOf, revisionOf, type Asked, type Stream, type Transport } from "./transport.js";

/**
 * Bytes, text in UTF-8, a file of the page or another Blob, or pieces as they come: a ReadableStream
 * goes where `fetch` can send one, which is Node, and some browsers over TLS.
 */
export type Content = Uint8Array | string | Blob | ReadableStream<Uint8Array>;

const SILENCE = 30;
const PIECE = 1 << 20;
/** Bytes a second that the slowest way takes. */
const SLOWEST = 50_000;
const DAY = 86_400;

/**
 * What is known of an object.
 *
 * `revision` is that of this information; `digest`: `SHA-256=` and base64url; `mtime` in RFC 3339;
 * `link`: where it leads; `deleted`: only its name is left.
 */
export interface ObjectInfo {
  bucket: string;
  name: string;
  revision: number;
  size: number;
  chunks: number;
  mtime: string;
  digest: string;
  description: string;
  headers: Record<string, string[]>;
  metadata: Record<string, string>;
  link?: { bucket: string; name?: string };
  deleted: boolean;
}

/**
 * What a watch tells.
 *
 * `event` is `put` or `delete` of the object of `info`; `ready`: what was there has been told, changes
 * follow; `reset`: what happened meanwhile is not known, so forget everything: all there is follows.
 */
export type ObjectChange =
  | { event: "put" | "delete"; position: string; info: ObjectInfo }
  | { event: "ready" | "reset"; position: string; info?: undefined };

/** What may be said of an object that is stored. */
export interface PutObjectOptions {
  mediaType?: string;
  description?: string;
  headers?: Record<string, string>;
  /** Bytes of a chunk. */
  chunkSize?: number;
  /** Only if this is the last revision, 0: if there is none; then it is sent once. */
  revision?: number;
}

/** A part of an object: from `begin` to before `end`. */
export interface Part {
  begin?: number;
  end?: number;
  /** Read a whole object although no digest of it can be seen. */
  unchecked?: boolean;
  signal?: AbortSignal;
}

/** What came or was stored is not what was sent. */
export class DigestMismatch extends JetgateError {
  override name = "DigestMismatch";
}

/**
 * A whole object cannot be checked, because no SHA-256 of it can be seen: whoever stored it gave
 * none, or what is between hides `Repr-Digest`.
 */
export class DigestMissing extends JetgateError {
  override name = "DigestMissing";
}

/** An object that is read: its pieces are there once. */
export class Download implements AsyncIterable<Uint8Array> {
  constructor(
    /** Of what is read, in bytes. */
    readonly size: number,
    /** Of the object. */
    readonly revision: number,
    /** Of the answer, such as `content-type` and those of the object, `nats-h-<name>`. */
    readonly headers: Headers,
    /** Whether its SHA-256 is compared at the end: of a whole object whose digest is known. */
    readonly isChecked: boolean,
    private readonly pieces: AsyncGenerator<Uint8Array, void, undefined>,
  ) {}

  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    return this.pieces;
  }

  /** All of it. */
  async bytes(): Promise<Uint8Array> {
    const found = new Uint8Array(this.size);
    let at = 0;
    for await (const piece of this) {
      found.set(piece, at);
      at += piece.length;
    }
    return found;
  }

  /** All of it, as a stream. */
  stream(): ReadableStream<Uint8Array> {
    const { pieces } = this;
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: async () => void (await pieces.return()),
    });
  }
}

/** A store of objects: the same that official NATS clients see. */
export class ObjectStore {
  constructor(
    private readonly transport: Transport,
    readonly name: string,
  ) {}

  /**
   * Store an object, a new one or in place of what it was; SHA-256 is compared.
   *
   * What can be read twice is sent again where the outcome is not known. Throws Problem,
   * DigestMismatch, and ConnectionLost or OutcomeUnknown without an outcome.
   */
  async put(name: string, content: Content, options: PutObjectOptions = {}): Promise<ObjectInfo> {
    const headers = described(options);
    const path = this.at(name);
    if (content instanceof ReadableStream) return this.putStream(path, content, headers);
    const whole = typeof content === "string" ? new TextEncoder().encode(content) : content;
    const size = whole instanceof Blob ? whole.size : whole.length;
    headers["Repr-Digest"] = reprDigest(await digestOf(whole));
    const body = whole instanceof Blob ? whole : new Uint8Array(whole);
    const asked: Asked = { body, headers, timeout: SILENCE + size / SLOWEST };
    const answer =
      options.revision === undefined
        ? this.transport.repeat(name, "PUT", path, asked, undefined, (attempt) => this.ask(attempt))
        : this.transport.send("PUT", path, asked);
    try {
      return infoOf(jsonOf(await answer));
    } catch (error) {
      if (!(error instanceof BadRequest && error.kind === "digest-mismatch")) throw error;
      throw new DigestMismatch(`${path}: ${error.detail}`, { cause: error });
    }
  }

  /** Before an object is sent again: where there is no store, it was refused, and the answer lost. */
  private async ask(attempt: number): Promise<void> {
    if (!attempt) return;
    try {
      await this.transport.send("GET", pathOf(["objects", this.name]));
    } catch (error) {
      // Who may put an object may not always read what is known of its store.
      if (error instanceof NotFound || error instanceof Unauthorized || isPassing(error)) throw error;
    }
  }

  private async putStream(
    path: string,
    content: ReadableStream<Uint8Array>,
    headers: Record<string, string>,
  ): Promise<ObjectInfo> {
    const digest = new Sha256();
    const counted = new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        digest.update(piece);
        controller.enqueue(piece);
      },
    });
    const asked: Asked = { body: content.pipeThrough(counted), headers, timeout: DAY };
    const info = infoOf(jsonOf(await this.transport.send("PUT", path, asked)));
    const told = info.digest.replace("SHA-256=", "").replaceAll("-", "+").replaceAll("_", "/");
    if (told !== toBase64(digest.digest())) {
      throw new DigestMismatch(`${path}: stored with ${info.digest}`);
    }
    return info;
  }

  /**
   * Read an object in pieces, or a part of it. A connection that breaks is opened again where it
   * broke; at the end of a whole object its digest is checked.
   *
   * Throws NotFound, DigestMismatch, DigestMissing unless it may be `unchecked`, and Conflict when
   * it was replaced meanwhile.
   */
  async open(name: string, part: Part = {}): Promise<Download> {
    const path = this.at(name);
    const answer = await this.transport.stream("GET", path, SILENCE, asking(part, part.begin ?? 0));
    try {
      const { headers } = answer;
      const revision = revisionOf(headers, path);
      const length = headers.get("Content-Length");
      if (length === null) {
        throw new JetgateError(`${path}: no Content-Length can be seen, so its end is not known`);
      }
      const isWhole = !part.begin && part.end === undefined;
      const digest = isWhole ? /sha-256=:([^:]*):/.exec(headers.get("Repr-Digest") ?? "")?.[1] : undefined;
      if (isWhole && digest === undefined && !part.unchecked) {
        throw new DigestMissing(`${path}: no Repr-Digest can be seen, so it cannot be checked`);
      }
      const [size, etag] = [Number(length), headers.get("ETag") ?? ""];
      const pieces = this.pieces(path, part, answer, etag, size, digest);
      return new Download(size, revision, headers, digest !== undefined, pieces);
    } catch (error) {
      answer.close();
      throw error;
    }
  }

  /** Read an object into memory, or a part of it. */
  async get(name: string, part: Part = {}): Promise<Uint8Array> {
    return (await this.open(name, part)).bytes();
  }

  private async *pieces(
    path: string,
    part: Part,
    first: Stream,
    etag: string,
    size: number,
    told: string | undefined,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const backoff = new Backoff(this.transport.retry);
    const digest = new Sha256();
    const begin = part.begin ?? 0;
    let at = begin;
    let answer: Stream | undefined = first;
    while (at - begin < size) {
      try {
        answer ??= await this.transport.stream("GET", path, SILENCE, asking(part, at, etag));
        if (answer !== first && answer.status !== 206) throw replaced(path);
        for (let piece = await answer.piece(); piece; piece = await answer.piece()) {
          backoff.reset();
          at += piece.length;
          digest.update(piece);
          yield piece;
        }
        if (at - begin < size) throw new ConnectionLost("the object ended too early");
      } catch (error) {
        if (part.signal?.aborted || !isPassing(error)) throw error;
        await backoff.wait(error, Infinity, part.signal);
      } finally {
        answer?.close();
        answer = undefined;
      }
    }
    first.close();
    if (told !== undefined && told !== toBase64(digest.digest())) {
      throw new DigestMismatch(`${path}: sha-256 ${told} was told`);
    }
  }

  /** What is known of an object, or of a link; undefined where there is none. */
  async info(name: string): Promise<ObjectInfo | undefined> {
    try {
      return infoOf(jsonOf(await this.transport.send("GET", this.at(name, "info"))));
    } catch (error) {
      if (error instanceof NotFound && error.kind === "object-not-found") return undefined;
      throw error;
    }
  }

  /** Change what is known of an object; null takes something away. */
  async update(
    name: string,
    changes: {
      name?: string;
      description?: string | null;
      headers?: Record<string, string[] | null> | null;
      metadata?: Record<string, string | null> | null;
    },
  ): Promise<ObjectInfo> {
    return infoOf(jsonOf(await this.transport.send("PATCH", this.at(name), { json: changes })));
  }

  /** Remove an object. Throws NotFound. */
  async delete(name: string): Promise<void> {
    await this.transport.send("DELETE", this.at(name));
  }

  /** Let a name lead to an object of this store or of another. */
  async link(name: string, to: string, bucket = this.name): Promise<ObjectInfo> {
    const asked = { json: { bucket, name: to } };
    return infoOf(jsonOf(await this.transport.send("POST", this.at(name, "link"), asked)));
  }

  /** The objects that are there; `deleted`: those that were, too. */
  async list(options: { deleted?: boolean } = {}): Promise<ObjectInfo[]> {
    const query: Record<string, string> = options.deleted ? { deleted: "true" } : {};
    const answer = await this.transport.send("GET", pathOf(["objects", this.name], "list"), { query });
    return jsonOf<{ objects: Partial<ObjectInfo>[] }>(answer).objects.map(infoOf);
  }

  /** What is there, then changes as they happen, across lost connections and restarts. */
  async *watch(
    options: { updatesOnly?: boolean; ignoreDeletes?: boolean; signal?: AbortSignal } = {},
  ): AsyncGenerator<ObjectChange, void, undefined> {
    const query: Record<string, string> = {};
    if (options.updatesOnly) query["updates_only"] = "true";
    if (options.ignoreDeletes) query["ignore_deletes"] = "true";
    const path = pathOf(["objects", this.name], "watch");
    let isReady = false;
    for await (const event of follow(this.transport, path, query, true, options.signal)) {
      if (event === undefined) continue;
      const position = event.id;
      const said = JSON.parse(event.data) as Partial<ObjectInfo> & { recovered?: boolean };
      if (event.event === "open") {
        if (said.recovered === false) {
          isReady = false;
          yield { event: "reset", position };
        }
      } else if (event.event === "ready") {
        if (!isReady) yield { event: "ready", position };
        isReady = true;
      } else {
        yield { event: event.event as "put" | "delete", position, info: infoOf(said) };
      }
    }
  }

  private at(name: string, verb = ""): string {
    return pathOf(["objects", this.name, name], verb);
  }
}

function described(options: PutObjectOptions): Record<string, string> {
  const { mediaType, description, headers = {}, chunkSize, revision } = options;
  const own = Object.entries(headers).map(([name, value]) => [`Nats-H-${name}`, value]);
  return {
    ...(Object.fromEntries(own) as Record<string, string>),
    "Content-Type": mediaType ?? "application/octet-stream",
    ...(description && { "Js-Description": description }),
    ...(chunkSize && { "Js-Chunk-Size": String(chunkSize) }),
    ...(revision && { "If-Match": `"${revision}"` }),
    ...(revision === 0 && { "If-None-Match": "*" }),
  };
}

function asking(part: Part, at: number, etag = ""): Asked {
  const range = at || part.end !== undefined;
  const last = part.end === undefined ? "" : part.end - 1;
  return {
    headers: {
      Accept: "*/*",
      ...(range && { Range: `bytes=${at}-${last}` }),
      ...(etag && { "If-Range": etag }),
    },
    signal: part.signal,
  };
}

function replaced(path: string): Conflict {
  const detail = `${path}: replaced while it was read`;
  return new Conflict({ status: 409, type: "object-changed", detail });
}

async function digestOf(content: Uint8Array | Blob): Promise<Uint8Array> {
  const digest = new Sha256();
  if (content instanceof Uint8Array) {
    digest.update(content);
  } else {
    for (let at = 0; at < content.size; at += PIECE) {
      digest.update(new Uint8Array(await content.slice(at, at + PIECE).arrayBuffer()));
    }
  }
  return digest.digest();
}

function reprDigest(sha256: Uint8Array): string {
  return `sha-256=:${toBase64(sha256)}:`;
}

function infoOf(said: Partial<ObjectInfo>): ObjectInfo {
  const { bucket = "", name = "", revision = 0, size = 0, chunks = 0, mtime = "" } = said;
  const { digest = "", description = "", headers = {}, metadata = {}, deleted = false } = said;
  const told = { bucket, name, revision, size, chunks, mtime };
  const more = { digest, description, headers, metadata, deleted };
  return { ...told, ...more, ...(said.link && { link: said.link }) };
}
