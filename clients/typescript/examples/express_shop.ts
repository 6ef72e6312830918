/** A shop on Express that gets its lists from the interleaf service, and whose pages report clicks to it.
 *
 *     interleaf serve --store shop.sqlite --port 8080   # create and start the experiment "shop" on its page
 *     INTERLEAF_URL=http://127.0.0.1:8080 npx vite-node examples/express_shop.ts
 *
 * Then open http://127.0.0.1:3000/search?q=rain+jacket. If the service is down, the shop shows lists all the same.
 */

import express, { type Express } from "express";
import { Client, visitorId, type Answer } from "interleaf";
import { FolderSpool } from "interleaf/node";
import { rankings } from "./catalogue.js";

/** The shop; `service` is the URL from which browsers load the script. */
export function createShop(client: Client, service: string): Express {
  const shop = express();

  shop.get("/search", async (request, response) => {
    const visitor = visitorId(request.headers.cookie, { secure: request.secure });
    if (visitor.setCookie) response.append("Set-Cookie", visitor.setCookie);
    const query = String(request.query.q ?? "");
    const userAgent = request.get("User-Agent") ?? null;
    const answer = await client.interleave("shop", rankings(query), { unit: visitor.id, query, k: 5, userAgent });
    response.send(searchPage(answer, service));
  });

  shop.get("/products/:name", (request, response) => {
    response.send(`<!doctype html><title>Product</title><h1>${escape(request.params.name)}</h1>`);
  });

  // A purchase happens later, on the server: the basket knows who bought what.
  shop.post("/buy/:name", async (request, response) => {
    const unit = visitorId(request.headers.cookie).id;
    await client.event({ unit, document: request.params.name, kind: "purchase" });
    response.sendStatus(204);
  });

  return shop;
}

function searchPage(answer: Answer, service: string): string {
  const items = answer.documents.map((product, place) => {
    const link = `<a href="/products/${encodeURIComponent(product)}">${escape(product)}</a>`;
    return `<li data-interleaf-rank="${place + 1}">${link}</li>`;
  });
  return `<!doctype html>
<title>Search</title>
<script src="${escape(service)}/static/interleaf.js" defer
        data-impression="${escape(answer.impression ?? "")}" data-token="${escape(answer.token ?? "")}"></script>
<ol>${items.join("\n")}</ol>`;
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

if (process.argv[1]?.endsWith("express_shop.ts")) {
  const service = process.env.INTERLEAF_URL ?? "http://127.0.0.1:8080";
  const client = new Client(service, { key: process.env.INTERLEAF_KEY ?? null, spool: new FolderSpool("spool") });
  const server = createShop(client, service).listen(3000);
  process.once("SIGTERM", () => server.close(() => void client.close()));
}
