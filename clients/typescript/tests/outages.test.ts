/** Troubles of the service: people see a list, nobody waits for long, and nothing is lost or counted twice. */

import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Client, MemorySpool, type ClientOptions } from "../src/index.js";
import { FolderSpool } from "../src/node.js";
import { until } from "./service.js";
import { problem, SETTINGS, StandIn } from "./stand_in.js";

const RANKINGS = { production: ["a", "b", "c", "d"], candidate: ["c", "e", "a", "f"] };
const LIST = "/v1/experiments/shoes/interleave";
const EVENTS = "/v1/events";

let service: StandIn;
let folder: string;
const logged: string[] = [];
const open: Client[] = [];

beforeEach(async () => {
  service = await StandIn.start();
  folder = mkdtempSync(join(tmpdir(), "interleaf-"));
  logged.length = 0;
});

afterEach(async () => {
  await Promise.all(open.splice(0).map((client) => client.close()));
  await service.stop().catch(() => {});
  rmSync(folder, { recursive: true });
});

function make(options: ClientOptions = {}): Client {
  const log = (message: string): number => logged.push(message);
  const client = new Client(service.url, { timeoutMs: 300, backoffMs: [20, 50], slow: null, log, ...options });
  open.push(client);
  return client;
}

/** A client that has seen the service. */
async function makeKnowing(options: ClientOptions = {}): Promise<Client> {
  const client = make(options);
  await client.interleave("shoes", RANKINGS, { unit: "before" });
  await until(() => service.asked.some(({ call }) => call.startsWith("GET ")));
  await client.status();
  await new Promise((resolve) => setTimeout(resolve, 20));
  return client;
}

const TROUBLES: [string, NonNullable<StandIn["trouble"]>][] = [
  ["no answer", () => null],
  ["status 500", () => problem(500, "internal")],
  ["status 503", () => problem(503, "store_away")],
  ["status 429", () => problem(429, "too_many")],
  ["another server", () => [404, { error: "not found" }]],
  ["a redirect", () => [302, "", { Location: "http://127.0.0.1:9/" }]],
  ["the page of a hotel", () => [200, "<html>hotel</html>"]],
  ["half an answer", () => [200, '{"impression": "i", "doc']],
  ["an answer without its fields", () => [200, { impression: "i" }]],
  ["a list", () => [200, "[]"]],
];

it.each(TROUBLES)("with %s the list is drawn here, and only the first waits", async (_, trouble) => {
  const client = await makeKnowing();
  const before = service.bodies(LIST).length;
  service.trouble = trouble;
  const answers = [];
  for (let unit = 0; unit < 10; unit++)
    answers.push(await client.interleave("shoes", RANKINGS, { unit: `u-${unit}`, query: "q" }));
  for (const { documents, arm, token, version, stored } of answers) {
    expect(documents.length).toBe(3);
    expect({ arm, token, version, stored }).toEqual({ arm: "interleaved", token: null, version: 1, stored: false });
  }
  expect((await client.status()).away).toBe(true);
  const waited = service
    .bodies(LIST)
    .slice(before)
    .filter((body) => body.time === undefined);
  expect(waited.length).toBe(1);
  service.trouble = null;
  await until(async () => (await client.status()).waiting === 0);
  await until(async () => (await client.interleave("shoes", RANKINGS)).stored);
  const delivered = service
    .bodies(LIST)
    .slice(before)
    .filter((body) => body.time !== undefined);
  const once = new Map(delivered.map((body) => [body.impression, body]));
  for (const { impression, version } of answers) expect(once.get(impression!)).toMatchObject({ version });
});

it("logs once a minute that an experiment is gone", async () => {
  const client = await makeKnowing();
  service.trouble = (call) => (call.startsWith("POST ") ? problem(404, "not_found") : undefined);
  for (let unit = 0; unit < 10; unit++) {
    expect(await client.interleave("shoes", RANKINGS, { unit: `u-${unit}` })).toMatchObject({ stored: false });
  }
  expect(logged.filter((message) => message.startsWith('experiment "shoes": '))).toHaveLength(1);
});

it("waits for no longer than the time-out", async () => {
  const client = await makeKnowing({ timeoutMs: 200 });
  service.trouble = () => null;
  const began = performance.now();
  await client.interleave("shoes", RANKINGS);
  expect(performance.now() - began).toBeLessThan(1500);
});

