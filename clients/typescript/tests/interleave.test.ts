/** `interleave`: fixed documents and groups as in Python, and errors that name all problems. */

import { describe, expect, it } from "vitest";
import { interleave, RankingError, type Rankings } from "../src/index.js";
import { resolve } from "../src/methods/registry.js";
import { askPython, HAS_PYTHON } from "./service.js";

const RANKINGS = { production: ["d4", "d1", "d7"], candidate: ["d1", "d9", "d4"] };

it("draws the list of the front page of the documentation", () => {
  const shown = interleave(RANKINGS, { key: ["shoe-test", "user-0", "running shoes"] });
  expect(shown).toMatchObject({ documents: ["d1", "d4", "d7", "d9"], teams: [1, 0, 0, 1] });
});

describe.runIf(HAS_PYTHON)("the records", () => {
  const CASES = [
    [
      { A: ["d4", "d1"], B: ["d1", "d9"] },
      { k: 3, fixed: { 1: "ad" } },
    ],
    [
      { A: ["d4", "d1"], B: ["d1", "d9"] },
      { k: 9, fixed: { 2: "d1", 12: "x" } },
    ],
    [
      { A: ["d4", "d1"], B: ["d1", "d9"] },
      { k: 12, fixed: { 2: "d1", 12: "x" } },
    ],
    [{ A: [4, 1, 2], B: [1, 9, 3] }, { fixed: { 1: 9 } }],
    [{ A: ["red", "blue", "hat"], B: ["hat", "blue"] }, { groups: { red: "shoe", blue: "shoe" } }],
    [
      { A: ["red", "blue", "hat"], B: ["hat", "blue"] },
      { groups: { red: "shoe", blue: "shoe" }, fixed: { 1: "red" } },
    ],
    [{ A: [1, 2, 3], B: [3, 2, 1] }, { groups: { 1: "shoe", 2: "shoe" } }],
  ] as const;

  it("are those of Python, with fixed documents and groups", () => {
    const theirs = askPython<unknown[]>(
      `import interleaf
answer = []
for rankings, options in given:
    options = options | {"fixed": {int(rank): one for rank, one in options["fixed"].items()}} if "fixed" in options else options
    for key in range(10):
        try:
            shown = interleaf.interleave(rankings, key=key, **options)
            record = shown.to_dict(rankings=True, probability=False)
            answer.append([record, list(shown.whole_list)])
        except interleaf.InterleafError:
            answer.append(None)`,
      CASES,
    );
    const ours = CASES.flatMap(([rankings, options]) =>
      Array.from({ length: 10 }, (_, key) => {
        try {
          const shown = interleave(rankings, { key, ...options });
          return [shown.toRecord(), shown.wholeList];
        } catch (error) {
          if (error instanceof RankingError) return null;
          throw error;
        }
      }),
    );
    expect(ours).toEqual(theirs);
    expect(ours.filter((one) => one === null).length).toBe(10);
  });

  it("are credited by Python", () => {
    const record = interleave(RANKINGS, { key: "user-7" }).toRecord();
    const credit = askPython<object>(
      `import interleaf
answer = interleaf.credit(interleaf.Interleaving.from_dict(given), clicks=[1]).credit`,
      record,
    );
    expect(Object.keys(credit)).toEqual(["production", "candidate"]);
  });
});

describe("errors", () => {
  it.each<[Rankings, RegExp]>([
    [{ A: ["a"] }, /compares 2 to 127 rankers, not 1/],
    [{ A: ["a", "a"], B: ["b", "c", "b"] }, /"A" holds document "a" twice, at ranks 1 and 2.*\n.*"B".*ranks 1 and 3/],
    [{ A: [], B: [] }, /every ranking is empty/],
    [{ A: ["a", 1.5 as never], B: ["b"] }, /1.5 at rank 2; a document id is a text or a whole number/],
    [{ A: ["7"], B: [7] }, /hold both 7 and "7"/],
    [{ A: "abc" as never, B: ["a"] }, /give an array of documents/],
    [{ B: ["a"], 2: ["b"] }, /ranker "2" is a whole number as the name of a property/],
    ["abc" as never, /rankings are an object or a Map/],
  ])("of %j", (rankings, message) => {
    expect(() => interleave(rankings)).toThrow(message);
  });

  it("of fixed documents are listed together", () => {
    const fixed = { 0: "a", 12: "b", 3: "b" };
    expect(() => interleave(RANKINGS, { fixed })).toThrow(/rank 0; .*\n.*rank 12, but k is 10.*/);
    expect(() => interleave(RANKINGS, { k: 1, fixed: { 1: "ad" } })).toThrow(/takes all of the 1 ranks/);
    expect(() => interleave(RANKINGS, { k: 0 })).toThrow(/k is 0/);
  });

  it("of methods name those that there are", () => {
    expect(() => resolve("probabilistic")).toThrow(/there are competitive_pairs, team_draft, one_list/);
    expect(() => resolve("team_draft(full=stop)")).toThrow(/no parameter "full"; it has fill, prefix/);
    expect(() => resolve("team_draft(fill=all)")).toThrow(/cannot be "all"; give "fair" or "owned" or "stop"/);
    expect(() => resolve("team_draft(fill=stop, fill=stop)")).toThrow(/twice/);
    expect(() => resolve("team draft")).toThrow(/is not a spec/);
    expect(() => resolve("constructor")).toThrow(/cannot be drawn here/);
    expect(() => interleave([["a"], ["b"], ["c"]], { method: "competitive_pairs(coins=list)" })).toThrow(/exactly 2/);
  });
});

it.each([
  ["team_draft( fill = 'owned', prefix=False )", "team_draft(fill=owned)"],
  ["team_draft(prefix=True, fill=stop,)", "team_draft(fill=stop, prefix=True)"],
  [" competitive_pairs() ", "competitive_pairs"],
])("the canonical form of %j is %j", (spec, text) => {
  expect(resolve(spec).text).toBe(text);
});
