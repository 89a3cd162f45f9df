import { CoreMessage, SocketDelivery, type Dropped, type Fields, type Frame } from "./deliveries.js";
import {
  ConnectionLost,
  JetgateError,
  OutcomeUnknown,
  Problem,
  TooManyRequests,
  isPassing,
  problemFrom,
} from "./errors.js";
import type { ProblemMembers } from "./errors.js";
import { elements, encoded, members, toBase64, written, type Payload } from "./payloads.js";
import { Message } from "./payloads.js";
import { uniqueId, type PublishOptions, type Receipt } from "./publishing.js";
import { Backoff, deadline, pause } from "./retrying.js";
import { Gap } from "./tail.js";
import type { Transport } from "./transport.js";

const PROTOCOL = "js.v1.json";
const QUIET_MS = 20_000;
/** How much longer than the server one waits for its answer. */
const MORE_MS = 5000;
/** How many messages of a feed may wait to be taken, and how many bytes they may have. */
const CREDIT = { msgs: 1000, bytes: 4 * 2 ** 20 };
/** What closed the connection and will do so again, but for what only a caller can change. */
const FINAL = [1002, 1007, 1009];
/** The server goes: another may be there at once. */
const AT_ONCE = [1001, 1012];
/** What a frame may have, until the server says it. */
const FRAME_MAX = 2 ** 21;

/** How a WebSocket is opened. */
export interface SocketOptions {
  /** Where there is none in the environment, as in Node 20. */
  WebSocket?: typeof WebSocket;
}

/** How a feed is read. */
export interface FeedOptions {
  /** How many messages may wait here to be taken: 1000. */
  credit?: number;
  /** How many bytes of subjects, headers and payloads they may have, the last one aside: 4 MiB. */
  creditBytes?: number;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

/** What waits for an answer. */
interface Question {
  frame: Frame;
  repeats: boolean;
  resolve: (answer: Frame) => void;
  reject: (error: unknown) => void;
}

/** A feed: what it asks for each time, and what is done with what comes. */
interface Feed {
  sid: number;
  ask: () => Record<string, unknown>;
  take: (frame: Frame, text: string) => void;
  begun: (frame: Frame) => void;
  fail: (error: unknown) => void;
}

/**
 * Feeds, publishes, requests and acknowledgements over one WebSocket.
 *
 * It is opened when it is first needed, and opened again when it breaks: feeds go on behind what they
 * have given, publishes and acknowledgements without an answer are sent again.
 */
export class Socket {
  private readonly made: typeof WebSocket;
  private readonly feeds = new Map<number, Feed>();
  private readonly leaving = new Map<number, Feed>();
  private readonly questions = new Map<number, Question>();
  private opened: WebSocket | undefined;
  private opening = false;
  private closed = false;
  private numbers = 0;
  private frameMax = FRAME_MAX;
  private readonly backoff: Backoff;

  constructor(
    private readonly transport: Transport,
    options: SocketOptions,
  ) {
    const made = options.WebSocket ?? globalThis.WebSocket;
    if (!made) throw new TypeError("no WebSocket here: pass one, or use Node 22");
    this.made = made;
    this.backoff = new Backoff(transport.retry);
  }

  /** End every feed, and close. */
  close(): void {
    this.closed = true;
    this.fail(new ConnectionLost("the socket was closed"));
    this.opened?.close(1000);
  }

  /** Publish a message, as `Jetgate.publish` does. */
  async publish(subject: string, payload: Payload = "", options: PublishOptions = {}): Promise<Receipt> {
    const msgId = options.msgId ?? uniqueId();
    const headers = { ...options.headers, ...(options.ttl && { "Nats-TTL": options.ttl }) };
    const { lastSeq } = options;
    const frame = {
      type: "pub",
      msg_id: msgId,
      ...outgoing(subject, payload, headers),
      ...(lastSeq !== undefined && { expect: { last_subject_seq: lastSeq } }),
    };
    const said = (await this.confirm(frame, msgId)) as unknown as Receipt;
    const { stream, seq, duplicate = false, domain = "", val = "" } = said;
    return { stream, seq, duplicate, domain, val };
  }

  /** Send a frame until it is answered; `what`: how the server knows a repetition. */
  async confirm(frame: Frame, what: string): Promise<Frame> {
    const until = deadline(this.transport.retry);
    const backoff = new Backoff(this.transport.retry);
    let unknown = false;
    for (;;) {
      try {
        return await this.ask(frame, true, until);
      } catch (error) {
        if (this.closed || !isPassing(error)) throw error;
        unknown ||= !(error instanceof TooManyRequests);
        if (await backoff.wait(error, until)) continue;
        throw unknown ? new OutcomeUnknown(what, { cause: error }) : error;
      }
    }
  }

