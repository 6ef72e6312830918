/** The examples of docs/typescript.md pass the type check, run against a real service, and print what the page says.
 *
 * `console.log(VALUE); // JSON` says what is printed. Blocks share names. Only `<!-- not run: reason -->` skips a block.
 */

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HAS_PYTHON, Service } from "./service.js";

const PAGE = readFileSync(new URL("../../../docs/typescript.md", import.meta.url), "utf-8");
const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const FOLDER = join(PACKAGE, "tests", ".page");
const BLOCK = /^(<!-- not run: [^\n]+ -->\n)?```typescript\n(.*?)^```$/gms;
const PRINTED = /^console\.log\((.*)\); \/\/ (.*)$/gm;

const blocks = [...PAGE.matchAll(BLOCK)].map(([, mark, text]) => ({ text: text!, isRun: mark === undefined }));

/** One module of several blocks; names that are imported twice are imported once. */
function joined(texts: readonly string[]): string {
  const imports = new Set(texts.flatMap((text) => text.match(/^import .*;$/gm) ?? []));
  return [...imports, ...texts.map((text) => text.replace(/^import .*;\n/gm, ""))].join("\n");
}

/** What the TypeScript compiler says of some modules, by name. */
function findTypeProblems(modules: Record<string, string>): Record<string, string[]> {
  const files = Object.keys(modules).map((name) => join(FOLDER, name));
  Object.values(modules).forEach((text, place) => writeFileSync(files[place]!, `${text}\nexport {};\n`));
  const { config } = ts.readConfigFile(join(PACKAGE, "tsconfig.json"), (path) => readFileSync(path, "utf-8"));
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, PACKAGE);
  const program = ts.createProgram(files, { ...options, noEmit: true, noUnusedLocals: false });
  const problems: Record<string, string[]> = {};
  for (const { file, messageText } of ts.getPreEmitDiagnostics(program)) {
    const name = file?.fileName.split("/").at(-1) ?? "";
    (problems[name] ??= []).push(ts.flattenDiagnosticMessageText(messageText, "\n"));
  }
  return problems;
}

describe("the examples of docs/typescript.md", () => {
  beforeAll(() => mkdirSync(FOLDER, { recursive: true }));
  afterAll(() => rmSync(FOLDER, { recursive: true }));

  it("are found, and most of them run", () => {
    expect(blocks.length).toBe(PAGE.match(/```typescript/g)!.length);
    expect(blocks.filter(({ isRun }) => isRun).length).toBeGreaterThan(4);
  });

  it("pass the type check", () => {
    const modules: Record<string, string> = { "wrong.ts": 'import { Client } from "interleaf";\nnew Client(7);' };
    modules["run.ts"] = joined(blocks.filter(({ isRun }) => isRun).map(({ text }) => text));
    blocks.forEach(({ text, isRun }, place) => isRun || (modules[`block_${place}.ts`] = text));
    const problems = findTypeProblems(modules);
    expect(Object.keys(problems)).toEqual(["wrong.ts"]); // a check that sees nothing wrong would pass anything
    expect(problems["wrong.ts"]).toHaveLength(1);
  });

  it.runIf(HAS_PYTHON)("print what the page says", async () => {
    const service = await Service.start();
    try {
      await service.make({ name: "shoes", k: 10 });
      const text = joined(blocks.filter(({ isRun }) => isRun).map((block) => block.text));
      const expected = [...text.matchAll(PRINTED)].map(([, , printed]) => JSON.parse(printed!));
      const code = text
        .replaceAll("http://127.0.0.1:8080", service.url)
        .replaceAll('new FolderSpool("spool")', `new FolderSpool(${JSON.stringify(join(service.folder, "spool"))})`)
        .replaceAll("timeoutMs: 1000", "timeoutMs: 60_000, slow: null")
        .replace(PRINTED, "printed.push($1);");
      writeFileSync(join(FOLDER, "program.ts"), `export const printed: unknown[] = [];\n${code}`);
      const { printed } = await import(join(FOLDER, "program.ts"));
      expect(printed).toEqual(expected);
      expect(printed.length).toBeGreaterThan(6);
    } finally {
      await service.end();
    }
  });
});
