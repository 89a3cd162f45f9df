/** A value that JSON can hold. */
export type Json = string | number | boolean | null | Json[] | { [name: string]: Json };

/** Bytes as they are, text in UTF-8; anything else is sent as JSON. */
export type Payload = Uint8Array | Json;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The bytes of a payload, and its media type; empty where nothing is to be said of it. */
export function encoded(payload: Payload): [Uint8Array<ArrayBuffer>, string] {
  if (payload instanceof Uint8Array) return [new Uint8Array(payload), ""];
  if (typeof payload === "string") return [encoder.encode(payload), ""];
  return [encoder.encode(JSON.stringify(payload)), "application/json"];
}

/** Text of base64. */
export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(text);
}

/** What JSON shows of a payload. */
export interface Shown {
  data?: unknown;
  text?: string;
  data_base64?: string;
}

/**
 * The members of an object that shows a payload, and the payload.
 *
 * JSON in `data` is taken as it was written: digits, blanks and the order of names are kept.
 */
export function members<T extends Shown>(text: string): [T, Uint8Array] {
  const shown = JSON.parse(text) as T;
  if ("data" in shown) return [shown, encoder.encode(written(text, "data"))];
  if (shown.text !== undefined) return [shown, encoder.encode(shown.text)];
  const bytes = atob(shown.data_base64 ?? "");
  return [shown, Uint8Array.from(bytes, (each) => each.charCodeAt(0))];
}

/** How the value of a member of an object, which has it, is written. */
export function written(text: string, name: string): string {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (sign === "{" || sign === "[") depth++;
    else if (sign === "}" || sign === "]") depth--;
    else if (sign === '"') {
      const end = endOfString(text, at);
      const isName = depth === 1 && text[end] === ":";
      if (isName && text.slice(at + 1, end - 1) === name) {
        return text.slice(end + 1, endOfValue(text, end + 1));
      }
      at = end - 1;
    }
  }
  throw new SyntaxError(`no ${name}`);
}

/** How the objects of an array of a member are written. */
export function elements(text: string, name: string): string[] {
  const array = written(text, name);
  const found: string[] = [];
  for (let at = 1; at < array.length - 1; ) {
    const end = endOfValue(array, at);
    found.push(array.slice(at, end));
    at = end + 1;
  }
  return found;
}

function endOfString(text: string, begin: number): number {
  let at = begin + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

function endOfValue(text: string, begin: number): number {
  let depth = 0;
  for (let at = begin; at < text.length; at++) {
    const sign = text[at];
    if (sign === '"') at = endOfString(text, at) - 1;
    else if (sign === "{" || sign === "[") depth++;
    else if (depth === 0 && (sign === "," || sign === "}" || sign === "]")) return at;
    else if (sign === "}" || sign === "]") depth--;
  }
  return text.length;
}

/** What all messages say in JSON. */
export interface MessageMembers extends Shown {
  stream: string;
  subject: string;
  seq: number;
  time: string;
  headers?: Record<string, string[]>;
}

/** A message of a stream; `time` in RFC 3339, when it was stored. */
export class Message {
  readonly stream: string;
  readonly subject: string;
  readonly seq: number;
  readonly time: string;
  readonly headers: Record<string, string[]>;

  constructor(
    shown: MessageMembers,
    readonly payload: Uint8Array,
  ) {
    this.stream = shown.stream;
    this.subject = shown.subject;
    this.seq = shown.seq;
    this.time = shown.time;
    this.headers = shown.headers ?? {};
  }

  /** The payload as UTF-8. */
  text(): string {
    return decoder.decode(this.payload);
  }

  /** The payload as JSON. */
  json<T = unknown>(): T {
    return JSON.parse(this.text()) as T;
  }
}
