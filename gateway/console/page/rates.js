// Rates, from how totals grow between two looks.

export class Rates {
  #before = new Map();

  /** What a total grew by in a second since the last look; 0 at the first one. */
  of(key, total, now = performance.now()) {
    const before = this.#before.get(key);
    if (before && now - before.at < 200) return before.rate;
    const seconds = before ? (now - before.at) / 1000 : 0;
    const rate = before && total > before.total ? (total - before.total) / seconds : 0;
    this.#before.set(key, { total, at: now, rate });
    return rate;
  }
}
