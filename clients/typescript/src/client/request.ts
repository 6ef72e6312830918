/** The request for a list: checked where the caller is wrong, cleaned where visitors are. */

import { LIMITS, type Caption, type InterleaveRequest } from "../api.js";
import { ClientError, show } from "../errors.js";
import type { ListRequest } from "../experiment/serving.js";
import { newId } from "../randomness.js";
import { byName, collapse, textId, type Document, type Fixed, type Groups, type Ranking } from "../rankings.js";
import { whole, type Visitors } from "./visitors.js";

/** Rankings by ranker; null stands for a ranking that failed or came too late, [] for one that found nothing. */
export type ClientRankings = ReadonlyMap<string, Ranking | null> | Readonly<Record<string, Ranking | null>>;

/** What is known of a search besides its rankings. */
export interface SearchOptions {
  /** The id of the user, the client or the session. */
  unit?: string | null;
  query?: string | null;
  session?: string | null;
  /** How many results a page shows, if it differs from the experiment's setting. */
  k?: number | null;
  page?: number;
  attributes?: Readonly<Record<string, unknown>> | null;
  captions?: Readonly<Record<string, Caption>> | null;
  /** By document, the length of its text. */
  characters?: Readonly<Record<string, number>> | null;
  /** The impression of the first page, for a `page` after it. */
  impression?: string | null;
  /** Documents at fixed ranks, such as ads. */
  fixed?: Fixed;
  /** The group of each document, such as a product of which the documents are variants. */
  groups?: Groups;
  /** By ranker, how long it took. */
  latency?: Readonly<Record<string, number>> | null;
  userAgent?: string | null;
}

/** The request as it is composed here, and as it is sent. */
export function readRequest(
  visitors: Visitors,
  rankings: ClientRankings,
  options: SearchOptions,
): [ListRequest, Record<string, unknown>] {
  const fixed = textFixed(options.fixed ?? {});
  const texts = textRankings(rankings);
  const request: ListRequest = {
    impression: visitors.id("impression", options.impression) ?? newId(),
    unit: visitors.id("unit", options.unit),
    query: visitors.text("query", options.query, LIMITS.MAX_QUERY),
    rankings: options.groups ? collapse(texts, options.groups, fixed.values()) : texts,
    k: visitors.k(options.k),
    page: visitors.page(options.page ?? 1),
    fixed,
  };
  // Further pages use the rankings of the first, so the service needs the groups of documents that are fixed there.
  const groups = options.groups && request.page > 1 && fixed.size ? textGroups(options.groups) : null;
  const optional: Required<Omit<InterleaveRequest, "impression" | "rankings" | "page" | "time" | "version">> = {
    ...{ unit: request.unit, query: request.query, session: visitors.id("session", options.session), k: request.k },
    attributes: visitors.attributes(options.attributes),
    captions: visitors.captions(options.captions),
    characters: visitors.characters(options.characters),
    fixed: fixed.size ? Object.fromEntries(fixed) : null,
    groups,
    latency: options.latency ?? null,
    user_agent: visitors.text("user_agent", options.userAgent, LIMITS.MAX_USER_AGENT),
  };
  const given = Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== null));
  const { impression, page } = request;
  return [request, { impression, rankings: Object.fromEntries(request.rankings), page, ...given }];
}

/** Rankings with their ids as texts. */
function textRankings(rankings: ClientRankings): Map<string, string[] | null> {
  if (typeof rankings !== "object" || rankings === null || Array.isArray(rankings)) {
    throw new ClientError(`rankings are an object or a Map from ranker to ranking, not ${show(rankings)}`);
  }
  const texts = new Map<string, string[] | null>();
  for (const [ranker, ranking] of byName(rankings as Readonly<Record<string, Ranking>>)) {
    texts.set(ranker, (ranking ?? null) === null ? null : textRanking(ranker, ranking));
  }
  return texts;
}

function textRanking(ranker: string, ranking: unknown): string[] {
  if (!Array.isArray(ranking)) {
    throw new ClientError(`ranking ${show(ranker)} is ${show(ranking)}; give an array of documents, or null`);
  }
  return ranking.map((document, place) => {
    const text = textId(document);
    if (text !== null) return text;
    const where = `ranking ${show(ranker)} holds ${show(document)} at rank ${place + 1}`;
    throw new ClientError(`${where}; a document id is a text or a whole number, such as 'product-7-red'`);
  });
}

function textGroups(groups: Groups): Record<string, string> {
  const entries: [Document, Document][] = groups instanceof Map ? [...groups] : Object.entries(groups);
  return Object.fromEntries(entries.map(([document, group]) => [String(document), String(group)]));
}

/** Fixed documents by rank, with ids as texts. */
function textFixed(fixed: Fixed): Map<number, string> {
  const entries: [unknown, unknown][] = fixed instanceof Map ? [...fixed] : Object.entries(fixed);
  return new Map(
    entries.map(([rank, document]) => {
      const place = whole(rank);
      const text = textId(document);
      if (place !== null && place >= 1 && place <= LIMITS.MAX_FIXED && text) return [place, text];
      const remedy = `give a rank from 1 to ${LIMITS.MAX_FIXED}, and the id of a document as text or whole number`;
      throw new ClientError(`fixed holds ${show(document)} at rank ${show(rank)}; ${remedy}`);
    }),
  );
}
