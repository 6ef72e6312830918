/** Arithmetic on 64-bit words, each as two unsigned halves: BigInt would be several times slower. */

/** The high and the low half of a 64-bit word. */
export interface Word {
  high: number;
  low: number;
}

/** The golden ratio as a 64-bit fraction, the step of SplitMix64. */
export const GOLDEN: Word = { high: 0x9e3779b9, low: 0x7f4a7c15 };
const MIX_1: Word = { high: 0xbf58476d, low: 0x1ce4e5b9 };
const MIX_2: Word = { high: 0x94d049bb, low: 0x133111eb };

/** The upper 32 bits of the product of two unsigned 32-bit numbers. */
export function multiplyHigh(a: number, b: number): number {
  const aHigh = a >>> 16;
  const aLow = a & 0xffff;
  const bHigh = b >>> 16;
  const bLow = b & 0xffff;
  const middle = aHigh * bLow + Math.floor((aLow * bLow) / 0x10000);
  const carried = aLow * bHigh + (middle % 0x10000);
  return (aHigh * bHigh + Math.floor(middle / 0x10000) + Math.floor(carried / 0x10000)) >>> 0;
}

export function add(a: Word, b: Word): Word {
  const low = a.low + b.low;
  return { high: (a.high + b.high + (low > 0xffffffff ? 1 : 0)) >>> 0, low: low >>> 0 };
}

export function xor(a: Word, b: Word): Word {
  return { high: (a.high ^ b.high) >>> 0, low: (a.low ^ b.low) >>> 0 };
}

/** The lower 64 bits of a product. */
export function multiply(a: Word, b: Word): Word {
  const high = multiplyHigh(a.low, b.low) + Math.imul(a.high, b.low) + Math.imul(a.low, b.high);
  return { high: high >>> 0, low: Math.imul(a.low, b.low) >>> 0 };
}

/** The finaliser of SplitMix64. */
export function mix(word: Word): Word {
  const first = multiply(xorShifted(word, 30), MIX_1);
  const second = multiply(xorShifted(first, 27), MIX_2);
  return xorShifted(second, 31);
}

/** `word ^ (word >> bits)`, for 1 to 31 bits. */
function xorShifted(word: Word, bits: number): Word {
  const shifted = (word.low >>> bits) | (word.high << (32 - bits));
  return { high: (word.high ^ (word.high >>> bits)) >>> 0, low: (word.low ^ shifted) >>> 0 };
}
