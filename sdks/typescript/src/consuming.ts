import { OutcomeUnknown, isPassing, problemFrom, type ProblemMembers } from "./errors.js";
import { Message, members, type MessageMembers } from "./payloads.js";
import { Backoff, pause } from "./retrying.js";
import { NDJSON, jsonOf, pathOf, type Stream, type Transport } from "./transport.js";

const TOKENS = 10_000;
const DRAIN_MS = 1000;

type Verb = "ack" | "nak" | "term" | "progress";

interface DeliveryMembers extends MessageMembers {
  consumer_seq?: number;
  delivered?: number;
  pending?: number;
  token?: string;
}

/** How an acknowledgement is made. `sync`: return when the server has recorded it. */
export interface AckOptions {
  sync?: boolean;
}

/** A delivery of a message to a consumer. */
export class Delivery extends Message {
  readonly consumerSeq: number;
  /** How often it was delivered, this time included. */
  readonly delivered: number;
  /** How many messages follow. */
  readonly pending: number;
  /** What acknowledges it, empty where the consumer wants no acknowledgement. */
  readonly token: string;

  constructor(
    private readonly transport: Transport,
    readonly consumer: string,
    shown: DeliveryMembers,
    payload: Uint8Array,
  ) {
    super(shown, payload);
    this.consumerSeq = shown.consumer_seq ?? 0;
    this.delivered = shown.delivered ?? 0;
    this.pending = shown.pending ?? 0;
    this.token = shown.token ?? "";
  }

  /** It is done. Throws OutcomeUnknown when nobody confirms it: it may be delivered again. */
  ack(options: AckOptions = {}): Promise<void> {
    return settle(this.transport, "ack", [this], { ...options });
  }

  /** Give it back, to be delivered again after `delay` seconds. */
  nak(options: AckOptions & { delay?: number } = {}): Promise<void> {
    const { delay = 0, ...more } = options;
    return settle(this.transport, "nak", [this], { ...more, delay: Math.round(delay * 1e9) });
  }

  /** Never deliver it again. */
  term(reason = "", options: AckOptions = {}): Promise<void> {
    return settle(this.transport, "term", [this], { ...options, reason });
  }

  /** Still working: the ack wait begins again. */
  progress(options: AckOptions = {}): Promise<void> {
    return settle(this.transport, "progress", [this], { ...options });
  }
}

/**
 * Acknowledge deliveries, in one request for each consumer and 10,000 of them.
 *
 * A request without an answer is repeated, and so is, once, what the server could not confirm. Throws
 * the first Problem of those that had no effect, and OutcomeUnknown for what nobody confirms: it may
 * be delivered again.
 */
export async function settle(
  transport: Transport,
  verb: Verb,
  deliveries: Iterable<Delivery>,
  said: Record<string, unknown> = {},
): Promise<void> {
  const tokens = new Map<string, string[]>();
  for (const { stream, consumer, token } of deliveries) {
    if (!token) continue;
    const path = pathOf(["streams", stream, "consumers", consumer], verb);
    tokens.set(path, [...(tokens.get(path) ?? []), token]);
  }
  for (const [path, all] of tokens) {
    for (let begin = 0; begin < all.length; begin += TOKENS) {
      await settlePart(transport, path, all.slice(begin, begin + TOKENS), said);
    }
  }
}

async function settlePart(
  transport: Transport,
  path: string,
  tokens: string[],
  said: Record<string, unknown>,
): Promise<void> {
  for (let tries = 0; tries < 2; tries++) {
    const json = { tokens, ...said };
    const answer = await transport.repeat(tokens[0] ?? "", "POST", path, { json });
    const { failed } = jsonOf<{ failed: { token: string; problem: ProblemMembers }[] }>(answer);
    const problem = failed.map((each) => problemFrom(each.problem)).find((each) => !isPassing(each));
    if (problem) throw problem;
    if (!failed.length) return;
    tokens = failed.map((each) => each.token);
  }
  throw new OutcomeUnknown(tokens[0] ?? "");
}

/** How a consumer is fetched from. Times in seconds. */
export interface ConsumeOptions {
  /** How many messages are fetched at once; 1 where one takes long. */
  batch?: number;
  /** How long a fetch waits for messages. */
  expires?: number;
  /** Between the server's signs of life; two without one are silence. */
  heartbeat?: number;
  /** How much is fetched at once. */
  maxBytes?: number;
  /** In a priority group (ADR-42). */
  group?: string;
  priority?: number;
  minPending?: number;
  minAckPending?: number;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

/**
 * The messages of a consumer as they come, for as long as one iterates.
 *
 * Lost connections, restarts and a silence of two heartbeats are waited for and begun again; what
 * cannot pass by itself is thrown. When the loop is left, what was fetched and not taken is given
 * back.
 */
export async function* consume(
  transport: Transport,
  stream: string,
  consumer: string,
  options: ConsumeOptions,
): AsyncGenerator<Delivery, void, undefined> {
  const { signal } = options;
  const backoff = new Backoff(transport.retry);
  while (!signal?.aborted) {
    try {
      for await (const delivery of once(transport, stream, consumer, options)) {
        backoff.reset();
        yield delivery;
      }
      backoff.reset();
    } catch (error) {
      if (signal?.aborted) return;
      if (!isPassing(error)) throw error;
      await backoff.wait(error, Infinity, signal);
    }
  }
}

/** One long poll. */
async function* once(
  transport: Transport,
  stream: string,
  consumer: string,
  options: ConsumeOptions,
): AsyncGenerator<Delivery, void, undefined> {
  const { batch = 100, expires = 30, heartbeat = 5, signal } = options;
  const path = pathOf(["streams", stream, "consumers", consumer], "fetch");
  const answer = await transport.stream("POST", path, 2 * heartbeat + 1, {
    json: {
      batch,
      expires: expires * 1e9,
      heartbeat: heartbeat * 1e9,
      max_bytes: options.maxBytes,
      group: options.group,
      priority: options.priority,
      min_pending: options.minPending,
      min_ack_pending: options.minAckPending,
    },
    headers: { Accept: NDJSON },
    signal,
  });
  const waiting: Delivery[] = [];
  const take = (lines: string[]): void => {
    for (const line of lines) {
      if (!line) continue; // a heartbeat
      const [shown, payload] = members<DeliveryMembers>(line);
      waiting.push(new Delivery(transport, consumer, shown, payload));
    }
  };
  let isWhole = false;
  let anyCame = false;
  try {
    for (let lines = await answer.lines(); lines; lines = await answer.lines()) {
      take(lines);
      anyCame ||= waiting.length > 0;
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        yield next;
        if (signal?.aborted) return;
      }
    }
    isWhole = true;
  } finally {
    if (!isWhole && anyCame) {
      await drained(answer, take);
      await settle(transport, "nak", waiting).catch(() => undefined);
    }
    answer.close();
  }
}

/** Take what is on its way: an answer ends soon after it began. */
async function drained(answer: Stream, take: (lines: string[]) => void): Promise<void> {
  const all = async (): Promise<void> => {
    for (let lines = await answer.lines(); lines; lines = await answer.lines()) take(lines);
  };
  const enough = new AbortController();
  await Promise.race([all().catch(() => undefined), pause(DRAIN_MS, enough.signal)]);
  enough.abort();
}
