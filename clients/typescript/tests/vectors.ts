/** The test vectors that Python and this package share. */

import { readFileSync } from "node:fs";

/** A file of vectors; keys that JavaScript would round are bigints. */
export function readVectors(name: string): any {
  const text = readFileSync(new URL(`../../../tests/vectors/${name}`, import.meta.url), "utf-8");
  const marked = text.replace(/"key": (-?\d{16,})/g, '"key": "large $1"');
  return JSON.parse(marked, (_, value) => (/^large /.test(value) ? BigInt(value.slice(6)) : value));
}
