/** What the shop sells, and the two rankers to compare. Replace both rankers with calls to your search engine. */

const PRODUCTS = [
  ...["trail runner", "road runner", "trail socks", "hiking boots", "sandals", "laces"],
  ...["light rain jacket", "rain trousers", "winter jacket", "umbrella", "rain hat", "gloves"],
];

/** The ranker in use: all products by name. */
export function production(): string[] {
  return [...PRODUCTS].sort();
}

/** The proposed ranker: products with the most words of the query first. */
export function candidate(query: string): string[] {
  const words = new Set(query.toLowerCase().split(/\s+/));
  const count = (product: string): number => product.split(" ").filter((word) => words.has(word)).length;
  return [...PRODUCTS].sort((one, other) => count(other) - count(one));
}

/** Both rankings of one query, as `interleave` takes them. */
export function rankings(query: string): Record<string, string[]> {
  return { production: production(), candidate: candidate(query) };
}
