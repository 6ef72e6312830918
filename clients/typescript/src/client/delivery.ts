/** Delivers spooled records in the background, and decides whether calls wait for the service. */

import { ClientError, show } from "../errors.js";
import {
  AwayError,
  isKeyRejected,
  isOutOfScope,
  isSuccess,
  toError,
  type Connection,
  type Reply,
} from "./connection.js";
import type { KnownExperiments } from "./fallback.js";
import type { Spool } from "./spool.js";

export const EVENTS = "/v1/events";
export const LISTED = ["impression", "documents", "arm", "token", "version"] as const;
export const TAKEN = ["accepted", "repeated", "unmatched"] as const;
export const MAX_EVENTS = 500; // of one request
const DESCRIBED = ["settings", "version", "state"];
const FAILED = 500; // the status of an answer
const MAX_TRIES = 5; // tries of a record that gets status 500 while other requests succeed
const MAX_FAILURES = 3; // records in a row with status 500 until delivery pauses
const SPOOL_PAUSE = 1000; // milliseconds between two rounds of delivery while records are spooled

/** A spooled record: a request for a list, or events if `experiment` is null. */
interface SpooledRecord {
  name: string;
  experiment: string | null;
  body: Record<string, unknown>;
}

/** Trips when more than half of the last `window` answers took longer than `limit` milliseconds. */
export class LatencyBreaker {
  #latest: boolean[] = [];

  constructor(
    private readonly limit: number,
    private readonly window: number,
  ) {}

  /** From a share of the time-out and a number of answers; with null, it never trips. */
  static of(slow: readonly [number, number] | null, timeoutMs: number): LatencyBreaker {
    if (slow === null) return new LatencyBreaker(Infinity, 1);
    const [share, window] = slow;
    if (!(share > 0 && share <= 1) || !Number.isSafeInteger(window) || window < 1) {
      const remedy = "give a share of the time-out, above 0 to 1, and a number of answers, such as [0.5, 20]";
      throw new ClientError(`slow is ${show(slow)}; ${remedy}, or null`);
    }
    return new LatencyBreaker(share * timeoutMs, window);
  }

  forget(): void {
    this.#latest = [];
  }

  isSlow(milliseconds: number): boolean {
    return milliseconds > this.limit;
  }

  /** Counts an answer; true if calls should not wait for the service for a while. */
  trips(milliseconds: number): boolean {
    this.#latest = [...this.#latest, this.isSlow(milliseconds)].slice(-this.window);
    return 2 * this.#latest.filter(Boolean).length > this.window;
  }
}

/** How delivery behaves; all times in milliseconds. */
export interface DeliveryOptions {
  timeoutMs: number;
  refreshMs: number;
  backoffMs: readonly [number, number];
  breaker: LatencyBreaker;
  log: (message: string) => void;
}

/** Sends the requests of a client. While the service is `away`, only this loop tries it, with increasing pauses.
 *
 * The service is away if it does not answer, or if its answers are slow. It is back after a quick answer.
 */
export class Delivery {
  away = false;
  refused = 0;
  quarantined = 0;
  #isSlow = false;
  #mustRest = false;
  #failures = 0; // of this round of delivery
  #failuresInARow = 0;
  #successes = 0; // lists and events that the service accepted
  #refreshed = -Infinity;
  #isClosed = false;
  #isWoken = false;
  #wakeUp: (() => void) | null = null;
  #loop: Promise<void> | null = null;
  readonly #outOfScope = new Set<string>();
  /** By record, its tries with status 500, and the successes at the last try. */
  readonly #tries = new Map<string, [number, number]>();

  constructor(
    private readonly connection: Connection,
    private readonly spool: Spool,
    private readonly known: KnownExperiments,
    private readonly options: DeliveryOptions,
  ) {}

  /** Sends a request that a caller waits for. After a failure, this throws until the loop gets an answer. */
  async post(path: string, body: string, fields: readonly string[], since: number, deadline: number): Promise<Reply> {
    if (this.away) throw new AwayError("the service was away a moment ago");
    let reply: Reply;
    try {
      reply = await this.connection.ask("POST", path, body, fields, deadline - performance.now());
    } catch (error) {
      this.miss(error as Error);
      throw error;
    }
    if (this.options.breaker.trips(performance.now() - since)) {
      this.options.breaker.forget();
      this.#mustRest = true;
      this.miss(new AwayError("most of its latest answers were slow"));
    }
    this.#successes += isSuccess(reply) ? 1 : 0;
    return reply;
  }

  /** Marks the service as away. */
  miss(problem: Error): void {
    if (!this.away) this.options.log(`the service is away; records are spooled: ${problem.message}`);
    this.away = true;
    this.wake();
  }

