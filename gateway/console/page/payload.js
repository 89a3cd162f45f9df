// Payloads: JSON is shown as it was written, digit for digit; bytes in hex.

const decoder = new TextDecoder("utf-8", { fatal: true });
const encoder = new TextEncoder();
const PREVIEW = 400;

function endOfString(text, begin) {
  let at = begin + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

function endOfValue(text, begin) {
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

/** How the value of a member of a JSON object is written; undefined when it is not there. */
export function written(text, name) {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (sign === "{" || sign === "[") depth++;
    else if (sign === "}" || sign === "]") depth--;
    else if (sign === '"') {
      const end = endOfString(text, at);
      if (depth === 1 && text[end] === ":" && text.slice(at + 1, end - 1) === name) {
        return text.slice(end + 1, endOfValue(text, end + 1));
      }
      at = end - 1;
    }
  }
  return undefined;
}

/** A row for a message from one line of JSON: a short part of its payload, and its size. */
export function row(line) {
  const shown = JSON.parse(line);
  let [text, size, isBinary] = ["", 0, false];
  if ("data" in shown) [text, isBinary] = [written(line, "data"), false];
  else if (shown.text !== undefined) text = shown.text;
  else if (shown.data_base64) {
    const binary = atob(shown.data_base64);
    size = binary.length;
    isBinary = true;
    const head = Uint8Array.from(binary.slice(0, 48), (sign) => sign.charCodeAt(0));
    text = hexOf(head) + (size > 48 ? " …" : "");
  }
  if (!isBinary) size = encoder.encode(text).length;
  if (text.length > PREVIEW) text = `${text.slice(0, PREVIEW)} …`;
  const { stream, subject, seq, time, token, delivered, pending } = shown;
  const headers = Object.keys(shown.headers ?? {}).length;
  return { stream, subject, seq, time, text, size, isBinary, headers, token, delivered, pending };
}

const hexOf = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");

/** Text of bytes; undefined when they are not UTF-8. */
export function textOf(bytes) {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Lines of sixteen bytes: offset, hex, and what is printable. */
export function hexDump(bytes) {
  const found = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const part = bytes.subarray(at, at + 16);
    const printable = [...part].map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·"));
    found.push(`${at.toString(16).padStart(8, "0")}  ${hexOf(part).padEnd(47)}  ${printable.join("")}`);
  }
  return found.join("\n");
}

/** JSON with line breaks; its numbers and strings are left as they are. Undefined: it is none. */
export function pretty(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  let [out, depth] = ["", 0];
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (sign === '"') {
      const end = endOfString(text, at);
      out += text.slice(at, end);
      at = end - 1;
    } else if (sign === "{" || sign === "[") {
      const isEmpty = /^\s*[\]}]/.test(text.slice(at + 1, at + 200));
      depth++;
      out += isEmpty ? sign : sign + line();
    } else if (sign === "}" || sign === "]") {
      depth--;
      out += /[[{]$/.test(out) ? sign : line() + sign;
    } else if (sign === ",") out += `,${line()}`;
    else if (sign === ":") out += ": ";
    else if (!/\s/.test(sign)) out += sign;
  }
  return out;
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text.replace(/\s/g, "")), (sign) => sign.charCodeAt(0));
}

export function toBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(text);
}
