/** 100,000 lists are those that Python draws: tests/support/shared_lists.py makes the cases and their digests. */

import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { interleave } from "../src/interleave.js";
import { Keyed, keyOf, type Key } from "../src/randomness.js";
import { letter } from "../src/rankings.js";
import { readVectors } from "./vectors.js";

const VECTORS: { blocks: string[]; cases: any[] } = readVectors("shared_lists.json");
const BLOCK = 1000;
const RANKERS = [2, 2, 2, 3, 5];
const METHODS = [
  "competitive_pairs",
  "team_draft",
  "team_draft(fill=owned)",
  "team_draft(fill=stop)",
  "team_draft(prefix=True)",
  "team_draft(fill=owned, prefix=True)",
  "competitive_pairs(coins=list)", // for two rankers only
];
const WORDS = ["", "trail", "größe", "山靴", "\u{1f97e} boots", "\ud83e", "s1:a"];

interface Case {
  rankings: Record<string, string[]>;
  method: string;
  k: number;
  key: Key;
}

/** The case of a number: the steps of `make_case` in tests/support/shared_lists.py. */
function makeCase(number: number): Case {
  const randomness = new Keyed(keyOf(["shared lists", number]));
  const rankers = RANKERS[randomness.pick(RANKERS.length)]!;
  const method = METHODS[randomness.pick(METHODS.length - (rankers > 2 ? 1 : 0))]!;
  const k = 1 + randomness.pick(12);
  const pool = 1 + randomness.pick(12);
  const rankings: Record<string, string[]> = {};
  for (let place = 0; place < rankers; place++) {
    const length = place ? randomness.pick(pool + 1) : 1 + randomness.pick(pool);
    const shared = place ? randomness.pick(length + 1) : 0;
    const ranking = place ? rankings.A!.slice(0, shared) : [];
    const others = Array.from({ length: pool }, (_, document) => `d${document}`).filter(
      (one) => !ranking.includes(one),
    );
    while (ranking.length < length) ranking.push(...others.splice(randomness.pick(others.length), 1));
    rankings[letter(place)] = ranking;
  }
  const word = WORDS[randomness.pick(WORDS.length)]!;
  return { rankings, method, k, key: ["list", number, [word, number ? -number : 0]] };
}

function listText(number: number): string {
  const { rankings, ...options } = makeCase(number);
  const shown = interleave(rankings, options);
  return `${number} ${shown.documents.join(" ")} | ${shown.teams.join(" ")}\n`;
}

it("there are 100,000", () => {
  expect(VECTORS.blocks.length * BLOCK).toBe(100_000);
  expect(VECTORS.cases.length).toBe(200);
});

it.each(VECTORS.cases)("case $number is the same in full", ({ number, record, ...stored }) => {
  const { rankings, ...options } = makeCase(number);
  expect({ rankings, ...options }).toEqual(stored);
  expect(interleave(rankings, options).toRecord()).toEqual(record);
});

describe("blocks of a thousand lists", () => {
  it.each(VECTORS.blocks.map((digest, block) => [block, digest]))("block %i", (block, digest) => {
    const texts = Array.from({ length: BLOCK }, (_, place) => listText(Number(block) * BLOCK + place));
    expect(createHash("sha256").update(texts.join("")).digest("hex")).toBe(digest);
  });
});