  /** Counts a request that the key does not allow; logs the first one of each experiment. */
  noteOutOfScope(what: string, problem: Error): void {
    this.refused++;
    if (this.#outOfScope.has(what)) return;
    this.#outOfScope.add(what);
    this.options.log(
      `${what}: ${problem.message}; further refusals are counted in the client's status, and not logged`,
    );
  }

  /** Fetches the settings of an experiment. */
  async learn(name: string): Promise<void> {
    const reply = await this.#ask("GET", `/v1/experiments/${encodeURIComponent(name)}`, null, DESCRIBED);
    if (isSuccess(reply)) await this.known.learn(name, reply.data);
  }

  /** Starts the loop if needed, and wakes it up; with `soon`, it also refreshes settings. */
  wake(soon = false): void {
    if (soon) this.#refreshed = -Infinity;
    this.#isWoken = true;
    this.#wakeUp?.();
    if (!this.#isClosed) this.#loop ??= this.#run();
  }

  /** Delivers what can be delivered within `milliseconds`, and stops. */
  async close(milliseconds: number): Promise<void> {
    this.#isClosed = true;
    this.wake();
    const finish = async (): Promise<void> => {
      await this.#loop;
      if (!(await this.spool.isEmpty())) await this.#round().catch(() => {});
    };
    const limit = pause(milliseconds);
    await Promise.race([finish(), limit.ended]);
    limit.end();
  }

  async #run(): Promise<void> {
    const [first, most] = this.options.backoffMs;
    let wait = first;
    while (!this.#isClosed) {
      try {
        await this.#sleep(await this.#idle(), true);
        if (this.#mustRest) {
          // delivering spooled lists later shows whether it is quick again
          this.#mustRest = false;
          await this.#sleep(most);
        }
        if (this.#isClosed) return;
        await this.#round();
        wait = first;
      } catch (error) {
        const isAway = error instanceof AwayError;
        if (!isAway) this.options.log(`delivery failed; it will be retried: ${error}`);
        await this.#sleep(isAway ? Math.max(wait * (0.5 + Math.random() / 2), error.retryAfter) : most);
        wait = Math.min(2 * wait, most);
      }
    }
  }

  /** Waits; `close` ends it, and `wake` if it is wakeable. The wait keeps no process alive. */
  async #sleep(milliseconds: number, isWakeable = false): Promise<void> {
    if (isWakeable && this.#isWoken) milliseconds = 0;
    if (!this.#isClosed && milliseconds > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(milliseconds, 2 ** 31 - 1));
        unref(timer);
        this.#wakeUp = () => {
          if (!isWakeable && !this.#isClosed) return;
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wakeUp = null;
    }
    if (isWakeable) this.#isWoken = false;
  }

  /** Milliseconds until the next round. A spool with records is checked often: other processes may fail. */
  async #idle(): Promise<number> {
    const due = Math.max(0, this.#refreshed + this.options.refreshMs - performance.now());
    return (await this.spool.isEmpty()) ? due : Math.min(due, SPOOL_PAUSE);
  }

  async #round(): Promise<void> {
    this.#isSlow = false;
    this.#failures = this.#failuresInARow = 0;
    if (this.away || performance.now() >= this.#refreshed + this.options.refreshMs) {
      for (const name of this.known.names) await this.learn(name);
      this.#refreshed = performance.now();
    }
    await this.#deliver();
    this.#meet();
    if (this.#failures) throw new AwayError(`the service answered ${FAILED} to ${this.#failures} records`);
    if (this.away) throw new AwayError("the service answers slowly");
  }

  /** Marks the service as back, after the first record that it accepts. */
  #meet(): void {
    if (this.away && !this.#isSlow) {
      this.options.log("the service is back");
      this.away = false;
    }
  }

  async #deliver(): Promise<void> {
    const names = await this.spool.names();
    const hasFailed = (name: string): number => Number(this.#tries.has(name));
    names.sort((one, other) => hasFailed(one) - hasFailed(other)); // records that failed before come last
    let events: SpooledRecord[] = [];
    for (const name of names) {
      const record = await this.#read(name);
      if (record?.experiment === null) {
        events.push(record);
      } else if (record) {
        // Lists are sent before events, which wait here: the list of an event was spooled before the event.
        const path = `/v1/experiments/${encodeURIComponent(record.experiment)}/interleave`;
        await this.#settle([name], await this.#send(path, record.body, LISTED));
      }
      if (events.length >= MAX_EVENTS) {
        await this.#sendEvents(events);
        events = [];
      }
    }
    await this.#sendEvents(events);
  }

  async #read(name: string): Promise<SpooledRecord | null> {
    try {
      const text = await this.spool.read(name);
      if (text === null) return null;
      const record = parseRecord(name, text);
      if (record) return record;
    } catch (error) {
      this.options.log(`the spooled record ${name} cannot be read now: ${error}`);
      return null;
    }
    this.options.log(`the spooled record ${name} is not valid; it is set aside`);
    this.quarantined++;
    await this.spool.quarantine(name);
    return null;
  }

  /** Sends events of several records together; a record that is refused does not take the others along. */
  async #sendEvents(records: readonly SpooledRecord[]): Promise<void> {
    for (let rest = [...records]; rest.length;) {
      const batch = [rest.shift()!];
      const events = [...eventsOf(batch[0]!)];
      while (rest[0] && events.length + eventsOf(rest[0]).length <= MAX_EVENTS) {
        events.push(...eventsOf(rest[0]));
        batch.push(rest.shift()!);
      }
      const reply = await this.#send(EVENTS, { events }, TAKEN);
      if (isSuccess(reply) || batch.length === 1) {
        await this.#settle(
          batch.map(({ name }) => name),
          reply,
        );
        continue;
      }
      for (const { name, body } of batch) await this.#settle([name], await this.#send(EVENTS, body, TAKEN));
    }
  }

  /** Sends spooled records. They may be the cause of a status 500, so that is not an outage yet. */
  async #send(path: string, body: unknown, fields: readonly string[]): Promise<Reply> {
    try {
      return await this.#ask("POST", path, JSON.stringify(body), fields);
    } catch (error) {
      if (!(error instanceof AwayError) || error.status !== FAILED) throw error;
      return { status: FAILED, data: {} };
    }
  }

  async #ask(method: string, path: string, body: string | null, fields: readonly string[]): Promise<Reply> {
    const began = performance.now();
    const reply = await this.connection.ask(method, path, body, fields, this.options.timeoutMs);
    this.#isSlow = this.options.breaker.isSlow(performance.now() - began);
    if (isKeyRejected(reply)) {
      throw new AwayError(`the service answered ${reply.status} to this key`, this.options.backoffMs[1]);
    }
    return reply;
  }

  async #settle(names: readonly string[], reply: Reply): Promise<void> {
    for (const name of names) {
      if (isSuccess(reply)) {
        this.#successes++;
        this.#failuresInARow = 0;
        this.#tries.delete(name);
        await this.spool.remove(name);
        this.#meet();
      } else if (reply.status === FAILED) {
        await this.#fail(name);
      } else {
        this.refused++;
        this.options.log(`a spooled record was refused: ${toError(reply).message}`);
        // One that the key does not allow can be delivered by hand with another key.
        await (isOutOfScope(reply) ? this.spool.quarantine(name) : this.spool.remove(name));
      }
    }
  }

  /** Counts a failed try of a record, if other requests succeeded since its last try.
   *
   * Only the success of other requests shows that the record is the cause, and not the service.
   */
  async #fail(name: string): Promise<void> {
    const [before, successes] = this.#tries.get(name) ?? [0, -1];
    const tries = before + (this.#successes > successes ? 1 : 0);
    this.#tries.set(name, [tries, this.#successes]);
    if (tries >= MAX_TRIES) {
      this.options.log(`the service answered ${FAILED} to the spooled record ${name} ${tries} times; it is set aside`);
      this.quarantined++;
      this.#tries.delete(name);
      await this.spool.quarantine(name);
      return;
    }
    this.#failures++;
    this.#failuresInARow++;
    this.#meet();
    if (this.#failuresInARow >= MAX_FAILURES) {
      throw new AwayError(`the service answered ${FAILED} to ${MAX_FAILURES} records in a row`);
    }
  }
}

function eventsOf(record: SpooledRecord): unknown[] {
  return record.body.events as unknown[];
}

/** Decodes a spooled record; null if it is invalid. */
function parseRecord(name: string, text: string): SpooledRecord | null {
  try {
    const { experiment, body } = JSON.parse(text);
    const isList = typeof experiment === "string" && experiment && typeof body === "object" && body !== null;
    const isEvents = experiment === null && Array.isArray(body?.events) && body.events.length;
    return isList || isEvents ? { name, experiment, body } : null;
  } catch {
    return null;
  }
}

/** A time to wait, which can end before. */
function pause(milliseconds: number): { ended: Promise<void>; end: () => void } {
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    end = () => {
      clearTimeout(timer);
      resolve();
    };
  });
  return { ended, end };
}

/** In Node, lets the process end although a timer is set. */
function unref(timer: unknown): void {
  (timer as { unref?: () => void }).unref?.();
}
