/** Bundles the script of result pages into the Python package; with `--check`, only compares. */

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const ENTRY = fileURLToPath(new URL("../src/page/script.ts", import.meta.url));
const TARGET = fileURLToPath(new URL("../../../src/interleaf/server/static/interleaf.js", import.meta.url));
const MAX_BYTES = 6000; // compressed
const BANNER = `/* Reports clicks on results, and the time people spent on them, to an interleaf service.

   <script src="https://interleaf.example/static/interleaf.js" defer
           data-impression="..." data-token="..."></script>
   <li data-interleaf-rank="1"><a href="...">...</a></li>

   docs/typescript.md has the rest. Made from clients/typescript/src/page by "npm run build" there: do not edit. */`;

const { outputFiles } = await build({
  entryPoints: [ENTRY],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  banner: { js: BANNER },
  legalComments: "none",
  write: false,
});
const text = outputFiles[0].text;
const bytes = gzipSync(text, { level: 9 }).length;
console.log(`interleaf.js: ${text.length} bytes, ${bytes} compressed; at most ${MAX_BYTES}`);
if (bytes > MAX_BYTES) throw new Error(`the script is too large: ${bytes} bytes compressed`);
if (!process.argv.includes("--check")) writeFileSync(TARGET, text);
else if (readFileSync(TARGET, "utf-8") !== text) {
  throw new Error("the committed script is not current; run npm run build in clients/typescript");
}
