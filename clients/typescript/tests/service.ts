/** A real service in a process of its own, and Python itself, for tests. */

import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const BIN = join(ROOT, ".venv", "bin");
/** Whether Python's package is installed beside this one; without it, tests of both are skipped. */
export const HAS_PYTHON = existsSync(join(BIN, "interleaf"));
export const PATIENCE = 300_000; // the first report of a machine compiles kernels, which may take minutes under load

/** What Python code answers: it finds `given` and sets `answer`. */
export function askPython<T>(code: string, given: unknown): T {
  const program = `import json, sys\ngiven = json.load(sys.stdin)\n${code}\njson.dump(answer, sys.stdout)`;
  const options = { cwd: ROOT, input: JSON.stringify(given), maxBuffer: 2 ** 28 };
  return JSON.parse(execFileSync(join(BIN, "python"), ["-c", program], options).toString());
}

/** Waits until something holds; fails after five minutes. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + PATIENCE; !(await condition());) {
    if (Date.now() > end) throw new Error(`still not: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** `interleaf serve` over SQLite; `stop` and `start` make outages. */
export class Service {
  readonly folder = mkdtempSync(join(tmpdir(), "interleaf-"));
  #process: ChildProcess | null = null;

  private constructor(readonly port: number) {}

  static async start(): Promise<Service> {
    const service = new Service(await freePort());
    await service.start();
    return service;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    const options = ["serve", "--store", join(this.folder, "store.sqlite"), "--port", String(this.port)];
    this.#process = spawn(join(BIN, "interleaf"), options, { stdio: "ignore" });
    await until(() =>
      fetch(`${this.url}/readyz`).then(
        (reply) => reply.ok,
        () => false,
      ),
    );
  }

  async stop(): Promise<void> {
    const process = this.#process!;
    const ended = new Promise((resolve) => process.once("exit", resolve));
    process.kill("SIGTERM");
    await ended;
  }

  async end(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true });
  }

  /** Creates and starts an experiment. */
  async make(settings: object): Promise<void> {
    const post = async (path: string, body: object | null): Promise<void> => {
      const reply = await fetch(`${this.url}/v1/experiments${path}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: body && JSON.stringify(body),
      });
      if (!reply.ok) throw new Error(await reply.text());
    };
    const all = { name: "shoes", rankers: ["production", "candidate"], k: 3, ...settings };
    await post("", all);
    await post(`/${all.name}/start`, null);
  }
}