it("delivers lists before their events, each with its time", async () => {
  const client = await makeKnowing();
  await service.stop();
  const began = new Date().toISOString();
  const first = await client.interleave("shoes", RANKINGS, { unit: "u" });
  expect(await client.click(first.impression, 2, 3.5)).toMatchObject({ spooled: 1 });
  const second = await client.interleave("shoes", RANKINGS, { unit: "v" });
  expect(await client.event({ impression: second.impression, rank: 1, kind: "purchase", value: 9 })).toMatchObject({
    spooled: 1,
  });
  const ended = new Date().toISOString();
  const seen = service.asked.length;
  await service.start();
  await until(async () => (await client.status()).waiting === 0);
  const delivered = service.asked.slice(seen).filter(({ call }) => call.startsWith("POST"));
  expect(delivered.map(({ call }) => call)).toEqual([`POST ${LIST}`, `POST ${LIST}`, `POST ${EVENTS}`]);
  const [
    one,
    two,
    {
      body: { events },
    },
  ] = delivered as any;
  expect([one.body.impression, two.body.impression]).toEqual([first.impression, second.impression]);
  expect(events).toMatchObject([
    { rank: 2, dwell: 3.5, kind: "click" },
    { rank: 1, kind: "purchase", value: 9 },
  ]);
  for (const { time } of [one.body, two.body, ...events]) expect(began <= time && time <= ended).toBe(true);
});

it("counts answers that are slow as an outage, and returns when they are quick", async () => {
  const client = await makeKnowing({ timeoutMs: 400, slow: [0.25, 3] });
  let pause = 200;
  service.trouble = () => {
    const end = performance.now() + pause;
    while (performance.now() < end); // the whole stand-in is slow
    return undefined;
  };
  await until(async () => !(await client.interleave("shoes", RANKINGS)).stored);
  pause = 0;
  await until(async () => (await client.interleave("shoes", RANKINGS)).stored);
});

it("shows the first ranking of an experiment that it never saw, or the control of one that does not run", async () => {
  service.trouble = () => problem(503, "store_away");
  const client = make();
  const unknown = await client.interleave("shoes", RANKINGS, { k: 2, fixed: { 1: "ad" } });
  expect(unknown).toMatchObject({ impression: null, documents: ["ad", "a"], arm: "fallback", version: null });
  service.trouble = (call) => (call === `POST ${LIST}` ? problem(409, "wrong_state") : undefined);
  service.state = "stopped";
  service.settings = { ...SETTINGS, control: "candidate" };
  await until(async () => !(await client.status()).away);
  const stopped = await client.interleave("shoes", RANKINGS);
  expect(stopped).toMatchObject({ impression: null, documents: ["c", "e", "a"], arm: "outside" });
  expect(await client.click(stopped.impression, 1)).toMatchObject({ accepted: 0, spooled: 0, unusable: 0 });
});

it("shows the control where only the service can draw the method, and says so", async () => {
  service.settings = { ...SETTINGS, method: "probabilistic" };
  const client = await makeKnowing();
  await until(() => logged.some((message) => message.includes("probabilistic")));
  await service.stop();
  const answer = await client.interleave("shoes", RANKINGS);
  expect(answer).toMatchObject({ impression: null, documents: ["a", "b", "c"], arm: "fallback" });
  expect((await client.status()).waiting).toBe(0);
});

describe("refusals", () => {
  it("of values of visitors show the control, and those of the caller throw", async () => {
    const client = await makeKnowing();
    service.trouble = () => problem(422, "invalid", "captions[a].title");
    expect(await client.interleave("shoes", RANKINGS)).toMatchObject({ arm: "outside", impression: null });
    expect((await client.status()).cleaned).toBe(1);
    service.trouble = () => problem(422, "invalid", "latency");
    await expect(client.interleave("shoes", RANKINGS)).rejects.toMatchObject({ status: 422, field: "latency" });
  });

  it("of an unknown key throw at first, and are an outage later", async () => {
    service.trouble = () => problem(401, "no_key");
    await expect(make().interleave("shoes", RANKINGS)).rejects.toMatchObject({ status: 401 });
    service.trouble = null;
    const client = await makeKnowing();
    service.trouble = () => problem(401, "no_key");
    expect(await client.interleave("shoes", RANKINGS)).toMatchObject({ arm: "interleaved", stored: false });
    expect(await client.click("i", 1)).toMatchObject({ spooled: 1 });
    expect((await client.status()).away).toBe(true);
  });

  it("of a key of another experiment show the control, and are counted", async () => {
    const client = await makeKnowing();
    service.trouble = () => problem(403, "wrong_experiment");
    expect(await client.interleave("shoes", RANKINGS)).toMatchObject({ arm: "outside", impression: null });
    expect(await client.status()).toMatchObject({ away: false, refused: 1 });
  });

  it("of one event do not block the others", async () => {
    const client = await makeKnowing();
    const isBad = (event: any): boolean => event.rank === 2;
    service.trouble = (_, body) => (body?.events?.some(isBad) ? problem(422, "invalid", "events[1].rank") : undefined);
    const events = [1, 2, 3].map((rank) => ({ impression: "i", rank }));
    expect(await client.events(events)).toMatchObject({ accepted: 2, unusable: 1 });
  });

  it("of spooled records drop them, or set them aside if another key may send them", async () => {
    const client = await makeKnowing({ spool: new FolderSpool(folder) });
    await service.stop();
    await client.interleave("shoes", RANKINGS, { unit: "u" });
    await client.interleave("shoes", RANKINGS, { unit: "v" });
    await service.start();
    service.trouble = (call, body) => {
      if (call !== `POST ${LIST}`) return undefined;
      return body.unit === "u" ? problem(422, "invalid") : problem(403, "wrong_experiment");
    };
    await until(async () => (await client.status()).waiting === 0);
    expect(await client.status()).toMatchObject({ refused: 2, quarantined: 0 });
    expect(readdirSync(folder).filter((name) => name.endsWith(".bad")).length).toBe(1);
  });
});

