/** Keys and their random numbers are those of Python: tests/vectors/randomness.json. */

import { describe, expect, it } from "vitest";
import { Keyed, hashFraction, keyOf, type Key } from "../src/randomness.js";
import { readVectors } from "./vectors.js";

const ROWS: any[] = readVectors("randomness.json");

function take<T>(count: number, draw: () => T): T[] {
  return Array.from({ length: count }, draw);
}

describe.each(ROWS.map((row, number) => [number, row]))("row %i", (_, row) => {
  const start = (): Keyed => new Keyed(row.name);

  it("has the name of its key", () => {
    expect(keyOf(row.key)).toBe(row.name);
    expect(keyOf(row.name)).toBe(row.name);
  });

  it("has its random bits, picks and tosses", () => {
    const bits = start();
    const words = take(row.bits.length, () => bits.bits());
    expect(words.map(({ high, low }) => String((BigInt(high) << 32n) | BigInt(low)))).toEqual(row.bits);
    for (const [n, picks] of Object.entries<number[]>(row.picks)) {
      const randomness = start();
      expect(take(picks.length, () => randomness.pick(Number(n)))).toEqual(picks);
    }
    for (const { weights, picks } of row.weighted) {
      const randomness = start();
      expect(take(picks.length, () => randomness.pickWeighted(weights))).toEqual(picks);
    }
    for (const [probability, tosses] of Object.entries<boolean[]>(row.tosses)) {
      const randomness = start();
      expect(take(tosses.length, () => randomness.toss(Number(probability)))).toEqual(tosses);
    }
  });
});

describe("keys", () => {
  it("differ where their parts differ", () => {
    const keys: Key[] = ["a", ["a"], [["a"]], ["a", ""], ["", "a"], 1, "1", [1], -1, 10n ** 30n, []];
    expect(new Set(keys.map((key) => keyOf(key))).size).toBe(keys.length);
    expect(keyOf(7n)).toBe(keyOf(7));
    expect(keyOf()).not.toBe(keyOf());
  });

  it.each([1.5, Number.NaN, 2 ** 53, true, { a: 1 }, ["a", undefined]])("are not made of %j", (key) => {
    expect(() => keyOf(key as Key)).toThrow(/a key is made of texts, whole numbers and lists of them/);
  });

  it("pick only from 1 to 2^31 things", () => {
    const randomness = new Keyed(keyOf("a"));
    for (const n of [0, -1, 1.5, 2 ** 31 + 1]) expect(() => randomness.pick(n)).toThrow(/cannot pick one of/);
  });
});

it("hashes units as Python does", () => {
  // interleaf.kernels.buckets.hash_of("interleaf-unit", "user-7") is 0x8ca3ec4ceced21d3
  expect(hashFraction("interleaf-unit", "user-7")).toBe(Number(0x8ca3ec4ceced21d3n) / 2 ** 64);
});
