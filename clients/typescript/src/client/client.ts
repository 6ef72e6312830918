/** `Client`: requests lists from a service and reports events to it; during an outage it draws the lists itself. */

import { LIMITS, type Calls, type EventsResponse, type InterleaveResponse } from "../api.js";
import { ClientError, show } from "../errors.js";
import type { ListRequest } from "../experiment/serving.js";
import type { Document } from "../rankings.js";
import { AwayError, Connection, isKeyRejected, isOutOfScope, isSuccess, toError, type Reply } from "./connection.js";
import { Delivery, EVENTS, LatencyBreaker, LISTED, MAX_EVENTS, TAKEN } from "./delivery.js";
import { compose, KnownExperiments, type Answer, type EventCounts, type Status } from "./fallback.js";
import { readRequest, type ClientRankings, type SearchOptions } from "./request.js";
import { MemorySpool, type Spool } from "./spool.js";
import { Visitors } from "./visitors.js";

export interface ClientOptions {
  /** The key, with the role `ingest`; without one where the service asks for none. */
  key?: string | null;
  /** How long a call may take, with DNS, TCP and TLS; 1,000 milliseconds by default. */
  timeoutMs?: number;
  /** Where records wait while the service is away: in memory by default. */
  spool?: Spool;
  /** How often the settings of experiments are fetched; every minute by default. */
  refreshMs?: number;
  /** The first and the longest pause between two tries while the service is away. */
  backoffMs?: readonly [number, number];
  /** With `[0.5, 20]` the service also counts as away if more than half of the last 20 answers took longer than 0.5 of
   * the time-out; null: only failures count. */
  slow?: readonly [number, number] | null;
  /** Receives warnings, which contain no values of visitors; `console.warn` by default. */
  log?: (message: string) => void;
}

/** An event: it has `impression` or `unit`, `rank` or `document`, and `kind` (`click` by default). */
export interface ClientEvent {
  event?: string | null;
  impression?: string | null;
  unit?: string | null;
  rank?: number | null;
  document?: Document | null;
  kind?: string;
  time?: Date | string | null;
  /** Seconds. */
  dwell?: number | null;
  value?: number | null;
}

/** The parts of a request without those that a call does not have. */
type Present<T> = { [P in keyof T as T[P] extends Record<string, never> | undefined ? never : P]: T[P] };
/** The same; a part whose fields are all optional may be left out. */
type Needed<T> = { [P in keyof T as {} extends T[P] ? never : P]: T[P] } & {
  [P in keyof T as {} extends T[P] ? P : never]?: T[P];
};
type CallParts<C extends keyof Calls> = Needed<Present<Omit<Calls[C], "gives">>> & { timeoutMs?: number };

/** Fields whose values come from visitors or from documents. If the service refuses one, the control is shown. */
const WARN_AGAIN_MS = 60_000;
const FROM_VISITORS = [
  ...["unit", "query", "session", "k", "page", "attributes", "captions", "characters", "impression", "user_agent"],
];

/** Requests lists from a service and reports events to it; use one per process or page.
 *
 * If the service does not answer in time, this process draws the list as the service would, and spools the record. A
 * background loop delivers spooled records, with their original times, when the service is back. Until then, no call
 * waits for the service. Only wrong arguments of the caller throw `ClientError` (or `RankingError`), with the service's
 * message. Values from visitors never throw: those that the service would refuse are cleaned or dropped, and counted.
 */
export class Client {
  readonly #connection: Connection;
  readonly #spool: Spool;
  readonly #known: KnownExperiments;
  readonly #visitors: Visitors;
  readonly #delivery: Delivery;
  readonly #timeoutMs: number;
  readonly #log: (message: string) => void;
  readonly #warned = new Map<string, number>(); // when refusals were logged last
  #isClosed = false;
  #hasWorked = false;

  constructor(url: string, options: ClientOptions = {}) {
    const { timeoutMs = 1000, refreshMs = 60_000, backoffMs = [500, 15_000], slow = [0.5, 20] } = options;
    if (!(timeoutMs > 0)) throw new ClientError(`timeoutMs is ${show(timeoutMs)}; give milliseconds, more than 0`);
    this.#log = options.log ?? ((message) => console.warn(`interleaf: ${message}`));
    this.#connection = new Connection(url, options.key ?? null);
    this.#spool = options.spool ?? new MemorySpool();
    this.#known = new KnownExperiments(this.#spool, this.#log);
    this.#visitors = new Visitors(this.#log);
    this.#timeoutMs = timeoutMs;
    const breaker = LatencyBreaker.of(slow, timeoutMs);
    const settings = { timeoutMs, refreshMs, backoffMs, breaker, log: this.#log };
    this.#delivery = new Delivery(this.#connection, this.#spool, this.#known, settings);
    // Deliver records of an earlier process.
    void this.#spool.isEmpty().then(
      (isEmpty) => isEmpty || this.#delivery.wake(),
      () => {},
    );
  }

