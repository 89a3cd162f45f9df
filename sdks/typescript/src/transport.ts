import {
  ConnectionLost,
  JetgateError,
  OutcomeUnknown,
  TooManyRequests,
  isPassing,
  problemOf,
  tooLarge,
} from "./errors.js";
import { toBase64 } from "./payloads.js";
import { Backoff, deadline, type Retry } from "./retrying.js";

export const JSON_TYPE = "application/json";
export const NDJSON = "application/x-ndjson";
export const EVENTS = "text/event-stream";

/** Bytes of a message that are sent without asking how many the server takes. */
const SURELY_TAKEN = 262_144;
/** Milliseconds for which the answer to that is good: a server may be configured anew. */
const LIMIT_KNOWN_FOR = 60_000;

/**
 * A path below /v1, its segments percent-encoded.
 *
 * Throws RangeError for the names "." and "..": every URL that has them means another path.
 */
export function pathOf(segments: string[], verb = ""): string {
  const last = segments.length - 1;
  if (segments.some((name, at) => (name === "." || name === "..") && !(verb && at === last))) {
    throw new RangeError('"." and ".." cannot be names in a URL');
  }
  const path = ["/v1", ...segments.map(encodeURIComponent)].join("/");
  return verb ? `${path}:${verb}` : path;
}

/** A token, or whoever knows it: asked before each request. */
export type Token = string | (() => string | Promise<string>);

/** Who asks: a token, or a user, or nobody by name. */
export interface Credentials {
  token: string;
  user: string;
  password: string;
}

/** One request. */
export interface Asked {
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: Uint8Array<ArrayBuffer> | Blob | ReadableStream<Uint8Array>;
  json?: unknown;
  /** Seconds that the whole of it may take. */
  timeout?: number;
  signal?: AbortSignal | undefined;
}

/** A whole answer. */
export interface Answer {
  status: number;
  headers: Headers;
  body: Uint8Array;
}

/**
 * The revision that the ETag of an answer is, weak where a proxy has compressed the answer.
 *
 * Throws JetgateError where none can be seen: what is between hides it.
 */
export function revisionOf(headers: Headers, path: string): number {
  const found = /^(?:W\/)?"(\d+)"$/.exec(headers.get("ETag") ?? "");
  if (found === null) throw new JetgateError(`${path}: no ETag can be seen, so its revision is not known`);
  return Number(found[1]);
}

const decoder = new TextDecoder();

/** The text of an answer. */
export function textOf(answer: Answer): string {
  return decoder.decode(answer.body);
}

/** The JSON of an answer. */
export function jsonOf<T>(answer: Answer): T {
  return JSON.parse(textOf(answer)) as T;
}

/** What is checked before each attempt, the first being 0. Throws what ends them. */
export type Before = (attempt: number) => Promise<void>;

/** Requests to one server: refusals are thrown, writes that may be repeated are. */
export class Transport {
  private limit: number | undefined;
  private limitKnownUntil = 0;

  constructor(
    readonly url: string,
    readonly retry: Retry,
    readonly credentials: () => Promise<Credentials>,
    private readonly timeout: number,
    private readonly fetched: typeof fetch,
  ) {}