  /** The message of a sequence. Throws NotFound. */
  message(stream: string, seq: number): Promise<Message> {
    return this.read({ type: "get", stream, seq });
  }

  /** The last message of a subject. Throws NotFound. */
  lastMessage(stream: string, subject: string): Promise<Message> {
    return this.read({ type: "get", stream, last_by: subject });
  }

  private async read(frame: { type: string; stream: string; [member: string]: unknown }): Promise<Message> {
    const answer = await this.ask(frame, true, deadline(this.transport.retry));
    const [shown, bytes] = members<Fields>(written(answer["text"] as string, "message"));
    return new Message({ seq: 0, time: "", ...shown, stream: frame.stream }, bytes);
  }

  /** Ask whoever serves a subject, for `within` seconds; sent once. */
  async request(
    subject: string,
    payload: Payload = "",
    options: { headers?: Record<string, string>; within?: number } = {},
  ): Promise<Message> {
    const timeout = Math.round((options.within ?? 5) * 1e9);
    const frame = { type: "req", timeout, ...outgoing(subject, payload, options.headers ?? {}) };
    const until = performance.now() + timeout / 1e6 + MORE_MS;
    const answer = await this.ask(frame, false, until);
    const [shown, bytes] = members<Fields>(written(answer["text"] as string, "message"));
    return new CoreMessage({ ...shown, subject }, bytes, "");
  }

  /** The messages of a stream as they are stored, and a Gap where some are missing. */
  async *tail(
    stream: string,
    options: FeedOptions & { subject?: string; begin?: string | { seq: number } | { time: string } } = {},
  ): AsyncGenerator<Message | Gap, void, undefined> {
    let place: { incarnation: string; seq: number } | undefined;
    const filter = options.subject ? { filter: options.subject } : {};
    const ask = (): object => ({
      stream,
      ...filter,
      ...(place ? { after: place } : { from: options.begin ?? "new" }),
    });
    const gap = (said: Frame): Gap => {
      const after = (said["after"] as number | undefined) ?? place?.seq ?? 0;
      const seq = said["seq"] as number;
      return new Gap(after, seq, (said["first_seq"] as number) ?? 0, (said["last_seq"] as number) ?? 0);
    };
    const read = (frame: Frame, text: string): (Message | Gap)[] => {
      if (frame.type === "msg") {
        return elements(text, "messages").map((each) => {
          const [shown, payload] = members<Fields>(each);
          if (place) place.seq = shown.seq ?? 0;
          return new Message({ seq: 0, time: "", ...shown, stream }, payload);
        });
      }
      const found = frame.type === "gap" || frame["recovered"] === false ? [gap(frame)] : [];
      place = { incarnation: frame["incarnation"] as string, seq: frame["seq"] as number };
      return found;
    };
    yield* this.feed(ask, read, () => [], options);
  }

  /** The messages of a consumer, without end. */
  async *consume(
    stream: string,
    consumer: string,
    options: FeedOptions = {},
  ): AsyncGenerator<SocketDelivery, void, undefined> {
    const read = (frame: Frame, text: string): SocketDelivery[] =>
      frame.type !== "msg"
        ? []
        : elements(text, "messages").map((each) => {
            const [shown, payload] = members<Fields>(each);
            return new SocketDelivery(this, stream, shown, payload);
          });
    const giveBack = (waiting: SocketDelivery[]): void => {
      for (const each of waiting) void each.nak().catch(() => undefined);
    };
    yield* this.feed(() => ({ stream, consumer }), read, () => [], options, giveBack);
  }

  /** What is published to a subject from now on, stored or not; what was missed is counted. */
  async *listen(
    subject: string,
    options: FeedOptions & { queue?: string } = {},
  ): AsyncGenerator<CoreMessage | Dropped, void, undefined> {
    const queue = options.queue ? { queue: options.queue } : {};
    const read = (frame: Frame, text: string): (CoreMessage | Dropped)[] => {
      if (frame.type === "dropped") return [{ dropped: frame["count"] as number }];
      if (frame.type !== "msg") return [];
      return elements(text, "messages").map((each) => {
        const [shown, payload] = members<Fields>(each);
        return new CoreMessage(shown, payload, shown.reply ?? "");
      });
    };
    yield* this.feed(() => ({ subject, ...queue }), read, () => [{ dropped: -1 }], options);
  }