it("sets a record aside that the service answers with 500 while it takes others", async () => {
  const client = await makeKnowing({ spool: new FolderSpool(folder) });
  await service.stop();
  await client.interleave("shoes", RANKINGS, { unit: "poison" });
  await client.interleave("shoes", RANKINGS, { unit: "good" });
  await service.start();
  service.trouble = (_, body) => (body?.unit === "poison" ? problem(500, "internal") : undefined);
  await until(async () => {
    await client.interleave("shoes", RANKINGS, { unit: "more" });
    return (await client.status()).quarantined === 1;
  });
  await until(async () => (await client.status()).waiting === 0);
});

it("sets files aside that are no records", async () => {
  const spool = new FolderSpool(folder);
  await spool.put("not JSON");
  await spool.put('{"experiment": null, "body": {"events": []}}');
  await spool.put('{"experiment": "shoes", "body": 3}');
  const client = make({ spool });
  await until(async () => (await client.status()).quarantined === 3);
});

describe("a spool", () => {
  it("that is full drops new records, and counts them", async () => {
    const client = await makeKnowing({ spool: new MemorySpool(1) });
    await service.stop();
    await client.interleave("shoes", RANKINGS);
    await client.interleave("shoes", RANKINGS);
    expect(await client.status()).toMatchObject({ waiting: 1, dropped: 1 });
    expect(logged.join()).toContain("records are dropped from now on: the spool is full");
  });

  it("in a folder is private, and one that cannot be written does not stop the search", async () => {
    const spool = new FolderSpool(join(folder, "new"));
    expect(await spool.put("{}")).toBe(true);
    expect(statSync(join(folder, "new")).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, "new", (await spool.names())[0]!)).mode & 0o777).toBe(0o600);
    writeFileSync(join(folder, "file"), "");
    const broken = new FolderSpool(join(folder, "file"));
    expect(await broken.put("{}")).toBe(false);
    expect(broken.dropped).toBe(1);
    expect(await broken.names()).toEqual([]);
  });

  it("gives names in order", async () => {
    const spool = new FolderSpool(folder);
    for (let place = 0; place < 20; place++) await spool.put(String(place));
    const texts = await Promise.all((await spool.names()).map((name) => spool.read(name)));
    expect(texts).toEqual(Array.from({ length: 20 }, (_, place) => String(place)));
  });
});

it("delivers at its end what can be delivered, and takes nothing afterwards", async () => {
  const client = await makeKnowing({ backoffMs: [60_000, 60_000] });
  await service.stop();
  await client.interleave("shoes", RANKINGS);
  await new Promise((resolve) => setTimeout(resolve, 50)); // it waits for the next try now
  await service.start();
  await client.close();
  expect((await client.status()).waiting).toBe(0);
  expect(service.bodies(LIST).at(-1)).toHaveProperty("time");
  await expect(client.interleave("shoes", RANKINGS)).rejects.toThrow(/closed/);
});

it("refuses arguments that cannot be sent", async () => {
  const client = make();
  const captions = { a: { title: "T" } };
  const latency = { production: 10n as never };
  await expect(client.interleave("shoes", RANKINGS, { captions, latency })).rejects.toThrow(
    /cannot be written as JSON/,
  );
  await expect(client.interleave("shoes", [["a"]] as never)).rejects.toThrow(/rankings are an object or a Map/);
  await expect(client.interleave("shoes", { a: [1.5] })).rejects.toThrow(/1.5 at rank 1/);
  await expect(client.interleave("shoes", RANKINGS, { fixed: { 1001: "ad" } })).rejects.toThrow(/1 to 1000/);
  expect(() => make({ timeoutMs: 0 })).toThrow(/timeoutMs is 0/);
  expect(() => make({ slow: [2, 3] })).toThrow(/slow is \[2,3\]/);
  expect(() => make({ key: "ä" })).toThrow(/key contains characters/);
  expect(() => new Client("ftp://x")).toThrow(/url is "ftp:\/\/x"/);
});

it("warns if records are lost at its end", async () => {
  const client = await makeKnowing();
  await service.stop();
  await client.interleave("shoes", RANKINGS);
  await client.close();
  expect(logged.at(-1)).toContain("1 records were never delivered");
});
