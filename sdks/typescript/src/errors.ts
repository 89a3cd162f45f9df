/** Any failure that the SDK tells. */
export class JetgateError extends Error {
  override name = "JetgateError";
}

/** The server could not be reached, or fell silent before the end of its answer. */
export class ConnectionLost extends JetgateError {
  override name = "ConnectionLost";
}

/** A write was repeated for as long as allowed, and nobody said what became of it. */
export class OutcomeUnknown extends JetgateError {
  override name = "OutcomeUnknown";

  /** `msgId`: what it was sent with each time. */
  constructor(
    readonly msgId: string,
    options?: ErrorOptions,
  ) {
    super(`nobody has said what became of ${msgId}`, options);
  }
}

/** What the server says of a refusal (RFC 9457). */
export interface ProblemMembers {
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  instance?: string;
  err_code?: number;
  current_sequence?: number;
  [member: string]: unknown;
}

const PREFIX = "urn:jetgate:problem:";

/** A refusal. */
export class Problem extends JetgateError {
  override name = "Problem";
  readonly status: number;
  /** A word for what has happened, such as `stream-not-found`. */
  readonly kind: string;
  readonly title: string;
  readonly detail: string;
  /** JetStream's number, 0 where the façade itself refused. */
  readonly errCode: number;

  /** `members`: everything that the server said; `retryAfter`: in seconds, 0 where it did not. */
  constructor(
    readonly members: ProblemMembers,
    readonly retryAfter = 0,
  ) {
    const { type = "", title = "", status = 0, detail = "", err_code = 0 } = members;
    const kind = type.startsWith(PREFIX) ? type.slice(PREFIX.length) : type;
    super(`${status} ${kind}: ${detail || title}`);
    this.status = status;
    this.kind = kind;
    this.title = title;
    this.detail = detail;
    this.errCode = err_code;
  }
}

/** 400: the request makes no sense. */
export class BadRequest extends Problem {
  override name = "BadRequest";
}

/** 401: credentials are missing, expired or not known. */
export class Unauthorized extends Problem {
  override name = "Unauthorized";
}

/** 403: this user may not. */
export class Forbidden extends Problem {
  override name = "Forbidden";
}

/** 404: there is no such thing. */
export class NotFound extends Problem {
  override name = "NotFound";
}

/** 409: not in this state. */
export class Conflict extends Problem {
  override name = "Conflict";
}

/** 412: it was changed meanwhile. */
export class PreconditionFailed extends Problem {
  override name = "PreconditionFailed";

  /** The last sequence or revision, 0 where the server did not say it. */
  get currentSequence(): number {
    return this.members.current_sequence ?? 0;
  }
}

/** 429: too much at once; nothing was done. */
export class TooManyRequests extends Problem {
  override name = "TooManyRequests";
}

/** 5xx: the server cannot, or does not know whether it did. */
export class ServerProblem extends Problem {
  override name = "ServerProblem";
}

const BY_STATUS: Record<number, typeof Problem> = {
  400: BadRequest,
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  412: PreconditionFailed,
  429: TooManyRequests,
};

/** The exception for a problem, by its status. */
export function problemFrom(members: ProblemMembers, retryAfter = 0): Problem {
  const status = members.status ?? 0;
  const kind = BY_STATUS[status] ?? (status >= 500 ? ServerProblem : Problem);
  return new kind(members, retryAfter);
}

/** The exception for an answer and its body. */
export function problemOf(response: Response, body: unknown): Problem {
  const said =
    body !== null && typeof body === "object" && "type" in body
      ? (body as ProblemMembers)
      : { title: response.statusText, detail: String(body).slice(0, 200) }; // of a proxy, perhaps
  const after = response.headers.get("Retry-After") ?? "";
  return problemFrom({ ...said, status: response.status }, /^\d+$/.test(after) ? Number(after) : 0);
}

/** The refusal of a message of so many bytes, before it is sent. */
export function tooLarge(size: number, limit: number): Problem {
  const detail = `body: ${size} bytes, and the server takes ${limit}`;
  return new Problem({ type: `${PREFIX}body-too-large`, title: "Content Too Large", status: 413, detail });
}

const FINAL_STATUSES = [501, 505];
const FINAL_KINDS = ["bad-object-info", "digest-mismatch", "not-a-receipt", "stream-store-failed"];

/**
 * Whether the same request may be answered otherwise a little later.
 *
 * A refusal is final: the server has decided, and nothing was stored. Among those of status 5xx are
 * a full stream, and what the server does not implement.
 */
export function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionLost) return true;
  if (!(error instanceof Problem)) return false;
  if (FINAL_STATUSES.includes(error.status) || FINAL_KINDS.includes(error.kind)) return false;
  if (error.kind === "pull-refused") return /^(Leadership Change|Server Shutdown)/.test(error.detail);
  return [408, 423, 429].includes(error.status) || error.status >= 500;
}
