// Requests to this server. Refusals are thrown as what the server says; a lost connection is
// noticed once, for all views, and looked for until it is back.

import { say } from "./dom.js";

const FIRST = 500;
const LONGEST = 5000;
const AWAY = ["starting", "not-ready", "not-connected", "server-refused"];

/** What the server refused: a problem detail (RFC 9457). */
export class Refused extends Error {
  constructor(status, problem, retryAfter) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.problem = problem;
    this.kind = String(problem.type ?? "").split(":").pop();
    this.retryAfter = retryAfter;
  }
}

/** Nobody answered. */
export class Unreachable extends Error {}

/** The connection: `lost`, and the events `lost` and `back`. */
export const link = Object.assign(new EventTarget(), { lost: false });

let signIn = async () => {
  throw new Error("nobody asks who it is");
};
/** Set what asks the user who he is, when the server wants to know. */
export const onUnauthorized = (ask) => (signIn = ask);

export const path = (...segments) => `/v1/${segments.map(encodeURIComponent).join("/")}`;

/** The answer to a request. Throws Refused, Unreachable, and AbortError. */
export async function send(url, { method = "GET", json, body, headers = {}, query, signal } = {}) {
  const all = { Accept: "application/json", "X-Requested-With": "console", ...headers };
  if (json !== undefined) all["Content-Type"] = "application/json";
  const found = Object.entries(query ?? {}).filter(([, value]) => value !== "" && value !== undefined);
  const target = found.length ? `${url}?${new URLSearchParams(found)}` : url;
  const init = { method, headers: all, cache: "no-store", signal };
  if (json !== undefined || body !== undefined) init.body = json === undefined ? body : JSON.stringify(json);
  for (;;) {
    try {
      return await once(target, init);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 401 || all.Authorization) throw error;
      await signIn(error);
      if (signal?.aborted) throw signal.reason;
    }
  }
}

async function once(target, init) {
  let response;
  try {
    response = await fetch(target, init);
  } catch (error) {
    if (error.name === "AbortError" || init.signal?.aborted) throw error;
    lose();
    throw new Unreachable("the server does not answer");
  }
  if (response.ok) return response;
  const text = await response.text();
  const refused = new Refused(response.status, problemIn(text, response), Number(response.headers.get("Retry-After") ?? 0));
  if (AWAY.includes(refused.kind)) lose();
  throw refused;
}

function problemIn(text, response) {
  try {
    return JSON.parse(text);
  } catch {
    return { title: response.statusText || `status ${response.status}`, detail: text.slice(0, 500) };
  }
}

/** The JSON of an answer; undefined when there is none. */
export async function ask(url, options) {
  const response = await send(url, options);
  return response.status === 204 ? undefined : whole(response.json(), options);
}

/** The text of an answer. */
export async function askText(url, options) {
  return whole((await send(url, options)).text(), options);
}

/** What is read of a body, or Unreachable when it was cut off. */
async function whole(reading, options) {
  try {
    return await reading;
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    lose();
    throw new Unreachable("the answer was cut off");
  }
}

/** The lines of an answer while they arrive. */
export async function* linesOf(response, signal) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await whole(reader.read(), { signal });
      if (done) return;
      const found = (rest + value).split("\n");
      rest = found.pop();
      yield found;
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function lose() {
  if (link.lost) return;
  link.lost = true;
  link.dispatchEvent(new Event("lost"));
  find(FIRST);
}

async function find(pause) {
  await new Promise((resolve) => setTimeout(resolve, pause));
  try {
    const signal = AbortSignal.timeout(LONGEST);
    const answer = await fetch("/readyz", { headers: { "X-Requested-With": "console" }, cache: "no-store", signal });
    if (answer.status >= 500) throw new Error("not ready");
  } catch {
    find(Math.min(pause * 1.5, LONGEST));
    return;
  }
  link.lost = false;
  say(`Connected again at ${new Date().toTimeString().slice(0, 8)}.`);
  link.dispatchEvent(new Event("back"));
}

/** What a view does for as long as it is shown. */
export class Life {
  #control = new AbortController();
  signal = this.#control.signal;

  stop() {
    this.#control.abort();
  }

  on(target, event, listener) {
    target.addEventListener(event, listener, { signal: this.signal });
  }

  /**
   * Do something now, and again and again while the page is looked at. `failed` is told of errors,
   * and of undefined when it works (again).
   */
  every(ms, work, failed) {
    let timer;
    let running = false;
    const turn = async () => {
      clearTimeout(timer);
      if (running || this.signal.aborted) return;
      running = true;
      let pause = ms;
      try {
        if (!document.hidden && !link.lost) {
          await work(this.signal);
          failed?.(undefined);
        }
      } catch (error) {
        if (this.signal.aborted) return;
        if (error instanceof Refused) pause = Math.max(ms, error.retryAfter * 1000);
        if (!link.lost) failed?.(error);
      } finally {
        running = false;
      }
      if (!this.signal.aborted) timer = setTimeout(turn, pause);
    };
    this.on(link, "back", turn);
    this.on(document, "visibilitychange", turn);
    this.signal.addEventListener("abort", () => clearTimeout(timer));
    turn();
    return turn;
  }
}