  /** One feed: `ask` says what for, `read` what a frame means, `missed` what a break does, `left` the end. */
  private async *feed<T>(
    ask: () => object,
    read: (frame: Frame, text: string) => T[],
    missed: () => T[],
    { signal, credit: msgs = CREDIT.msgs, creditBytes: bytes = CREDIT.bytes }: FeedOptions,
    left: (waiting: T[]) => void = () => undefined,
  ): AsyncGenerator<T, void, undefined> {
    const sid = ++this.numbers;
    const waiting: { item: T; bytes: number }[] = [];
    let [taken, granted, began] = [{ msgs: 0, bytes: 0 }, { msgs, bytes }, false];
    // The bytes of a frame are those of its last message: the others of it have 0.
    const put = (items: T[], total: number): void => {
      items.forEach((item, i) => waiting.push({ item, bytes: i === items.length - 1 ? total : 0 }));
    };
    let failure: unknown;
    let wake = (): void => undefined;
    const feed: Feed = {
      sid,
      ask() {
        // Totals begin again with the feed.
        taken = { msgs: -waiting.length, bytes: -waiting.reduce((sum, each) => sum + each.bytes, 0) };
        granted = { msgs, bytes };
        return { ...ask(), credit: granted };
      },
      take(frame, text) {
        put(read(frame, text), (frame["bytes"] as number | undefined) ?? 0);
        wake();
      },
      begun(frame) {
        put([...(began ? missed() : []), ...read(frame, "")], 0);
        began = true;
        wake();
      },
      fail(error) {
        failure = error;
        wake();
      },
    };
    this.feeds.set(sid, feed);
    const stop = (): void => wake();
    signal?.addEventListener("abort", stop);
    this.begin(feed);
    try {
      while (!signal?.aborted) {
        const next = waiting.shift();
        if (next !== undefined) {
          yield next.item;
          taken = { msgs: taken.msgs + 1, bytes: taken.bytes + next.bytes };
          if (taken.msgs > granted.msgs - msgs / 2 || taken.bytes > granted.bytes - bytes / 2) {
            granted = { msgs: taken.msgs + msgs, bytes: taken.bytes + bytes };
            this.send({ type: "credit", sid, ...granted });
          }
        } else if (failure !== undefined) {
          throw failure;
        } else {
          await new Promise<void>((resolve) => (wake = resolve));
        }
      }
    } finally {
      signal?.removeEventListener("abort", stop);
      if (this.feeds.delete(sid) && failure === undefined) await this.leave(feed);
      left(waiting.map(({ item }) => item));
    }
  }

  /** End a feed; it still takes what was on its way to it. */
  private async leave(feed: Feed): Promise<void> {
    if (!this.opened) return;
    this.leaving.set(feed.sid, feed);
    const until = performance.now() + QUIET_MS;
    // Without a connection nothing is on its way.
    await this.ask({ type: "unsub", sid: feed.sid }, false, until).catch(() => undefined);
    this.leaving.delete(feed.sid);
  }

  private begin(feed: Feed): void {
    const backoff = new Backoff(this.transport.retry);
    const tried = async (): Promise<void> => {
      while (this.feeds.has(feed.sid)) {
        try {
          await this.ask({ type: "sub", sid: feed.sid, ...feed.ask() }, false);
          return;
        } catch (error) {
          // Whoever opens the socket again begins its feeds.
          if (error instanceof ConnectionLost && !this.closed) return;
          if (!isPassing(error) || this.closed) return feed.fail(error);
          await backoff.wait(error);
        }
      }
    };
    if (this.opened) void tried();
    else this.open();
  }

  /** Send a frame and wait for its answer. `repeats`: over another connection, if this one breaks. */
  ask(frame: Frame, repeats: boolean, until = Infinity): Promise<Frame> {
    if (this.closed) return Promise.reject(new ConnectionLost("the socket was closed"));
    const size = JSON.stringify(frame).length;
    if (size > this.frameMax) {
      const detail = `${size} bytes, more than ${this.frameMax}`;
      return Promise.reject(problemFrom({ type: "body-too-large", status: 413, detail }));
    }
    return new Promise((resolve, reject) => {
      const id = ++this.numbers;
      const question: Question = { frame: { ...frame, id }, repeats, resolve, reject };
      this.questions.set(id, question);
      const enough = new AbortController();
      const end = (): void => enough.abort();
      question.resolve = (answer) => (end(), resolve(answer));
      question.reject = (error) => (end(), reject(error));
      if (until < Infinity) {
        void pause(until - performance.now(), enough.signal).then(() => {
          if (this.questions.delete(id)) reject(new ConnectionLost("no answer in time"));
        });
      }
      if (this.opened) this.send(question.frame);
      else this.open();
    });
  }

  private send(frame: object): void {
    this.opened?.send(JSON.stringify(frame));
  }

