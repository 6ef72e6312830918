/** Values of visitors are cleaned as Python's client cleans them. */

import { describe, expect, it } from "vitest";
import { Visitors } from "../src/client/visitors.js";
import { visitorId } from "../src/index.js";
import { askPython, HAS_PYTHON } from "./service.js";

const LONG = "x".repeat(3000);
const TEXTS = ["", "a", "red\0 shoes", "\ud83e", "🥾".repeat(1500), LONG, "größe", 7, -1, 2 ** 40, ["one"], null];
const NUMBERS = [1, 0, -1, 2, 50, 51, 200, 201, "3", " 4 ", "x", "", 1.5, "1.5", 1e9, null];
const EVENTS = [
  { impression: "i", rank: 1, kind: "click" },
  { impression: "i", rank: "2", kind: "click", dwell: 3, value: -2.5 },
  { impression: "i", rank: 0, kind: "click" },
  { impression: "i", rank: 10_001, kind: "click" },
  { impression: "i", document: 7, kind: "click" },
  { impression: "i", document: LONG, kind: "click" },
  { unit: "u", document: "d", kind: "click" },
  { unit: "u", rank: 1, kind: "click" },
  { unit: "u", impression: "i", rank: 1, kind: "click" },
  { impression: LONG, rank: 1, kind: "click" },
  { impression: "i", rank: 1, kind: LONG },
  { impression: "i", rank: 1, kind: "" },
  { impression: "i", rank: 1, kind: "click", dwell: -1, value: 1e13 },
  { impression: "i", rank: 1, kind: "click", dwell: "2.5", value: "x" },
  { impression: "i", rank: 1, kind: "click", time: "2026-01-05T10:00:00Z" },
  { impression: "i", rank: 1, kind: "click", time: "2026-01-05 10:00:00" },
  { impression: "i", rank: 1, kind: "click", time: "yesterday", other: 1, event: "e" },
  { impression: "", rank: 1, kind: "click" },
  "no event",
  null,
];
const CAPTIONS = {
  a: { title: "T\0", snippet: LONG.repeat(10), deep_links: 3 },
  b: { deep_links: 1001, other: 1 },
  c: {
    highlights: [{ field: "title", start: 0, end: 3 }, { field: "", start: 0, end: 3 }, { field: "x", start: 1 }, 7],
  },
  d: { highlights: "no" },
  [LONG]: {},
  "": {},
  e: 3,
};
const CHARACTERS = { a: 7, b: "8", c: -1, d: 1.5, e: 1e9, [LONG]: 1, "": 1, f: null };
const ATTRIBUTES = { country: "DE", empty: "", none: null, age: 7, "bad\0": "x", [LONG]: "y" };

describe.runIf(HAS_PYTHON)("values of visitors", () => {
  it("are cleaned as Python's client cleans them", () => {
    const given = {
      texts: TEXTS,
      numbers: NUMBERS,
      events: EVENTS,
      captions: CAPTIONS,
      characters: CHARACTERS,
      attributes: ATTRIBUTES,
    };
    const theirs = askPython<any>(
      `import logging
from interleaf.client.visitors import Visitors
logging.disable()
visitors, steps = Visitors(), []
def run(function, *arguments):
    before = visitors.cleaned
    value = function(*arguments)
    if isinstance(value, dict): value.pop("event", None)
    steps.append([value, visitors.cleaned - before])
for text in given["texts"]:
    run(visitors.id, "unit", text)
    run(visitors.text, "query", text, 2000)
for number in given["numbers"]:
    run(visitors.k, number)
    run(visitors.page, number)
for event in given["events"]:
    run(visitors.event, event)
run(visitors.captions, given["captions"])
run(visitors.characters, given["characters"])
run(visitors.attributes, given["attributes"])
answer = steps`,
      given,
    );
    const visitors = new Visitors(() => {});
    const steps: [unknown, number][] = [];
    const run = (step: () => unknown): void => {
      const before = visitors.cleaned;
      const value = step() as any;
      if (value?.event !== undefined) delete value.event;
      steps.push([value, visitors.cleaned - before]);
    };
    for (const text of TEXTS) {
      run(() => visitors.id("unit", text));
      run(() => visitors.text("query", text, 2000));
    }
    for (const number of NUMBERS) {
      run(() => visitors.k(number));
      run(() => visitors.page(number));
    }
    for (const event of EVENTS) run(() => visitors.event(event));
    run(() => visitors.captions(CAPTIONS));
    run(() => visitors.characters(CHARACTERS));
    run(() => visitors.attributes(ATTRIBUTES));
    const moment = (step: any): any => {
      if (step?.time) step.time = new Date(step.time).toISOString();
      return step;
    };
    expect(steps.map(([value, count]) => [moment(value), count])).toEqual(
      theirs.map(([value, count]: any) => [moment(value), count]),
    );
  });

  it("have ids in the same cookie as Python's", () => {
    const fresh = visitorId("", { days: 7 });
    const header = `${fresh.setCookie!.split(";")[0]}; theme=dark`;
    expect(visitorId(`a=b; ${header}`)).toEqual({ id: fresh.id, setCookie: null });
    expect(visitorId({ interleaf_visitor: fresh.id })).toEqual({ id: fresh.id, setCookie: null });
    const [known, setCookie] = askPython<[string, string]>(
      `import interleaf
fresh = interleaf.visitor_id("", days=7)
answer = [interleaf.visitor_id(given).id, fresh.set_cookie.replace(fresh.id, "ID")]`,
      header,
    );
    expect(known).toBe(fresh.id);
    expect(setCookie).toBe(fresh.setCookie!.replace(fresh.id, "ID"));
    expect(visitorId("interleaf_visitor=forged").setCookie).not.toBeNull();
    expect(() => visitorId("", { name: "a b", days: 0 })).toThrow(/name is "a b".*\n.*days is 0/);
  });
});

it("warn once for each field, without the value", () => {
  const messages: string[] = [];
  const visitors = new Visitors((message) => messages.push(message));
  for (const value of [LONG, LONG, "secret\0"]) visitors.id("unit", value);
  expect(messages.length).toBe(1);
  expect(messages[0]).not.toContain("x".repeat(10));
  expect(visitors.cleaned).toBe(3);
});
