// What a script prints: one JSON line per step, without what no two runs have in common.
import { core, transport } from "./packages.mjs";

const VOLATILE = new Set(["created", "ts", "cluster", "last_active", "active", "api"]);
const TIME = /^(?!0001)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/;

/** A value without names that random, clock or machine decide; bytes as text or their length. */
export function clean(value) {
  if (value instanceof Error) return refusal(value);
  if (value instanceof Uint8Array) {
    return value.length < 100 ? new TextDecoder().decode(value) : `${value.length} bytes`;
  }
  if (value instanceof Date) return "<time>";
  if (Array.isArray(value)) return value.map(clean);
  if (typeof value === "string") return TIME.test(value) ? "<time>" : value;
  if (typeof value?.keys === "function" && typeof value.last === "function") {
    return Object.fromEntries(value.keys().map((key) => [key, clean(value.values(key))]));
  }
  if (value === null || typeof value !== "object") return value;
  const kept = Object.entries(value).filter(([key]) => !VOLATILE.has(key));
  return Object.fromEntries(kept.map(([key, inner]) => [key, clean(inner)]).sort());
}

/** What of an error a program may rely on. */
export function refusal(error) {
  return { error: error.name, code: error.code, text: error.message };
}

/** Print one step; a promise is awaited, its failure is the result. Returns the value. */
export async function step(name, value) {
  let result;
  try {
    result = await (typeof value === "function" ? value() : value);
  } catch (error) {
    if (error instanceof TypeError || error instanceof ReferenceError) throw error;
    result = error;
  }
  const line = { step: name, result: clean(result) ?? null };
  if (globalThis.job) globalThis.job.steps.push(line);
  else console.log(JSON.stringify(line));
  return result;
}

/** Whether two arrays hold the same bytes. */
export function same(one, other) {
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}

/** All that an iterator gives, or its first `count`, each through `pick`; after them each of
 *  `changes` is awaited, and one more item taken: what the next takes the place of may not be shown. */
export async function collect(iterator, pick = (item) => item, count = Infinity, ...changes) {
  const items = [];
  const enough = count + changes.length;
  if (count === 0) await changes.shift()?.();
  if (enough === 0) return items;
  for await (const item of iterator) {
    items.push(pick(item));
    if (items.length >= enough) break;
    if (items.length >= count) await changes.shift()();
  }
  return items;
}

/** The first of a type, among others that tell how slow a machine is. */
export async function firstOf(statuses, type) {
  for await (const status of statuses) if (status.type === type) return status;
}

/** What a fetch that may wait in vain gives; again when the server was silent all the while. */
export async function patiently(fetch) {
  for (;;) {
    const found = await fetch().catch((error) => error);
    if (!(found instanceof Error)) return found;
    if (found.message !== "heartbeats missed") throw found;
  }
}

/** Subject and text of a message. */
export const brief = (m) => `${m.subject} ${m.string()}`;

/** Subject, sequence and text of a message of a stream. */
export const numbered = (m) => `${m.seq} ${m.subject} ${m.string()}`;

/** Await `probe()` until it is true; throws when it never is within some milliseconds. */
export async function until(probe, within = 30000) {
  const end = Date.now() + within;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (Date.now() > end) throw new Error(`never true: ${probe}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Delete streams that may not be there. */
export async function forget(jsm, ...names) {
  await Promise.all(names.map((name) => jsm.streams.delete(name).catch(() => false)));
}

/** Connect by TCP or WebSocket, as the address says. */
export function dial(servers, options = {}) {
  const connect = servers.startsWith("ws") ? core.wsconnect : transport.connect;
  return connect({ servers, ...options });
}

/** Run a script with a connection: to the address of the command line, or of the page's job. */
export async function main(script) {
  const address = globalThis.job?.address ?? process.argv[2];
  const nc = await dial(address);
  await script(nc, address);
  await nc.close();
}