  /** `after`: what closed the last connection, if one has to wait. */
  private open(after?: unknown): void {
    if (this.opening || this.opened || this.closed) return;
    this.opening = true;
    void this.opens(after).finally(() => (this.opening = false));
  }

  private async opens(after: unknown): Promise<void> {
    if (after !== undefined) await this.backoff.wait(after);
    while (!this.closed) {
      try {
        this.opened = await this.connected();
        break;
      } catch (closed) {
        const error = isPassing(closed) ? await this.reason(closed) : closed;
        if (!isPassing(error)) return this.fail(error);
        this.lose();
        await this.backoff.wait(error);
      }
    }
    for (const { frame } of this.questions.values()) this.send(frame);
    for (const feed of this.feeds.values()) this.begin(feed);
  }

  /** Why there is no connection: browsers say nothing of a handshake that was refused. */
  private async reason(closed: unknown): Promise<unknown> {
    try {
      await this.transport.send("GET", "/v1/ws");
    } catch (error) {
      return error instanceof Problem && [401, 403].includes(error.status) ? error : closed;
    }
    return closed;
  }

  /** A connection that has been welcomed. */
  private async connected(): Promise<WebSocket> {
    const { token, user, password } = await this.transport.credentials();
    const protocols = [PROTOCOL, ...(token ? [`bearer.${base64url(token)}`] : [])];
    const url = `${this.transport.url.replace(/^http/, "ws")}/v1/ws`;
    const socket = new this.made(url, protocols);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => socket.close(), QUIET_MS);
      socket.onopen = () => {
        if (user && !token) socket.send(JSON.stringify({ type: "hello", user, password }));
      };
      socket.onmessage = ({ data }) => {
        const frame = JSON.parse(data as string) as Frame;
        if (frame.type === "welcome") {
          clearTimeout(timer);
          this.frameMax = frame["max_frame"] as number;
          resolve(socket);
        } else {
          this.backoff.reset();
          this.heard(frame, data as string);
        }
      };
      socket.onclose = ({ code, reason }) => {
        clearTimeout(timer);
        const error = closing(code, reason);
        reject(error);
        if (this.opened === socket) this.broken(error, code);
      };
    });
  }

  private heard(frame: Frame, text: string): void {
    const sid = frame.sid ?? 0;
    const feed = this.feeds.get(sid) ?? this.leaving.get(sid);
    if (frame.type === "msg" || frame.type === "gap" || frame.type === "dropped") {
      return feed?.take(frame, text);
    }
    if (frame.type === "ended") return feed?.fail(problemFrom(frame["problem"] as ProblemMembers));
    // At once: the first messages may have come with it.
    if (frame.type === "subscribed") feed?.begun(frame);
    const question = frame.id === undefined ? undefined : this.questions.get(frame.id);
    if (!question || frame.id === undefined) return;
    this.questions.delete(frame.id);
    if (frame.type === "error") question.reject(problemFrom(frame["problem"] as ProblemMembers));
    else question.resolve({ ...frame, text });
  }

  private broken(error: JetgateError, code: number): void {
    this.opened = undefined;
    if (!isPassing(error)) return this.fail(error);
    this.lose();
    const isAtOnce = AT_ONCE.includes(code) || (code >= 4200 && code < 4300);
    if (this.feeds.size || this.questions.size) this.open(isAtOnce ? undefined : error);
  }

  /** Give up what may not be sent again. */
  private lose(): void {
    for (const [id, { repeats, reject }] of this.questions) {
      if (repeats) continue;
      this.questions.delete(id);
      reject(new ConnectionLost("the connection broke before the answer"));
    }
  }

  private fail(error: unknown): void {
    const questions = [...this.questions.values()];
    this.questions.clear();
    for (const { reject } of questions) reject(error);
    for (const feed of this.feeds.values()) feed.fail(error);
  }
}

/** What a close means: 4000 to 4199 and some others come again, whatever is tried. */
function closing(code: number, reason: string): JetgateError {
  const said = { type: reason, title: reason, detail: `the socket was closed: ${code}` };
  if (code >= 4000 && code < 4100) return problemFrom({ ...said, status: 401 });
  if (FINAL.includes(code) || (code >= 4100 && code < 4200)) return problemFrom({ ...said, status: 400 });
  return new ConnectionLost(`closed: ${code} ${reason}`);
}

function base64url(text: string): string {
  const plain = toBase64(new TextEncoder().encode(text));
  return plain.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function outgoing(subject: string, payload: Payload, headers: Record<string, string>): object {
  const [bytes, type] = encoded(payload);
  const all = { ...(type && { "Content-Type": type }), ...headers };
  return { subject, data_base64: toBase64(bytes), ...(Object.keys(all).length && { headers: all }) };
}
