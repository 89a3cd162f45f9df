// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat("en");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const NEVER = "0001-01-01T00:00:00Z";
const SPANS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export const count = (number) => whole.format(number ?? 0);

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function bytes(number) {
  let [value, unit] = [number ?? 0, 0];
  for (; Math.abs(value) >= 1024 && unit < UNITS.length - 1; unit++) value /= 1024;
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

export function rate(perSecond) {
  if (!perSecond) return "";
  return `${perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond))}/s`;
}

/** Seconds in at most two units. */
export function span(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const found = [];
  let rest = Math.round(seconds);
  for (const [unit, size] of SPANS) {
    const many = Math.floor(rest / size);
    rest -= many * size;
    if (many || found.length) found.push(many ? `${many} ${unit}` : "");
    if (found.length === 2) break;
  }
  return found.filter(Boolean).join(" ");
}

export const nanos = (number) => (number ? span(number / 1e9) : "none");

export const isTime = (text) => Boolean(text) && !text.startsWith(NEVER.slice(0, 10));

export function ago(text) {
  if (!isTime(text)) return "";
  const seconds = (Date.now() - Date.parse(text)) / 1000;
  return seconds < 1 ? "now" : `${span(seconds).split(" ").slice(0, 2).join(" ")} ago`;
}

const two = (number) => String(number).padStart(2, "0");

/** A time of the server as the clock on the wall shows it, with milliseconds. */
export function clock(text) {
  if (!isTime(text)) return "";
  const at = new Date(text);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const ms = String(at.getMilliseconds()).padStart(3, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${ms}`;
  return `${day} ${time}`;
}

/** What a field of the type datetime-local holds, as RFC 3339. */
export const rfc3339 = (local) => (local ? new Date(local).toISOString() : "");

/** `1h30m`, `90s`, `10ms` or nothing as nanoseconds; undefined when it is none of these. */
export function duration(text) {
  const said = text.trim();
  if (!said || said === "0") return 0;
  const sizes = { ms: 1e6, s: 1e9, m: 6e10, h: 3.6e12, d: 8.64e13 };
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(said)) return undefined;
  let total = 0;
  for (const [, number, , unit] of said.matchAll(/(\d+(\.\d+)?)(ms|s|m|h|d)/g)) {
    total += Number(number) * sizes[unit];
  }
  return Math.round(total);
}

/** Nanoseconds as `duration` reads them. */
export function written(ns) {
  if (!ns) return "";
  for (const [unit, size] of [["d", 8.64e13], ["h", 3.6e12], ["m", 6e10], ["s", 1e9]]) {
    if (ns % size === 0) return `${ns / size}${unit}`;
  }
  return `${ns / 1e6}ms`;
}

// Controls, and signs that turn the direction of text around or cannot be seen.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Text in which signs that cannot be seen are shown by their number. */
export function visible(text) {
  return text.replace(HIDDEN, (sign) => `⟨${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** The same on one line. */
export const oneLine = (text) => visible(text.replace(/\r\n|[\r\n\t]/g, " "));
