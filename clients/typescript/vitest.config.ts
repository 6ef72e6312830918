import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (path: string): string => fileURLToPath(new URL(`src/${path}`, import.meta.url));

export default defineConfig({
  // Examples import the package by its name; the longer names come first.
  resolve: {
    alias: {
      "interleaf/node": source("node.ts"),
      "interleaf/page": source("page/page.ts"),
      interleaf: source("index.ts"),
    },
  },
  test: { include: ["tests/**/*.test.ts"], testTimeout: 400_000, hookTimeout: 400_000 },
});
