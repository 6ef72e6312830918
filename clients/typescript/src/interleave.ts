/** `interleave`: mixes rankings into one list in this process, the same list as Python draws for the same key. */

import { RankingError } from "./errors.js";
import { DEFAULT, resolve, type ResolvedMethod } from "./methods/registry.js";
import { Keyed, keyOf, type Key } from "./randomness.js";
import {
  byName,
  checkFixed,
  checkK,
  checkRankings,
  collapse,
  countFreeRanks,
  encode,
  insertFixed,
  removeDocuments,
  type Document,
  type Fixed,
  type Groups,
  type Ranking,
  type Rankings,
} from "./rankings.js";

export interface InterleaveOptions {
  /** The method with its parameters, such as `team_draft(fill=owned)`; by default `competitive_pairs`. */
  method?: string;
  /** How many documents to show; 10 by default. */
  k?: number;
  /** The same key gives the same list; without it, chance decides anew. */
  key?: Key | null;
  /** The group of each document: a list shows one of each group, and none of a group with a fixed document. */
  groups?: Groups;
  /** Documents at given ranks, such as ads: they belong to no ranker. Show `wholeList` then. */
  fixed?: Fixed;
}

/** The columns of the log for one list. */
export interface ListRecord {
  method: string;
  key: string;
  rankers: string[];
  documents: Document[];
  ranks: number[][];
  teams: number[];
  lengths: number[];
  union: number;
  choices: null;
  log_probability: null;
  relaxed: null;
  rankings: Document[][];
  unshown_ranks: number[][];
  fixed?: Record<string, Document>;
}

/** A shown list; log what `toRecord` returns. */
export interface Interleaving {
  /** The documents without fixed ones, as they are logged. */
  documents: Document[];
  /** By document, the place of the ranker that owns it; -1: nobody, or several. */
  teams: number[];
  rankers: string[];
  /** The method as a spec string. */
  method: string;
  /** The name of the key. */
  key: string;
  /** The list that people see: `documents` with the fixed ones at their ranks. */
  wholeList: Document[];
  /** The record to log, which Python reads. */
  toRecord(): ListRecord;
}

/** Mixes rankings into one list; the same key gives the same list. */
export function interleave(rankings: Rankings, options: InterleaveOptions = {}): Interleaving {
  const chosen = resolve(options.method ?? DEFAULT);
  const k = checkK(options.k ?? 10);
  if (options.fixed === undefined) {
    const merged = options.groups === undefined ? rankings : collapse(byName(rankings), options.groups);
    return draw(merged, chosen, k, options.key);
  }
  const fixed = checkFixed(options.fixed, k);
  const named = byName(rankings);
  const merged = options.groups === undefined ? named : collapse(named, options.groups, fixed.values());
  const rest = removeDocuments(merged, fixed.values());
  if ([...rest.values()].every((ranking) => !ranking.length)) {
    throw new RankingError("no ranking holds a document that is not fixed; at least one must");
  }
  return draw(rest, chosen, countFreeRanks(k, fixed), options.key, fixed);
}

/** Draws the list for checked options. */
export function draw(
  rankings: Rankings,
  chosen: ResolvedMethod,
  k: number,
  key?: Key | null,
  fixed: ReadonlyMap<number, Document> = new Map(),
): Interleaving {
  const checked = checkRankings(rankings, chosen.text, chosen.rankers);
  const name = keyOf(key);
  const [names, encoded] = encode([...checked.values()], k);
  const size = Math.min(k, encoded.documents);
  const { shown, teams } = chosen.method.compose(encoded, size, new Keyed(name), chosen.parameters);
  const documents = shown.map((number) => names[number]!);
  const list = { documents, teams, rankers: [...checked.keys()], method: chosen.text, key: name };
  return {
    ...list,
    wholeList: insertFixed(documents, fixed),
    toRecord: () => record(list, [...checked.values()], fixed),
  };
}

function record(
  list: Omit<Interleaving, "wholeList" | "toRecord">,
  rankings: readonly Ranking[],
  fixed: ReadonlyMap<number, Document>,
): ListRecord {
  const { method, key, rankers, documents, teams } = list;
  const ranksIn = rankings.map((ranking) => new Map(ranking.map((document, place) => [document, place + 1])));
  const shown = new Set(documents);
  const tops = rankings.map((ranking) => ranking.slice(0, documents.length));
  const unshown = [...new Set(tops.flat())].filter((document) => !shown.has(document));
  return {
    ...{ method, key, rankers, documents },
    ranks: ranksIn.map((ranks) => documents.map((document) => ranks.get(document) ?? 0)),
    teams,
    lengths: rankings.map((ranking) => ranking.length),
    union: new Set(rankings.flat()).size,
    ...{ choices: null, log_probability: null, relaxed: null },
    rankings: rankings.map((ranking) => [...ranking]),
    unshown_ranks: tops.map((top) => unshown.map((document) => top.indexOf(document) + 1)),
    ...(fixed.size ? { fixed: Object.fromEntries(fixed) } : {}),
  };
}
