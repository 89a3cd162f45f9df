/**
 * SHA-256 (FIPS 180-4) of what comes in pieces: WebCrypto has it for whole values alone, and only in
 * pages that came over TLS.
 */
const WORDS = [...primes(64)].map((prime) => fraction(Math.cbrt(prime)));
const BEGIN = [...primes(8)].map((prime) => fraction(Math.sqrt(prime)));
const ROUNDS = Int32Array.from(WORDS);

function* primes(count: number): Generator<number> {
  for (let each = 2; count; each++) {
    let divisor = 2;
    while (each % divisor) divisor++;
    if (divisor === each) {
      count--;
      yield each;
    }
  }
}

/** The first 32 bits behind the point. */
function fraction(value: number): number {
  return ((value - Math.floor(value)) * 2 ** 32) | 0;
}

export class Sha256 {
  private readonly state = Int32Array.from(BEGIN);
  private readonly words = new Int32Array(64);
  private readonly block = new Uint8Array(64);
  private readonly view = new DataView(this.block.buffer);
  private filled = 0;
  private size = 0;

  /** Add bytes. */
  update(bytes: Uint8Array): void {
    this.size += bytes.length;
    for (let at = 0; at < bytes.length; ) {
      const some = Math.min(64 - this.filled, bytes.length - at);
      this.block.set(bytes.subarray(at, at + some), this.filled);
      this.filled += some;
      at += some;
      if (this.filled === 64) this.compress();
    }
  }

  /** The digest; nothing may be added any more. */
  digest(): Uint8Array {
    const bits = this.size * 8;
    this.update(Uint8Array.of(0x80));
    if (this.filled > 56) this.update(new Uint8Array(64 - this.filled));
    this.update(new Uint8Array(56 - this.filled));
    this.view.setUint32(56, Math.floor(bits / 2 ** 32));
    this.view.setUint32(60, bits >>> 0);
    this.compress();
    const found = new DataView(new ArrayBuffer(32));
    this.state.forEach((word, index) => found.setInt32(4 * index, word));
    return new Uint8Array(found.buffer);
  }

  private compress(): void {
    const { words, state, view } = this;
    for (let i = 0; i < 16; i++) words[i] = view.getInt32(4 * i);
    for (let i = 16; i < 64; i++) {
      const x = words[i - 15]!;
      const y = words[i - 2]!;
      const low = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const high = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      words[i] = (words[i - 16]! + low + words[i - 7]! + high) | 0;
    }
    let a = state[0]!, b = state[1]!, c = state[2]!, d = state[3]!;
    let e = state[4]!, f = state[5]!, g = state[6]!, h = state[7]!;
    for (let i = 0; i < 64; i++) {
      const high = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const first = (h + high + ((e & f) ^ (~e & g)) + ROUNDS[i]! + words[i]!) | 0;
      const low = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const second = (low + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + first) | 0;
      d = c;
      c = b;
      b = a;
      a = (first + second) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, index) => (state[index] = (state[index]! + word) | 0));
    this.filled = 0;
  }
}
