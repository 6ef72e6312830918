/** Where a client stores records until they can be sent. */

import { toHex } from "../randomness.js";

/** A store of records, and of the settings of experiments for a later process that starts during an outage.
 *
 * Names of records sort by time, so that an impression is delivered before its events. A full spool drops new records
 * and counts them; `problem` says why it dropped the last.
 */
export interface Spool {
  readonly dropped: number;
  readonly problem: string;
  /** Whether records are lost when the process, or the page, ends. */
  readonly isLostAtEnd: boolean;
  /** Stores a record; false if it was dropped. */
  put(record: string): Promise<boolean>;
  isEmpty(): Promise<boolean>;
  /** The names of all records, oldest first. */
  names(): Promise<string[]>;
  /** A record; null if it is gone. */
  read(name: string): Promise<string | null>;
  remove(name: string): Promise<void>;
  /** Sets a record aside that cannot be delivered. */
  quarantine(name: string): Promise<void>;
  readSettings(experiment: string): Promise<string | null>;
  writeSettings(experiment: string, text: string): Promise<void>;
}

export const MAX_SPOOLED = 100_000;
export const FULL = "the spool is full";
let count = 0; // keeps the order of records of the same millisecond

/** The name of a new record; Python's client names records in the same way. */
export function newName(): string {
  const random = toHex(crypto.getRandomValues(new Uint8Array(4)));
  return `${stamp(Date.now())}-${String(count++ % 1e8).padStart(8, "0")}-${random}.json`;
}

/** A time in milliseconds as nanoseconds with 20 digits. */
export function stamp(milliseconds: number): string {
  return `${milliseconds}000000`.padStart(20, "0");
}

/** Records in memory, which are lost when the process ends. */
export class MemorySpool implements Spool {
  dropped = 0;
  readonly problem = FULL;
  readonly isLostAtEnd = true;
  readonly #records = new Map<string, string>();

  constructor(private readonly maxRecords = MAX_SPOOLED) {}

  async put(record: string): Promise<boolean> {
    if (this.#records.size >= this.maxRecords) {
      this.dropped++;
      return false;
    }
    this.#records.set(newName(), record);
    return true;
  }

  async isEmpty(): Promise<boolean> {
    return !this.#records.size;
  }

  async names(): Promise<string[]> {
    return [...this.#records.keys()].sort();
  }

  async read(name: string): Promise<string | null> {
    return this.#records.get(name) ?? null;
  }

  async remove(name: string): Promise<void> {
    this.#records.delete(name);
  }

  async quarantine(name: string): Promise<void> {
    this.#records.delete(name); // there is no place where a record could be inspected
  }

  async readSettings(): Promise<string | null> {
    return null; // those in memory are the client's
  }

  async writeSettings(): Promise<void> {}
}

/** Records in a browser's `localStorage`: the next page delivers them. All tabs of a site share it. */
export class LocalStorageSpool implements Spool {
  dropped = 0;
  problem = FULL;
  readonly isLostAtEnd = false;

  constructor(
    private readonly prefix = "interleaf",
    private readonly maxRecords = 1000,
  ) {}

  async put(record: string): Promise<boolean> {
    try {
      if ((await this.names()).length >= this.maxRecords) throw new Error(FULL);
      localStorage.setItem(this.#key(newName()), record);
      return true;
    } catch (error) {
      this.dropped++;
      this.problem = String(error); // storage is full, or forbidden
      return false;
    }
  }

  async isEmpty(): Promise<boolean> {
    return !(await this.names()).length;
  }

  async names(): Promise<string[]> {
    const start = this.#key("");
    try {
      const keys = Array.from({ length: localStorage.length }, (_, place) => localStorage.key(place) ?? "");
      return keys
        .filter((key) => key.startsWith(start))
        .map((key) => key.slice(start.length))
        .sort();
    } catch {
      return [];
    }
  }

  async read(name: string): Promise<string | null> {
    return this.#get(this.#key(name));
  }

  async remove(name: string): Promise<void> {
    try {
      localStorage.removeItem(this.#key(name));
    } catch {
      // storage is forbidden, so there is nothing to remove
    }
  }

  async quarantine(name: string): Promise<void> {
    await this.remove(name); // a visitor's browser is no place to keep it
  }

  async readSettings(experiment: string): Promise<string | null> {
    return this.#get(`${this.prefix}/settings/${experiment}`);
  }

  async writeSettings(experiment: string, text: string): Promise<void> {
    localStorage.setItem(`${this.prefix}/settings/${experiment}`, text);
  }

  #key(name: string): string {
    return `${this.prefix}/spool/${name}`;
  }

  #get(key: string): string | null {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  }
}
