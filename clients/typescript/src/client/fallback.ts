/** What a client returns, and how it composes lists without the service. */

import { FALLBACK, OUTSIDE } from "../experiment/assignment.js";
import { showList, unmixedPage, type ListRequest } from "../experiment/serving.js";
import { readSettings, type ListSettings } from "../experiment/settings.js";
import { insertFixed } from "../rankings.js";
import type { Spool } from "./spool.js";

/** The documents to show. */
export interface Answer {
  /** The id that events refer to; null if the list is not logged. */
  impression: string | null;
  documents: string[];
  /** `interleaved`, `holdout`, `fallback`, or `outside` of the experiment; with `one_list` the ranker that is shown. */
  arm: string;
  /** Lets a browser report events of this impression; only the service can issue one. */
  token: string | null;
  version: number | null;
  /** Whether the service has stored the list; false if it is spooled or not logged. */
  stored: boolean;
}

/** How many events were accepted, repeated, unmatched or spooled (they are sent when the service answers again).
 *
 * `unusable` events were not sent, or were refused: they lack a list, a result or a kind.
 */
export interface EventCounts {
  accepted: number;
  repeated: number;
  unmatched: number;
  spooled: number;
  unusable: number;
}

/** The state of a client: whether the service is away, and how many records are spooled, dropped or refused.
 *
 * Dropped: records that did not fit into the spool. Refused: spooled records that the service did not accept, and lists
 * of known experiments that the key does not allow. Cleaned: values of visitors that had to be changed. Quarantined:
 * spooled records that are not valid, or that got status 500 repeatedly while others succeeded.
 */
export interface Status {
  away: boolean;
  waiting: number;
  dropped: number;
  refused: number;
  cleaned: number;
  quarantined: number;
}

/** An experiment as the service last described it. */
export interface Known {
  settings: ListSettings;
  version: number;
  state: string;
}

/** Settings of experiments: in memory, and in the spool, for a later process that starts during an outage. */
export class KnownExperiments {
  readonly #known = new Map<string, Known | null>();

  constructor(
    private readonly spool: Spool,
    private readonly log: (message: string) => void,
  ) {}

  /** All experiments that were requested, known or not. */
  get names(): string[] {
    return [...this.#known.keys()];
  }

  get(name: string): Known | null {
    return this.#known.get(name) ?? null;
  }

  /** Remembers that an experiment was requested; true if it is new. */
  async want(name: string): Promise<boolean> {
    if (this.#known.has(name)) return false;
    this.#known.set(name, null);
    const known = parseKnown(await this.spool.readSettings(name));
    if (!this.#known.get(name)) this.#known.set(name, known);
    return true;
  }

  /** Stores the settings that the service sent. */
  async learn(name: string, data: Readonly<Record<string, unknown>>): Promise<void> {
    const { settings, version, state } = data;
    const text = JSON.stringify({ settings, version, state });
    const known = parseKnown(text);
    if (known === null) {
      this.log(`the settings of experiment ${JSON.stringify(name)} are not understood`);
      return;
    }
    if (known.settings.chosen === null && !this.#known.get(name)) {
      const method = JSON.stringify((settings as Record<string, unknown>).method);
      this.log(`only the service can draw the method ${method}: without it the control is shown`);
    }
    const isNew = JSON.stringify(known) !== JSON.stringify(this.#known.get(name));
    this.#known.set(name, known);
    if (isNew) await this.spool.writeSettings(name, text).catch(() => {}); // the copy in memory is enough for now
  }
}

function parseKnown(text: string | null): Known | null {
  if (text === null) return null;
  try {
    const { settings, version, state } = JSON.parse(text);
    const read = readSettings(settings);
    return read && Number.isInteger(version) && typeof state === "string" ? { settings: read, version, state } : null;
  } catch {
    return null;
  }
}

/** The page as the service would compose it, and whether it must be logged.
 *
 * If the experiment is not running, the control is shown; if it is unknown, the first ranking.
 */
export function compose(known: Known | null, request: ListRequest, isRunning = true): [Answer, boolean] {
  const answer = { impression: null, token: null, version: known?.version ?? null, stored: false };
  if (known === null) return [{ ...answer, documents: firstRanking(request), arm: FALLBACK }, false];
  if (!isRunning || known.state !== "running") {
    return [{ ...answer, documents: unmixedPage(known.settings, request), arm: OUTSIDE }, false];
  }
  const { documents, arm, isLogged } = showList(known.settings, known.version, request);
  return [{ ...answer, impression: isLogged ? request.impression : null, documents, arm }, isLogged];
}

/** The first available ranking with fixed documents in place; all of it if the page size is unknown. */
function firstRanking(request: ListRequest): string[] {
  const ranking = [...request.rankings.values()].find((one) => one?.length) ?? [];
  const places = new Set(request.fixed.values());
  const documents = insertFixed(
    ranking.filter((document) => !places.has(document)),
    request.fixed,
  );
  if (request.k === null) return request.page === 1 ? documents : [];
  return documents.slice(request.k * (request.page - 1), request.k * request.page);
}
