import { Problem } from "./errors.js";

/**
 * Waits that double from `first` to `most` seconds, each a random part of that.
 *
 * A write is repeated for at most `writesFor` seconds: well within the duplicate window of the
 * stream (two minutes by default), for what is repeated later would be stored twice. Feeds and
 * fetches are repeated for ever.
 */
export interface Retry {
  first: number;
  most: number;
  writesFor: number;
}

export const DEFAULT_RETRY: Retry = { first: 0.1, most: 5, writesFor: 45 };

/** When writes that begin now are given up. */
export function deadline(retry: Retry): number {
  return performance.now() + retry.writesFor * 1000;
}

/** Wait; at once when the signal says so. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", done);
  });
}

/** The waits of one thing that is tried again and again. */
export class Backoff {
  private bound: number;

  constructor(private readonly retry: Retry) {
    this.bound = retry.first;
  }

  /** It worked: begin with short waits again. */
  reset(): void {
    this.bound = this.retry.first;
  }

  /** Wait, at least as long as the server asks for; false, at once: it would be too long. */
  async wait(error?: unknown, until = Infinity, signal?: AbortSignal): Promise<boolean> {
    const bound = this.bound;
    this.bound = Math.min(bound * 2, this.retry.most);
    const asked = error instanceof Problem ? error.retryAfter : 0;
    const milliseconds = Math.max(asked, bound * (0.5 + Math.random() / 2)) * 1000;
    if (performance.now() + milliseconds > until) return false;
    await pause(milliseconds, signal);
    return true;
  }
}
