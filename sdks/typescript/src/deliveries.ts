import { OutcomeUnknown, isPassing, problemFrom, type ProblemMembers } from "./errors.js";
import { Message, type Shown } from "./payloads.js";

/** A frame of a WebSocket. */
export type Frame = Record<string, unknown> & { type: string; id?: number; sid?: number };

/** What deliveries see of their socket. */
interface Line {
  /** Send a frame until it is answered; `what`: how the server knows a repetition. */
  confirm(frame: Frame, what: string): Promise<Frame>;
}

/** So many messages of a core feed were not sent, or nobody knows how many: -1, after a break. */
export interface Dropped {
  dropped: number;
}

/** A message that nobody keeps. */
export class CoreMessage extends Message {
  constructor(
    shown: Fields,
    payload: Uint8Array,
    readonly reply: string,
  ) {
    super({ stream: "", seq: 0, time: "", ...shown }, payload);
  }
}

/** What frames show of a message. */
export interface Fields extends Shown {
  subject: string;
  seq?: number;
  time?: string;
  pending?: number;
  delivered?: number;
  token?: string;
  reply?: string;
  headers?: Record<string, string[]>;
}

/** A delivery over a socket. It may be acknowledged over another one, or over HTTP. */
export class SocketDelivery extends Message {
  readonly delivered: number;
  readonly pending: number;
  readonly token: string;

  constructor(
    private readonly socket: Line,
    stream: string,
    shown: Fields,
    payload: Uint8Array,
  ) {
    super({ seq: 0, time: "", ...shown, stream }, payload);
    this.delivered = shown.delivered ?? 0;
    this.pending = shown.pending ?? 0;
    this.token = shown.token ?? "";
  }

  /** It is done; recorded by the server when this resolves. */
  ack(): Promise<void> {
    return this.settle("ack", {});
  }

  /** Give it back, to be delivered again after `delay` seconds. */
  nak(options: { delay?: number } = {}): Promise<void> {
    return this.settle("nak", { delay: Math.round((options.delay ?? 0) * 1e9) });
  }

  /** Never deliver it again. */
  term(reason = ""): Promise<void> {
    return this.settle("term", { reason });
  }

  /** Still working: the ack wait begins again. */
  progress(): Promise<void> {
    return this.settle("progress", {});
  }

  private async settle(type: string, said: object): Promise<void> {
    if (!this.token) return;
    const frame = { type, tokens: [this.token], sync: true, ...said };
    const answer = await this.socket.confirm(frame, this.token);
    const failed = (answer["failed"] as { problem: ProblemMembers }[])[0];
    if (!failed) return;
    const problem = problemFrom(failed.problem);
    throw isPassing(problem) ? new OutcomeUnknown(this.token, { cause: problem }) : problem;
  }
}
