/** The shop on Express works: people search and click, and the experiment says whom they prefer. */

import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createShop } from "../examples/express_shop.js";
import { Client } from "../src/index.js";
import { HAS_PYTHON, Service } from "./service.js";

const QUERIES = ["rain jacket", "trail runner"];
const VISITORS = 40;

describe.runIf(HAS_PYTHON)("the shop on Express", () => {
  let service: Service;
  let client: Client;
  let server: ReturnType<ReturnType<typeof createShop>["listen"]>;
  let shop: string;

  beforeAll(async () => {
    service = await Service.start();
    const kinds = { events: { click: 1, purchase: 5 }, attribution: "last_impression" };
    await service.make({ name: "shop", k: 5, ...kinds });
    client = new Client(service.url, { timeoutMs: 60_000, slow: null });
    server = createShop(client, service.url).listen(0);
    shop = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });

  afterAll(async () => {
    await new Promise((resolve) => server.close(resolve));
    await client.close();
    await service.end();
  });

  async function search(
    query: string,
    cookie: string,
  ): Promise<{ page: string; products: string[]; cookie: string | null }> {
    const reply = await fetch(`${shop}/search?q=${encodeURIComponent(query)}`, { headers: { cookie } });
    const page = await reply.text();
    return {
      page,
      products: [...page.matchAll(/">([^<]+)<\/a>/g)].map(([, name]) => name!),
      cookie: reply.headers.get("set-cookie"),
    };
  }

  /** What the script of the page does. */
  async function click(page: string, rank: number): Promise<void> {
    const [, impression] = /data-impression="(\w+)"/.exec(page)!;
    const [, token] = /data-token="([\w.-]+)"/.exec(page)!;
    const body = JSON.stringify({ events: [{ impression, rank, kind: "click" }], token });
    expect((await fetch(`${service.url}/v1/events`, { method: "POST", body })).status).toBe(202);
  }

  it("has a verdict for the ranker that knows the words of a query", async () => {
    for (let number = 0; number < VISITORS; number++) {
      const cookie = `interleaf_visitor=${number.toString(16).padStart(32, "0")}`;
      for (const query of QUERIES) {
        const { page, products } = await search(query, cookie);
        expect((await search(query, cookie)).products).toEqual(products);
        expect(products.length).toBe(5);
        const words = query.split(" ");
        const wanted = products.findIndex((product) => words.every((word) => product.split(" ").includes(word)));
        const rank = number % 3 ? wanted + 1 : 1; // every third opens the top
        if (rank) await click(page, rank);
      }
      if (number === 0) {
        const bought = await fetch(`${shop}/buy/${encodeURIComponent("gloves")}`, {
          method: "POST",
          headers: { cookie },
        });
        expect(bought.status).toBe(204);
      }
    }
    const { reports } = await client.call("GET /v1/experiments/{name}/report", { path: { name: "shop" } });
    expect(reports.click).toMatchObject({ verdict: { winner: "candidate" }, totals: { units: VISITORS } });
  });

  it("gives new visitors a cookie, and shows a list while the service is away", async () => {
    const { cookie } = await search("gloves", "");
    expect(cookie).toMatch(/^interleaf_visitor=[0-9a-f]{32}; Max-Age=7776000; Path=\/; SameSite=Lax; HttpOnly$/);
    const before = await search("rain hat", "interleaf_visitor=" + "a".repeat(32));
    await service.stop();
    const after = await search("rain hat", "interleaf_visitor=" + "a".repeat(32));
    expect(after.products).toEqual(before.products);
    expect(after.page).toContain('data-token=""');
    await service.start();
  });
});
