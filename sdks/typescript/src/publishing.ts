import { OutcomeUnknown, Problem, isPassing, problemFrom, type ProblemMembers } from "./errors.js";
import { Message, encoded, members, toBase64, type MessageMembers, type Payload } from "./payloads.js";
import { Backoff, deadline } from "./retrying.js";
import { JSON_TYPE, jsonOf, pathOf, textOf, type Before, type Transport } from "./transport.js";

const BATCH = 1000;
const BATCH_CHARACTERS = 700_000; // the server takes 1 MiB

/** Where a message is stored. `duplicate`: it was there already; `val`: of a counter. */
export interface Receipt {
  stream: string;
  seq: number;
  duplicate: boolean;
  domain: string;
  val: string;
}

/** What a publish may say beside its payload. */
export interface PublishOptions {
  headers?: Record<string, string>;
  /** By which a repetition is known; without it an id is made. */
  msgId?: string;
  /** Only if this is the last sequence of the subject, 0: if it has none. */
  lastSeq?: number;
  /** How long it is kept: `10s`. */
  ttl?: string;
}

/** A message of a batch. */
export interface Outgoing {
  subject: string;
  payload?: Payload;
  headers?: Record<string, string>;
  msgId?: string;
}

/** What became of a message of a batch. */
export type Outcome = Receipt | Problem | OutcomeUnknown;

/** An id that nobody else makes; pages without TLS have no `randomUUID`. */
export function uniqueId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
}

/** Message headers as HTTP carries them. */
function userHeaders(headers: Record<string, string> = {}): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [`Nats-H-${name}`, value]),
  );
}

/** Publish one message. Throws Problem, OutcomeUnknown. */
export async function publish(
  transport: Transport,
  subject: string,
  payload: Payload,
  options: PublishOptions,
): Promise<Receipt> {
  const [body, type] = encoded(payload);
  const msgId = options.msgId ?? uniqueId();
  const headers = { ...userHeaders(options.headers), "Nats-Msg-Id": msgId };
  const more: Record<string, string> = {};
  if (type) more["Content-Type"] = type;
  if (options.lastSeq) more["If-Match"] = `"${options.lastSeq}"`;
  if (options.lastSeq === 0) more["If-None-Match"] = "*";
  if (options.ttl) more["Nats-TTL"] = options.ttl;
  const asked = { body, headers: { ...headers, ...more } };
  const path = pathOf(["subjects", subject]);
  const before: Before = () => transport.refuseLarge(body.length);
  return receipt(jsonOf(await transport.repeat(msgId, "POST", path, asked, undefined, before)));
}

function receipt(said: Partial<Receipt> & { stream: string; seq: number }): Receipt {
  return { duplicate: false, domain: "", val: "", ...said };
}

/** Publish messages in batches; what became of each, in their order. */
export async function publishMany(
  transport: Transport,
  messages: Iterable<Outgoing>,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  let lines: string[] = [];
  let ids: string[] = [];
  let size = 0;
  const flush = async (): Promise<void> => {
    outcomes.push(...(await settled(transport, lines, ids)));
    [lines, ids, size] = [[], [], 0];
  };
  for (const message of messages) {
    const msgId = message.msgId ?? uniqueId();
    const line = lineOf(message, msgId);
    if (line.length > BATCH_CHARACTERS) {
      await flush();
      outcomes.push(await alone(transport, message, msgId));
      continue;
    }
    lines.push(line);
    ids.push(msgId);
    size += line.length;
    if (lines.length >= BATCH || size >= BATCH_CHARACTERS) await flush();
  }
  if (lines.length) await flush();
  return outcomes;
}

/** Publish what may be too large for a batch, which takes less than a message may have. */
async function alone(transport: Transport, message: Outgoing, msgId: string): Promise<Outcome> {
  const { subject, payload = "", headers = {} } = message;
  try {
    return await publish(transport, subject, payload, { headers, msgId });
  } catch (error) {
    if (error instanceof Problem || error instanceof OutcomeUnknown) return error;
    throw error;
  }
}

function lineOf(message: Outgoing, msgId: string): string {
  const [bytes, type] = encoded(message.payload ?? "");
  const headers = { ...(type && { "Content-Type": type }), ...message.headers };
  // Nothing but ASCII, so that its length is that of its bytes.
  return JSON.stringify({
    subject: message.subject,
    msg_id: msgId,
    data_base64: toBase64(bytes),
    ...(Object.keys(headers).length && { headers }),
  }).replace(/[\u0080-\uffff]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Send a batch, and again what of it has no outcome yet. */
async function settled(transport: Transport, lines: string[], ids: string[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = ids.map((msgId) => new OutcomeUnknown(msgId));
  const backoff = new Backoff(transport.retry);
  const until = deadline(transport.retry);
  let left = [...lines.keys()];
  while (left.length) {
    const text = `[${left.map((at) => lines[at]).join()}]`;
    const asked = { body: new TextEncoder().encode(text), headers: { "Content-Type": JSON_TYPE } };
    let said: (Receipt | { error: ProblemMembers })[];
    try {
      const what = ids[left[0] ?? 0] ?? "";
      said = jsonOf(await transport.repeat(what, "POST", pathOf(["publish"]), asked, until));
    } catch (error) {
      if (error instanceof OutcomeUnknown) break;
      if (!(error instanceof Problem)) throw error;
      for (const at of left) outcomes[at] = error;
      break;
    }
    const again: number[] = [];
    for (const [index, at] of left.entries()) {
      const each = said[index];
      if (each === undefined) throw new SyntaxError("an answer is missing");
      const outcome = "error" in each ? problemFrom(each.error) : receipt(each);
      if (isPassing(outcome)) again.push(at);
      else outcomes[at] = outcome;
    }
    left = again;
    if (left.length && !(await backoff.wait(undefined, until))) break;
  }
  return outcomes;
}

/** Ask whoever serves a subject; sent once. Throws Problem, ConnectionLost. */
export async function request(
  transport: Transport,
  subject: string,
  payload: Payload,
  options: { headers?: Record<string, string>; within?: number },
): Promise<Message> {
  const within = options.within ?? 5;
  const [body, type] = encoded(payload);
  await transport.refuseLarge(body.length);
  const answer = await transport.send("POST", pathOf(["subjects", subject], "request"), {
    query: { timeout: `${Math.round(within * 1000)}ms` },
    body,
    headers: { Accept: "*/*", ...userHeaders(options.headers), ...(type && { "Content-Type": type }) },
    timeout: within + 5,
  });
  const headers: Record<string, string[]> = {};
  for (const [name, value] of answer.headers) {
    if (name.startsWith("nats-")) headers[usual(name.replace(/^nats-h-/, ""))] = [value];
  }
  return new Message({ stream: "", subject, seq: 0, time: "", headers }, answer.body);
}

/** The usual spelling of a header name: `x-order-id` becomes `X-Order-Id`. */
function usual(name: string): string {
  return name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());
}

/** Read one stored message. Throws Problem, ConnectionLost. */
export async function read(
  transport: Transport,
  path: string,
  query: Record<string, string> = {},
): Promise<Message> {
  const [shown, payload] = members<MessageMembers>(
    textOf(await transport.send("GET", path, { query })),
  );
  return new Message(shown, payload);
}
