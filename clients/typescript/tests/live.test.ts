/** The client and the real service: one list for both, and after an outage everything is in the store exactly once. */

import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { showList, type ListRequest } from "../src/experiment/serving.js";
import { readSettings } from "../src/experiment/settings.js";
import { Client, type Answer } from "../src/index.js";
import { FolderSpool } from "../src/node.js";
import { askPython, HAS_PYTHON, PATIENCE, Service, until } from "./service.js";

const RANKINGS = { production: ["a", "b", "c", "d", "g"], candidate: ["c", "e", "a", "f", "b"] };
const PATIENT = { timeoutMs: 60_000, slow: null, log: () => {} };

describe.runIf(HAS_PYTHON)("with a real service", () => {
  let service: Service;
  let client: Client;

  beforeAll(async () => {
    service = await Service.start();
    client = new Client(service.url, PATIENT);
  });

  afterAll(async () => {
    await client.close();
    await service.end();
  });

  /** Asks for the report until it has these totals: the service keeps a report for some seconds. */
  async function expectTotals(name: string, totals: object): Promise<void> {
    const ask = async (): Promise<unknown> => {
      const { reports } = await client.call("GET /v1/experiments/{name}/report", { path: { name } });
      return (reports.click as any).totals;
    };
    await expect.poll(ask, { timeout: PATIENCE, interval: 200 }).toMatchObject(totals);
  }

  const SETTINGS: [string, object][] = [
    ["the default", {}],
    ["shares and holdouts", { share: 0.7, holdout: 0.3 }],
    ["a lane", { share: 0.5, lane: "shop", offset: 0.25 }],
    ["one coin", { method: "competitive_pairs(coins=list)" }],
    ["team draft", { method: "team_draft(fill=owned, prefix=True)" }],
    ["lists that stop early", { method: "team_draft(fill=stop)" }],
    ["one list", { mode: "one_list", holdout: 0.3 }],
    ["an A/A test", { mode: "aa" }],
    ["a relabelled A/A test", { mode: "aa_relabelled" }],
    ["a known loser", { mode: "known_loser" }],
    ["three rankers", { rankers: ["production", "candidate", "third"] }],
  ];
  const REQUESTS: object[] = [
    {},
    { query: "größe 🥾", k: 2 },
    { fixed: { 2: "ad", 5: "c" } },
    { rankings: { production: [], candidate: ["a", "b"] } },
    { rankings: { production: ["a", "b"], candidate: [] } },
    { rankings: { production: [], candidate: [] } },
    { rankings: { production: [], candidate: [] }, fixed: { 1: "ad" } },
    { rankings: { production: [], candidate: null } },
    { rankings: { production: null, candidate: [] } },
    { rankings: { production: null, candidate: null } },
    { rankings: { ...RANKINGS, candidate: null } },
  ];

  it.each(SETTINGS)("draws the same lists as the service, with %s", async (title, some) => {
    const name = title.replaceAll(/[ /]/g, "-");
    await service.make({ name, ...some });
    const described = await client.call("GET /v1/experiments/{name}", { path: { name } });
    const settings = readSettings(described.settings)!;
    for (const [number, more] of REQUESTS.entries()) {
      for (const unit of ["user-1", "user-2", "user-3", "größe", null]) {
        const impression = `${name}-${number}-${unit}`;
        const isThird = settings.rankers.includes("third");
        const third = isThird ? { third: number % 2 ? [] : ["g", "h", "a"] } : {};
        const given = { rankings: { ...RANKINGS, ...third }, ...more };
        const served = await client.interleave(name, given.rankings, { ...given, unit, impression });
        const request = toRequest(impression, unit, given);
        const { isLogged, ...shown } = showList(settings, described.version, request);
        expect(shown, impression).toEqual({ documents: served.documents, arm: served.arm });
        expect(isLogged).toBe(served.stored);
      }
    }
  });

  it("draws the same further pages", async () => {
    await service.make({ name: "pages" });
    const described = await client.call("GET /v1/experiments/{name}", { path: { name: "pages" } });
    const settings = readSettings(described.settings)!;
    const first = await client.interleave("pages", RANKINGS, { unit: "u", query: "q" });
    const second = await client.interleave("pages", RANKINGS, {
      unit: "u",
      query: "q",
      page: 2,
      impression: first.impression,
    });
    const pages = [1, 2].map((page) => {
      const request = toRequest(first.impression!, "u", { rankings: RANKINGS, query: "q", page });
      return showList(settings, described.version, request).documents;
    });
    expect(pages).toEqual([first.documents, second.documents]);
    expect(second.documents.length).toBe(3);
  });

  it("sends one document of each group", async () => {
    const groups = { a: "shoe", c: "shoe" };
    const answers = await Promise.all(
      ["1", "2", "3", "4"].map((unit) => client.interleave("the-default", RANKINGS, { unit, groups, k: 9 })),
    );
    for (const { documents } of answers) expect([...documents].sort()).toEqual(["a", "b", "d", "e", "f", "g"]);
  });

  it("counts clicks, and completes one by its dwell", async () => {
    const { impression } = await client.interleave("the-default", RANKINGS, { unit: "u" });
    const click = { event: "e-1", impression, rank: 1 };
    expect(await client.event(click)).toEqual({ accepted: 1, repeated: 0, unmatched: 0, spooled: 0, unusable: 0 });
    expect(await client.event({ ...click, dwell: 12.5 })).toMatchObject({ accepted: 0, repeated: 1 });
    expect(await client.click(null, 1)).toEqual({ accepted: 0, repeated: 0, unmatched: 0, spooled: 0, unusable: 0 });
    await expectTotals("the-default", { clicked: 1 });
  });

  it("tells what is wrong with the arguments of the caller", async () => {
    await expect(client.interleave("nothing", RANKINGS)).rejects.toMatchObject({ status: 404 });
    await expect(client.interleave("the-default", { production: ["a"], other: ["b"] })).rejects.toThrow(/other/);
    await expect(client.interleave("the-default", { ...RANKINGS, candidate: ["a", "a"] })).rejects.toThrow(/twice/);
    const settings = { name: "", rankers: ["a", "b"] };
    await expect(client.call("POST /v1/experiments", { takes: settings })).rejects.toMatchObject({ field: "name" });
  });

  it("loses nothing in an outage", async () => {
    await service.make({ name: "outage", holdout: 0.2, share: 0.8 });
    const folder = join(service.folder, "spool");
    const units = Array.from({ length: 40 }, (_, number) => `user-${number}`);
    const quick = { ...PATIENT, spool: new FolderSpool(folder), backoffMs: [50, 200] as const };
    const spooling = new Client(service.url, quick);
    const show = (by: Client): Promise<Answer[]> =>
      Promise.all(units.map((unit) => by.interleave("outage", RANKINGS, { unit, query: "trail", fixed: { 2: "ad" } })));
    const served = await show(spooling);
    await until(async () => (await new FolderSpool(folder).readSettings("outage")) !== null);
    await service.stop();
    const composed = await show(spooling);
    const pick = ({ documents, arm, version }: Answer): object => ({ documents, arm, version });
    expect(composed.map(pick)).toEqual(served.map(pick));
    const logged = composed.filter(({ impression }) => impression !== null);
    for (const { impression } of logged) expect(await spooling.click(impression, 1)).toMatchObject({ spooled: 1 });
    expect(await spooling.status()).toMatchObject({ away: true, waiting: 2 * logged.length });
    await service.start();
    await until(async () => !(await spooling.status()).away && (await spooling.status()).waiting === 0);
    await spooling.close();
    await expectTotals("outage", { impressions: 2 * logged.length, clicked: logged.length });
    expect(logged.length).toBeGreaterThan(20);
  });

  it("leaves records that Python's client delivers, and delivers those of Python's client", async () => {
    await service.make({ name: "both" });
    const folder = join(service.folder, "both");
    const first = new Client(service.url, { ...PATIENT, spool: new FolderSpool(folder) });
    await first.interleave("both", RANKINGS, { unit: "before" });
    await until(async () => (await new FolderSpool(folder).readSettings("both")) !== null);
    await first.close();
    const away = new Client("http://127.0.0.1:9", { ...PATIENT, spool: new FolderSpool(folder) });
    const { impression } = await away.interleave("both", RANKINGS, { unit: "node" });
    await away.click(impression, 1);
    await away.close();
    expect((await new FolderSpool(folder).names()).length).toBe(2);
    const [waiting, spooled] = askPython<[number, string]>(
      `import interleaf, time
with interleaf.Client(given["url"], spool=given["folder"], timeout=60) as client:
    while client.status().waiting: time.sleep(0.02)
    answer = client.status().waiting
with interleaf.Client("http://127.0.0.1:9", spool=given["folder"]) as client:
    shown = client.interleave("both", given["rankings"], unit="python")
    client.click(shown.impression, 2)
    answer = [answer, shown.impression]`,
      { url: service.url, folder, rankings: RANKINGS },
    );
    expect([waiting, typeof spooled]).toEqual([0, "string"]);
    const last = new Client(service.url, { ...PATIENT, spool: new FolderSpool(folder) });
    await until(async () => (await last.status()).waiting === 0);
    expect(await last.status()).toMatchObject({ refused: 0, quarantined: 0 });
    await last.close();
    await expectTotals("both", { impressions: 3, clicked: 2 });
  });
});

function toRequest(impression: string, unit: string | null, given: any): ListRequest {
  const { rankings, query = null, k = null, page = 1, fixed = {} } = given;
  const places = Object.entries<string>(fixed).map(([rank, one]): [number, string] => [Number(rank), one]);
  return {
    impression,
    unit,
    query,
    rankings: new Map(Object.entries(rankings)) as any,
    k,
    page,
    fixed: new Map(places),
  };
}
