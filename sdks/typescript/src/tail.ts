import { follow } from "./events.js";
import { Message, members, type MessageMembers } from "./payloads.js";
import { pathOf, type Transport } from "./transport.js";

/**
 * Messages behind `after` may be missing; what follows is behind `seq`.
 *
 * They were removed before they could be sent, or the stream was made anew or restored. `firstSeq`
 * and `lastSeq` are what it had.
 */
export class Gap {
  constructor(
    readonly after: number,
    readonly seq: number,
    readonly firstSeq: number,
    readonly lastSeq: number,
  ) {}
}

/** What to follow. */
export interface TailOptions {
  /** Only what matches it. */
  subject?: string;
  /** `new`, `all`, `last`, `last_per_subject`, a sequence, or a time in RFC 3339. */
  begin?: string;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

interface PlaceMembers {
  seq: number;
  recovered?: boolean;
  after?: number;
  first_seq?: number;
  last_seq?: number;
}

/** The messages of a stream, across lost connections and restarts, and what could not be sent. */
export async function* tail(
  transport: Transport,
  stream: string,
  options: TailOptions,
): AsyncGenerator<Message | Gap, void, undefined> {
  const query: Record<string, string> = { from: options.begin ?? "new" };
  if (options.subject) query["filter"] = options.subject;
  const path = pathOf(["streams", stream, "tail"]);
  let place = 0;
  for await (const event of follow(transport, path, query, true, options.signal)) {
    if (event?.event === "message") {
      const [shown, payload] = members<MessageMembers>(event.data);
      place = shown.seq;
      yield new Message(shown, payload);
    } else if (event) {
      const said = JSON.parse(event.data) as PlaceMembers;
      const { after = place, seq, first_seq = 0, last_seq = 0 } = said;
      place = seq;
      if (said.recovered === false) yield new Gap(after, seq, first_seq, last_seq);
    }
  }
}
