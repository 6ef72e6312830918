/** What `npm pack` puts into the package. */

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));
const read = (path: string): string => readFileSync(new URL(path, import.meta.url), "utf-8");

it("holds the licence of the repository", () => {
  const told = execFileSync("npm", ["pack", "--dry-run", "--json", "--silent"], { cwd: FOLDER }).toString();
  const [{ files }] = JSON.parse(told);
  const paths = files.map(({ path }: { path: string }) => path);
  expect(paths).toEqual(expect.arrayContaining(["LICENSE", "README.md", "package.json"]));
  expect(read("../LICENSE")).toBe(read("../../../LICENSE"));
});

it("lets tools read its description", () => {
  const own = createRequire(import.meta.url);
  expect(own("interleaf/package.json").name).toBe("interleaf");
});

it("has a page without links that lead out of it", () => {
  expect(read("../README.md")).not.toContain("](..");
});