  /** `fetch` with the credentials of this client, for the generated operations. */
  readonly fetch: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    await this.authorize(request.headers);
    return this.fetched(request);
  };

  private async authorize(headers: Headers): Promise<void> {
    const { token, user, password } = await this.credentials();
    const pair = toBase64(new TextEncoder().encode(`${user}:${password}`));
    if (token) headers.set("Authorization", `Bearer ${token}`);
    else if (user) headers.set("Authorization", `Basic ${pair}`);
  }

  /** Send once. Throws Problem, ConnectionLost. */
  async send(method: string, path: string, asked: Asked = {}): Promise<Answer> {
    const quiet = new Silence(asked.timeout ?? this.timeout, asked.signal);
    try {
      const response = await this.response(method, path, asked, quiet);
      const body = await quiet.orLost(`${method} ${path}`, response.arrayBuffer());
      return { status: response.status, headers: response.headers, body: new Uint8Array(body) };
    } finally {
      quiet.end();
    }
  }

  /**
   * Send until there is an outcome; `what`: how the server knows a repetition.
   *
   * Throws Problem, and OutcomeUnknown when the time is over.
   */
  async repeat(
    what: string,
    method: string,
    path: string,
    asked: Asked = {},
    until = deadline(this.retry),
    before?: Before,
  ): Promise<Answer> {
    const backoff = new Backoff(this.retry);
    let unknown = false;
    for (let attempt = 0; ; attempt++) {
      try {
        await before?.(attempt);
        return await this.send(method, path, asked);
      } catch (error) {
        if (!isPassing(error)) throw error;
        unknown ||= !(error instanceof TooManyRequests);
        if (await backoff.wait(error, until)) continue;
        throw unknown ? new OutcomeUnknown(what, { cause: error }) : error;
      }
    }
  }

  /**
   * Throw the Problem 413 of a message that is larger than the server takes, before it is sent: the
   * answer to a large body may be lost, because it comes while the body is still on its way.
   *
   * Nothing is thrown where the server does not tell how much it takes.
   */
  async refuseLarge(size: number): Promise<void> {
    if (size <= SURELY_TAKEN) return;
    if (performance.now() > this.limitKnownUntil) {
      try {
        const told = jsonOf<{ max_payload?: number }>(await this.send("GET", pathOf(["session"])));
        this.limit = told.max_payload;
        this.limitKnownUntil = performance.now() + LIMIT_KNOWN_FOR;
      } catch (error) {
        if (!(error instanceof JetgateError)) throw error;
        this.limit = undefined;
      }
    }
    if (this.limit !== undefined && size > this.limit) throw tooLarge(size, this.limit);
  }

  /** Send once; the answer comes in pieces, `silence` seconds without one are too many. */
  async stream(method: string, path: string, silence: number, asked: Asked): Promise<Stream> {
    const quiet = new Silence(silence, asked.signal);
    try {
      return new Stream(await this.response(method, path, asked, quiet), quiet, `${method} ${path}`);
    } catch (error) {
      quiet.end();
      throw error;
    }
  }

  private async response(
    method: string,
    path: string,
    asked: Asked,
    quiet: Silence,
  ): Promise<Response> {
    const query = new URLSearchParams(asked.query).toString();
    const headers = new Headers({ Accept: JSON_TYPE, ...asked.headers });
    const init: RequestInit = { method, headers, signal: quiet.signal, cache: "no-store" };
    if (asked.body !== undefined) init.body = asked.body;
    // What the types of browsers do not know, and the standard asks for.
    if (asked.body instanceof ReadableStream) Object.assign(init, { duplex: "half" });
    if (asked.json !== undefined) {
      headers.set("Content-Type", JSON_TYPE);
      init.body = JSON.stringify(asked.json);
    }
    await this.authorize(headers);
    const what = `${method} ${path}`;
    const sent = this.fetched(`${this.url}${path}${query && `?${query}`}`, init);
    const response = await quiet.orLost(what, sent);
    if (response.ok) return response;
    throw problemOf(response, parsed(await quiet.orLost(what, response.text())));
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Aborts when nothing was heard for some seconds, or when the caller wants to stop. */
class Silence {
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  readonly signal = this.controller.signal;
  private readonly stop = (): void => this.controller.abort();

  constructor(
    private readonly seconds: number,
    private readonly outer: AbortSignal | undefined,
  ) {
    if (outer?.aborted) this.stop();
    outer?.addEventListener("abort", this.stop);
    this.heard();
  }

  /**
   * What is promised, or ConnectionLost when it fails or takes too long: an aborted `fetch` does
   * not always end what reads its body.
   */
  orLost<T>(what: string, promised: Promise<T>): Promise<T> {
    const { signal } = this;
    return new Promise((resolve, reject) => {
      const lose = (cause?: unknown): void => {
        reject(new ConnectionLost(`${what}: ${String(cause)}`, { cause }));
      };
      const stop = (): void => lose("silence");
      if (signal.aborted) stop();
      signal.addEventListener("abort", stop, { once: true });
      promised.then(resolve, lose).finally(() => signal.removeEventListener("abort", stop));
    });
  }

  heard(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(this.stop, this.seconds * 1000);
  }

  end(): void {
    clearTimeout(this.timer);
    this.outer?.removeEventListener("abort", this.stop);
    this.controller.abort();
  }
}

/** An answer that comes in pieces. */
export class Stream {
  readonly status: number;
  readonly headers: Headers;
  private readonly reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  private readonly decoder = new TextDecoder();
  private rest = "";

  constructor(
    response: Response,
    private readonly silence: Silence,
    private readonly what: string,
  ) {
    this.status = response.status;
    this.headers = response.headers;
    this.reader = response.body?.getReader();
  }

  /** What came next; undefined at the end. */
  async piece(): Promise<Uint8Array | undefined> {
    if (this.reader === undefined) return undefined;
    const { done, value } = await this.silence.orLost(this.what, this.reader.read());
    if (done) return undefined;
    this.silence.heard();
    return value;
  }

  /**
   * Lines that came together, without their ends; undefined at the end.
   *
   * What follows the last line feed was cut off, and is no line.
   */
  async lines(): Promise<string[] | undefined> {
    for (;;) {
      const piece = await this.piece();
      if (piece === undefined) return undefined;
      const whole = (this.rest + this.decoder.decode(piece, { stream: true })).split("\n");
      this.rest = whole.pop() ?? "";
      if (whole.length) return whole.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
    }
  }

  /** Read no more. */
  close(): void {
    this.silence.end();
    void this.reader?.cancel().catch(() => undefined);
  }
}
