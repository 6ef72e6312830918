/** What the shop sells, and the two rankers to compare. Replace both rankers with calls to your search engine. */

const PRODUCTS = [
  ...["trail runner", "road runner", "trail socks", "hiking boots", "sandals", "laces"],
  ...["light rain jacket", "rain trousers", "winter jacket", "umbrella", "rain hat", "gloves"],
];

/** Both rankings of one query: all products by name, and those with the most words of the query first. */
export function rankings(query: string): Record<string, string[]> {
  const words = new Set(query.toLowerCase().split(/\s+/));
  const count = (product: string): number => product.split(" ").filter((word) => words.has(word)).length;
  return {
    production: [...PRODUCTS].sort(),
    candidate: [...PRODUCTS].sort((one, other) => count(other) - count(one)),
  };
}
