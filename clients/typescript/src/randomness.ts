/** Keyed randomness: a key gives the same random numbers as in Python, so it gives the same list. */

import { blake2b } from "./blake2b.js";
import { RandomnessError, show } from "./errors.js";
import { add, GOLDEN, mix, multiply, multiplyHigh, xor, type Word } from "./splitmix64.js";

/** What a list is drawn by: texts, whole numbers, and lists of them. */
export type Key = string | number | bigint | readonly Key[];

const PERSON = "interleaf key 1";
const NAME = /^k1:[0-9a-f]{32}$/;
const MAX_CHOICES = 2 ** 31;
const UNIT = 2 ** -53;

/** The name of a key: `k1:` and a 128-bit digest of its parts; without a key, a fresh one. */
export function keyOf(key?: Key | null): string {
  if (key === undefined || key === null) return `k1:${newId()}`;
  if (typeof key === "string" && NAME.test(key)) return key;
  return `k1:${toHex(blake2b(Uint8Array.from(delimited(key)), PERSON))}`;
}

/** A random id: 32 hexadecimal digits. */
export function newId(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(16)));
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The UTF-8 bytes of a text; a surrogate without its partner, which UTF-8 excludes, takes three bytes. */
export function utf8(text: string): number[] {
  const bytes: number[] = [];
  for (const character of text) {
    const code = character.codePointAt(0)!;
    if (code < 0x80) bytes.push(code);
    else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
    else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    else bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
  }
  return bytes;
}

/** The parts of a key as bytes, such that different keys have different bytes. */
function delimited(part: Key): number[] {
  if (typeof part === "string") {
    const bytes = utf8(part);
    return [...utf8(`s${bytes.length}:`), ...bytes];
  }
  if (Array.isArray(part)) return [...utf8(`t${part.length}:`), ...part.flatMap(delimited)];
  if (typeof part === "bigint" || Number.isSafeInteger(part)) return utf8(`i${part.toString(16)}:`);
  throw new RandomnessError(
    `a key is made of texts, whole numbers and lists of them, not ${show(part)}; turn it into a text first`,
  );
}

/** The random numbers of a key: the i-th is a function of the key and i. */
export class Keyed {
  readonly #first: Word;
  readonly #second: Word;
  #state: Word;

  constructor(key: string) {
    const word = (place: number): number => {
      const digits = key.slice(3 + 8 * place, 11 + 8 * place);
      return parseInt(digits.match(/../g)!.reverse().join(""), 16);
    };
    this.#first = { low: word(0), high: word(1) };
    this.#second = { low: word(2), high: word(3) };
    this.#state = this.#first;
  }

  /** The next 64 random bits. */
  bits(): Word {
    this.#state = add(this.#state, GOLDEN);
    return mix(xor(mix(this.#state), this.#second));
  }

  /** One of 0 .. n-1, each with probability 1/n exactly (Lemire's multiplication with rejection). */
  pick(n: number): number {
    if (!Number.isInteger(n) || n < 1 || n > MAX_CHOICES) {
      throw new RandomnessError(`cannot pick one of ${n} things; the number of choices lies in 1 .. ${MAX_CHOICES}`);
    }
    if (n === 1) return 0;
    const rejectedBelow = (2 ** 32 - n) % n;
    let high = this.bits().high;
    while (Math.imul(high, n) >>> 0 < rejectedBelow) high = this.bits().high;
    return multiplyHigh(high, n);
  }

  /** One of the places of `weights`, with probability proportional to its weight. */
  pickWeighted(weights: readonly number[]): number {
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const target = this.#fraction() * total;
    let reached = 0;
    let last = 0;
    for (const [place, weight] of weights.entries()) {
      if (weight > 0) {
        reached += weight;
        last = place;
        if (target < reached) break;
      }
    }
    return last;
  }

  /** True with this probability. */
  toss(probability: number): boolean {
    return this.#fraction() < probability;
  }

  /** A number from 0 to below 1, a multiple of 2^-53. */
  #fraction(): number {
    const { high, low } = this.bits();
    return (high * 2 ** 21 + (low >>> 11)) * UNIT;
  }
}

const PRIME: Word = { high: 0x100, low: 0x1b3 };
const OFFSET: Word = { high: 0xcbf29ce4, low: 0x84222325 };

/** The hash of a text as a fraction of 2^64: FNV-1a over salt, a zero byte and text, then the finaliser. */
export function hashFraction(salt: string, text: string): number {
  let state = OFFSET;
  for (const byte of [...utf8(salt), 0, ...utf8(text)]) {
    state = multiply({ high: state.high, low: (state.low ^ byte) >>> 0 }, PRIME);
  }
  const { high, low } = mix(state);
  return (high * 2 ** 32 + low) / 2 ** 64;
}
