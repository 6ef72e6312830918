// What the OpenSearch client of Node gets from the addresses in its arguments, as JSON.
import { Client } from "@opensearch-project/opensearch";

const [address, user] = process.argv.slice(2);
const client = new Client({ node: address, headers: { "X-User": user } });
const query = { multi_match: { query: "rain shoe", fields: ["title", "text"] } };
const { body: found } = await client.search({ index: "products", body: { query, size: 10 } });
const { body: second } = await client.search({ index: "products", body: { query, size: 10, from: 10 } });
const { body: several } = await client.msearch({ body: [{ index: "products" }, { query, size: 10 }] });
await client.index({ index: "of-node", id: "1", body: { title: "a" }, refresh: true });
const { body: written } = await client.get({ index: "of-node", id: "1" });
await client.indices.delete({ index: "of-node" });
const scrolled = [];
for await (const one of client.helpers.scrollDocuments({ index: "products", body: { query, size: 100 } })) {
  scrolled.push(one.id);
}
const ids = (answer) => answer.hits.hits.map((hit) => hit._id);
console.log(JSON.stringify({
  first: ids(found),
  second: ids(second),
  several: ids(several.responses[0]),
  note: found.ext?.interleaf,
  total: found.hits.total.value,
  written: written._source,
  scrolled: scrolled.length,
}));
