import { ConnectionLost, isPassing, problemFrom, type ProblemMembers } from "./errors.js";
import { Backoff } from "./retrying.js";
import { EVENTS, pathOf, type Stream, type Transport } from "./transport.js";

const SILENCE = 40; // the server says something every 15 s

/** An event as it came; `id` is the place of the feed. */
export interface ServerEvent {
  event: string;
  data: string;
  id: string;
}

/** The events of an answer, as the HTML standard (server-sent events) says. */
async function* parsed(answer: Stream): AsyncGenerator<ServerEvent, void, undefined> {
  let event = "";
  let id = "";
  let data: string[] = [];
  for (let lines = await answer.lines(); lines; lines = await answer.lines()) {
    for (const line of lines) {
      if (!line) {
        if (data.length) yield { event: event || "message", data: data.join("\n"), id };
        [event, data] = ["", []];
        continue;
      }
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "data") data.push(value);
      else if (name === "event") event = value;
      else if (name === "id" && !value.includes("\0")) id = value;
    }
  }
}

/**
 * The events of a feed, for ever; undefined: it was begun again.
 *
 * `resumes`: the feed goes on behind the last event, as Last-Event-ID. Throws what cannot pass by
 * itself, and the problem of an event `end`.
 */
export async function* follow(
  transport: Transport,
  path: string,
  query: Record<string, string>,
  resumes: boolean,
  signal: AbortSignal | undefined,
): AsyncGenerator<ServerEvent | undefined, void, undefined> {
  const backoff = new Backoff(transport.retry);
  let place = "";
  let began = false;
  while (!signal?.aborted) {
    const headers = { Accept: EVENTS, ...(resumes && place && { "Last-Event-ID": place }) };
    let answer: Stream | undefined;
    try {
      answer = await transport.stream("GET", path, SILENCE, { query, headers, signal });
      if (began) yield undefined;
      began = true;
      for await (const event of parsed(answer)) {
        backoff.reset();
        place = event.id || place;
        if (event.event === "end") {
          throw problemFrom((JSON.parse(event.data) as { problem: ProblemMembers }).problem);
        }
        yield event;
        if (signal?.aborted) return;
      }
      throw new ConnectionLost("the feed ended");
    } catch (error) {
      if (signal?.aborted) return;
      if (!isPassing(error)) throw error;
      answer?.close();
      await backoff.wait(error, Infinity, signal);
    } finally {
      answer?.close();
    }
  }
}

/**
 * An advisory, or what happened to the feed of them.
 *
 * `kind`: the last word of the advisory's type; `dropped`: `count` of them were not sent to a slow
 * reader; `gap`: the connection was lost, and nobody kept what there was meanwhile.
 */
export interface Event {
  kind: string;
  subject: string;
  data: Record<string, unknown>;
  count: number;
}

/** Advisories as they are published. */
export async function* advisories(
  transport: Transport,
  subject: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Event, void, undefined> {
  const query: Record<string, string> = subject ? { filter: subject } : {};
  const nothing = { subject: "", data: {}, count: 0 };
  for await (const event of follow(transport, pathOf(["advisories"]), query, false, signal)) {
    if (event === undefined) {
      yield { ...nothing, kind: "gap" };
      continue;
    }
    const said = JSON.parse(event.data) as { count?: number; subject?: string; event?: object };
    yield {
      kind: event.event,
      subject: said.subject ?? "",
      data: (said.event ?? {}) as Record<string, unknown>,
      count: said.count ?? 0,
    };
  }
}
