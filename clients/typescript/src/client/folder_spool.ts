/** Records as files in a folder that several processes share, also with Python's client (Node only). */

import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { FULL, MAX_SPOOLED, newName, stamp, type Spool } from "./spool.js";

const SUFFIX = ".json";
const MINUTE = 60_000;

/** Each record is a file, which is written under another name and renamed: a killed process loses none.
 *
 * Only the owner can read the folder. Two processes may deliver the same record; it counts once. Files that cannot be
 * removed, as in a read-only folder, are delivered once by each process and then skipped.
 */
export class FolderSpool implements Spool {
  dropped = 0;
  problem = FULL;
  readonly isLostAtEnd = false;
  readonly #stuck = new Set<string>();
  #ready: Promise<void> | undefined;
  #count = 0;

  constructor(
    private readonly folder: string,
    private readonly maxRecords = MAX_SPOOLED,
  ) {}

  async put(record: string): Promise<boolean> {
    const name = newName();
    const part = join(this.folder, `${name}.part`);
    try {
      await this.#prepare();
      if (this.#count >= this.maxRecords) throw new Error(FULL);
      await writeFile(part, record, { mode: 0o600 });
      await rename(part, join(this.folder, name));
    } catch (error) {
      // disk full or not writable: the search must go on
      this.dropped++;
      this.problem = String(error);
      await rm(part, { force: true }).catch(() => {});
      return false;
    }
    this.#count++;
    return true;
  }

  async isEmpty(): Promise<boolean> {
    return !(await this.#scan()).length;
  }

  /** Names from before this call: a listing may find a file that is written meanwhile and miss an earlier one. Names
   * far in the future are from before the clock was set back. */
  async names(): Promise<string[]> {
    const before = Date.now();
    let now = before;
    for (; now === before; now = Date.now()) await setTimeout(1); // names hold milliseconds
    const names = (await this.#scan()).filter((name) => name < stamp(now) || name >= stamp(now + MINUTE)).sort();
    this.#count = names.length;
    return names;
  }

  async read(name: string): Promise<string | null> {
    try {
      return await readFile(join(this.folder, name), "utf-8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return null; // another process delivered it
      throw error;
    }
  }

  async remove(name: string): Promise<void> {
    await this.#leave(name, () => rm(join(this.folder, name), { force: true }));
  }

  /** Renames it to `.bad`, so that it can be inspected. */
  async quarantine(name: string): Promise<void> {
    const path = join(this.folder, name);
    await this.#leave(name, () => rename(path, path.slice(0, -SUFFIX.length) + ".bad"));
  }

  async readSettings(experiment: string): Promise<string | null> {
    return this.read(`${encodeURIComponent(experiment)}.settings`).catch(() => null);
  }

  async writeSettings(experiment: string, text: string): Promise<void> {
    const path = join(this.folder, `${encodeURIComponent(experiment)}.settings`);
    const part = `${path}.${process.pid}.part`;
    await this.#prepare();
    await writeFile(part, text, { mode: 0o600 });
    await rename(part, path);
  }

  async #leave(name: string, action: () => Promise<void>): Promise<void> {
    this.#count--;
    await action().catch(() => this.#stuck.add(name));
  }

  async #scan(): Promise<string[]> {
    const names = await readdir(this.folder).catch(() => []);
    return names.filter((name) => name.endsWith(SUFFIX) && !this.#stuck.has(name));
  }

  async #prepare(): Promise<void> {
    this.#ready ??= this.#makePrivate();
    await this.#ready.catch((error: unknown) => {
      this.#ready = undefined; // try again with the next record
      throw error;
    });
  }

  /** Creates the folder such that only its owner can open it: it holds queries of users. */
  async #makePrivate(): Promise<void> {
    const made = await mkdir(this.folder, { mode: 0o700, recursive: true });
    if (made !== undefined) await chmod(this.folder, 0o700);
    await this.names();
  }
}