  /** The list to show for the rankings of one query. List your production ranker first. */
  async interleave(experiment: string, rankings: ClientRankings, options: SearchOptions = {}): Promise<Answer> {
    const began = performance.now();
    this.#checkOpen();
    const [request, body] = readRequest(this.#visitors, rankings, options);
    if (await this.#known.want(experiment)) this.#delivery.wake(true);
    if (request.page > LIMITS.MAX_PAGE) {
      this.#visitors.note("page", `is above ${LIMITS.MAX_PAGE}, and shows the control`);
      return this.#compose(experiment, request, body, false);
    }
    let reply: Reply;
    try {
      const path = `/v1/experiments/${encodeURIComponent(experiment)}/interleave`;
      const deadline = began + this.#timeoutMs;
      reply = await this.#delivery.post(path, encode(body), LISTED, began, deadline);
    } catch (error) {
      if (error instanceof AwayError) return this.#compose(experiment, request, body);
      throw error;
    }
    return isSuccess(reply)
      ? this.#readAnswer(experiment, reply)
      : this.#handleRefusal(experiment, request, body, reply);
  }

  /** Reports a click at a rank of a shown list. `impression` is null for a list that is not logged. */
  async click(impression: string | null, rank: number, dwell: number | null = null): Promise<EventCounts> {
    return this.event({ impression, rank, dwell });
  }

  /** Reports one event. */
  async event(event: ClientEvent): Promise<EventCounts> {
    return this.events([event]);
  }

  /** Reports events. Those whose `impression` is null are ignored: their list is not logged. */
  async events(events: readonly ClientEvent[]): Promise<EventCounts> {
    const began = performance.now();
    this.#checkOpen();
    const logged = [...events].filter((event) => event?.impression !== null || (event.unit ?? null) !== null);
    const usable = logged.map((event) => this.#visitors.event(withKind(event))).filter((event) => event !== null);
    let counts: EventCounts = { ...NONE, unusable: logged.length - usable.length };
    for (let start = 0; start < usable.length; start += MAX_EVENTS) {
      const some = await this.#sendEvents(usable.slice(start, start + MAX_EVENTS), began + this.#timeoutMs);
      counts = addCounts(counts, some);
    }
    return counts;
  }

  /** Makes any other call of the API, such as `call("POST /v1/experiments/{name}/start", { path: { name: "shoes" } })`.
   *
   * For scripts: it throws if the service does not answer.
   */
  async call<C extends keyof Calls>(call: C, parts: CallParts<C> = {} as CallParts<C>): Promise<Calls[C]["gives"]> {
    this.#checkOpen();
    const { path = {}, query = {}, takes, timeoutMs = 60_000 } = parts as AnyParts;
    const [method = "", template = ""] = call.split(" ");
    const address = template.replace(/{(\w+)}/g, (_, name: string) => encodeURIComponent(String(path[name])));
    const search = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)])).toString();
    const body = takes === undefined ? null : encode(takes);
    let reply: Reply;
    try {
      reply = await this.#connection.ask(method, search ? `${address}?${search}` : address, body, [], timeoutMs);
    } catch (error) {
      if (error instanceof AwayError) throw new ClientError(`the service is away: ${error.message}`);
      throw error;
    }
    if (!isSuccess(reply)) throw toError(reply);
    return reply.data as unknown as Calls[C]["gives"];
  }

  /** Whether the service is away, and what waits for it. */
  async status(): Promise<Status> {
    const { away, refused, quarantined } = this.#delivery;
    const waiting = (await this.#spool.names()).length;
    return { away, waiting, dropped: this.#spool.dropped, refused, cleaned: this.#visitors.cleaned, quarantined };
  }

  /** Delivers what can be delivered now, and stops. The next process delivers what stays in a lasting spool. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#delivery.close(5 * this.#timeoutMs);
    const left = (await this.#spool.names()).length;
    if (left && this.#spool.isLostAtEnd)
      this.#log(`${left} records were never delivered; give the client a lasting spool`);
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ClientError("this client is closed; make another");
  }

  #readAnswer(experiment: string, reply: Reply): Answer {
    const { impression, documents, arm, token, version } = reply.data as unknown as InterleaveResponse;
    this.#hasWorked = true;
    if (this.#known.get(experiment)?.version !== version) this.#delivery.wake(true);
    return { impression, documents, arm, token, version, stored: impression !== null };
  }

  async #compose(
    experiment: string,
    request: ListRequest,
    body: Record<string, unknown>,
    isRunning = true,
  ): Promise<Answer> {
    const known = this.#known.get(experiment);
    const [answer, isLogged] = compose(known, request, isRunning);
    if (isLogged) {
      // the service composes the list again, with this time and version
      await this.#put(experiment, { ...body, time: new Date().toISOString(), version: answer.version });
    }
    return answer;
  }

  /** Throws errors of the caller. Values of visitors, and changes in the service, must not break a search. */
  async #handleRefusal(
    experiment: string,
    request: ListRequest,
    body: Record<string, unknown>,
    reply: Reply,
  ): Promise<Answer> {
    const error = toError(reply);
    const known = this.#known.get(experiment);
    const field = error.field?.split(/[.[]/)[0] ?? "";
    let isRunning = false;
    if (reply.status === 422 && FROM_VISITORS.includes(field)) {
      this.#visitors.note(field, `was refused, so the control is shown: ${error.message}`);
    } else if (reply.status === 409) {
      // a draft, or stopped
      if (known === null) await this.#learnControl(experiment);
    } else if (reply.status === 404 && error.field === "impression") {
      // the first page may still be in the spool
      isRunning = true;
    } else if (known === null) {
      throw error;
    } else if (isKeyRejected(reply)) {
      this.#delivery.miss(error);
      isRunning = true;
    } else if (isOutOfScope(reply)) {
      this.#delivery.noteOutOfScope(`experiment ${show(experiment)} shows the control`, error);
    } else if (reply.status === 404) {
      this.#warn(`experiment ${show(experiment)}: ${error.message}`);
    } else {
      throw error;
    }
    return this.#compose(experiment, request, body, isRunning);
  }

  async #learnControl(experiment: string): Promise<void> {
    try {
      await this.#delivery.learn(experiment);
    } catch (error) {
      if (!(error instanceof AwayError)) throw error;
      this.#warn(`the control of experiment ${show(experiment)} is not known yet: the first ranking is shown`);
    }
  }

  /** Logs why a request was refused, once a minute for each message: searches are many. */
  #warn(message: string): void {
    const now = performance.now();
    if (now < (this.#warned.get(message) ?? -Infinity) + WARN_AGAIN_MS) return;
    this.#warned.set(message, now);
    this.#log(message);
  }

  /** Sends events. Spools them if time is over, or if earlier records, perhaps their impressions, are spooled. */
  async #sendEvents(events: readonly object[], deadline: number): Promise<EventCounts> {
    const began = performance.now();
    if (!(await this.#spool.isEmpty()) || began >= deadline) return this.#spoolEvents(events);
    let reply: Reply;
    try {
      reply = await this.#delivery.post(EVENTS, JSON.stringify({ events }), TAKEN, began, deadline);
    } catch (error) {
      if (error instanceof AwayError) return this.#spoolEvents(events);
      throw error;
    }
    if (isSuccess(reply)) {
      this.#hasWorked = true;
      const { accepted, repeated, unmatched } = reply.data as unknown as EventsResponse;
      return { ...NONE, accepted, repeated, unmatched };
    }
    if (isKeyRejected(reply) && this.#hasWorked) {
      this.#delivery.miss(toError(reply));
      return this.#spoolEvents(events);
    }
    if (reply.status !== 422) throw toError(reply);
    if (events.length > 1) {
      // a refused event must not block the others
      let counts = NONE;
      for (const event of events) counts = addCounts(counts, await this.#sendEvents([event], deadline));
      return counts;
    }
    this.#visitors.note("an event", `was refused: ${toError(reply).message}`);
    return { ...NONE, unusable: 1 };
  }

  async #spoolEvents(events: readonly object[]): Promise<EventCounts> {
    const time = new Date().toISOString();
    const isSpooled = await this.#put(null, { events: events.map((event) => ({ time, ...event })) });
    return { ...NONE, spooled: isSpooled ? events.length : 0 };
  }

  async #put(experiment: string | null, body: Record<string, unknown>): Promise<boolean> {
    const isSpooled = await this.#spool.put(JSON.stringify({ experiment, body }));
    if (!isSpooled && this.#spool.dropped === 1) this.#log(`records are dropped from now on: ${this.#spool.problem}`);
    this.#delivery.wake();
    return isSpooled;
  }
}

interface AnyParts {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  takes?: unknown;
  timeoutMs?: number;
}

function encode(body: unknown): string {
  try {
    return JSON.stringify(body);
  } catch (error) {
    throw new ClientError(`the request cannot be written as JSON: ${(error as Error).message}`);
  }
}

const NONE: EventCounts = { accepted: 0, repeated: 0, unmatched: 0, spooled: 0, unusable: 0 };

function addCounts(one: EventCounts, other: EventCounts): EventCounts {
  return {
    accepted: one.accepted + other.accepted,
    repeated: one.repeated + other.repeated,
    unmatched: one.unmatched + other.unmatched,
    spooled: one.spooled + other.spooled,
    unusable: one.unusable + other.unusable,
  };
}

/** An event with the kind `click` if it names none. */
function withKind(event: ClientEvent): unknown {
  return typeof event === "object" && event !== null ? { ...event, kind: event.kind ?? "click" } : event;
}
