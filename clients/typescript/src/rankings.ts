/** Rankings of a caller: checked, with documents as numbers. Documents at fixed ranks of a list, such as ads. */

import { RankingError, show } from "./errors.js";

/** The id of a document: a text or a whole number. A log has both as texts. */
export type Document = string | number;
export type Ranking = readonly Document[];
/** Rankings by the name of their ranker, or one after the other, which get the names A, B, C, ... */
export type Rankings = ReadonlyMap<string, Ranking> | Readonly<Record<string, Ranking>> | readonly Ranking[];
/** Documents at fixed ranks of the list that people see, such as ads: `{1: "ad"}`. */
export type Fixed = ReadonlyMap<number, Document> | Readonly<Record<number, Document>>;
/** The group of each document, such as a product of which the documents are variants. */
export type Groups = ReadonlyMap<Document, Document> | Readonly<Record<string, Document>>;

const MAX_DOCUMENTS = 1_000_000;
const MAX_RANKERS = 127;
const WHOLE = /^(0|[1-9]\d*)$/;

/** Rankings in which documents are numbers, in the order of first appearance. */
export interface EncodedRankings {
  rankings: number[][];
  /** How many different documents they hold. */
  documents: number;
}

/** Entries in the order in which they were written; an object whose order JavaScript changes is refused. */
export function entriesOf<V>(
  values: ReadonlyMap<string, V> | Readonly<Record<string, V>>,
  what: string,
): [string, V][] {
  if (values instanceof Map) return [...values];
  const entries = Object.entries(values);
  const whole = entries.find(([name]) => WHOLE.test(name));
  if (whole && entries.length > 1) {
    throw new RankingError(
      `${what} ${show(whole[0])} is a whole number as the name of a property, and JavaScript sorts such names; ` +
        "give a Map, which keeps its order, or another name",
    );
  }
  return entries;
}

/** Rankings by the name of their ranker; those without names get the names A, B, C, ... */
export function byName(rankings: Rankings): Map<string, Ranking> {
  if (typeof rankings !== "object" || rankings === null) {
    throw new RankingError(
      `rankings are an object or a Map from ranker to ranking, or an array of rankings, not ${show(rankings)}`,
    );
  }
  const entries = isArray(rankings)
    ? rankings.map((ranking, place): [string, Ranking] => [letter(place), ranking])
    : entriesOf(rankings, "ranker");
  return new Map(entries);
}

/** Checks rankings, and how many there are. */
export function checkRankings(
  rankings: Rankings,
  method: string,
  [least, most]: readonly [number, number | null],
): Map<string, Ranking> {
  const named = byName(rankings);
  const problems: string[] = [];
  if (named.size < least || named.size > (most ?? MAX_RANKERS)) {
    const range = least === most ? `exactly ${least}` : `${least} to ${most ?? MAX_RANKERS}`;
    problems.push(`${method} compares ${range} rankers, not ${named.size}: ${show([...named.keys()])}`);
  }
  for (const [ranker, ranking] of named) problems.push(...findRankingProblems(ranker, ranking));
  if (!problems.length && [...named.values()].every((ranking) => !ranking.length)) {
    problems.push("every ranking is empty; at least one must hold a document");
  }
  if (!problems.length) problems.push(...findMixedIds(named));
  if (problems.length) throw new RankingError(problems.join("\n"));
  return named;
}

function findRankingProblems(ranker: string, ranking: unknown): string[] {
  if (!ranker) return ["a ranker's name is a text that is not empty"];
  if (!Array.isArray(ranking)) return [`ranking ${show(ranker)} is ${show(ranking)}; give an array of documents`];
  if (ranking.length > MAX_DOCUMENTS) {
    return [`ranking ${show(ranker)} holds ${ranking.length} documents; cut it at ${MAX_DOCUMENTS}`];
  }
  const ranks = new Map<unknown, number>();
  for (const [place, document] of ranking.entries()) {
    if (textId(document) === null) return [badDocument(ranker, document, place + 1)];
    const before = ranks.get(document);
    if (before !== undefined) {
      const where = `at ranks ${before} and ${place + 1}`;
      return [`ranking ${show(ranker)} holds document ${show(document)} twice, ${where}; keep the first`];
    }
    ranks.set(document, place + 1);
  }
  return [];
}

function badDocument(ranker: string, document: unknown, rank: number): string {
  return (
    `ranking ${show(ranker)} holds ${show(document)} at rank ${rank}; ` +
    "a document id is a text or a whole number, as logs keep it: give one, such as 'product-7-red'"
  );
}

/** The number 7 and the text "7" are one document in a log, so they must not stand for two. */
function findMixedIds(named: ReadonlyMap<string, Ranking>): string[] {
  const ids = new Map<string, Document>();
  for (const document of [...named.values()].flat()) {
    const text = String(document);
    const other = ids.get(text);
    if (other !== undefined && other !== document) {
      const both = `${show(document)} and ${show(other)}`;
      return [`rankings hold both ${both}, which are one document in a log; give all ids as texts, or all as numbers`];
    }
    ids.set(text, document);
  }
  return [];
}

/** How many documents to show: a whole number from 1 up. */
export function checkK(k: unknown): number {
  if (!Number.isSafeInteger(k) || (k as number) < 1) {
    throw new RankingError(`k is ${show(k)}; show a whole number of documents, at least 1`);
  }
  return k as number;
}

/** The documents in the order of first appearance, and the top of each ranking in their numbers. */
export function encode(rankings: readonly Ranking[], depth: number): [Document[], EncodedRankings] {
  const numbers = new Map<Document, number>();
  const encoded = rankings.map((ranking) =>
    ranking.slice(0, depth).map((document) => {
      const known = numbers.get(document);
      if (known !== undefined) return known;
      numbers.set(document, numbers.size);
      return numbers.size - 1;
    }),
  );
  return [[...numbers.keys()], { rankings: encoded, documents: numbers.size }];
}

/** A document id as text, as logs store it; null for what is none. */
export function textId(document: unknown): string | null {
  if (typeof document === "string") return document;
  return Number.isSafeInteger(document) ? String(document) : null;
}

/** Rankings without some documents; ids are compared as texts, as in logs. */
export function removeDocuments<D extends Document>(
  rankings: ReadonlyMap<string, readonly D[]>,
  documents: Iterable<Document>,
): Map<string, D[]> {
  const removed = new Set(Array.from(documents, String));
  const rest = (ranking: readonly D[]): D[] => ranking.filter((document) => !removed.has(String(document)));
  return new Map(Array.from(rankings, ([ranker, ranking]) => [ranker, rest(ranking)]));
}

/** Rankings with one document of each group, at the rank of the group's first document.
 *
 * All rankings get the same document of a group: the one that the first ranking with this group has. A document without
 * a group is its own group. Ids are compared as texts, as in logs. Groups of `fixed` documents are left out.
 */
export function collapse<R extends Ranking | null>(
  rankings: ReadonlyMap<string, R>,
  groups: Groups,
  fixed: Iterable<Document> = [],
): Map<string, R> {
  const groupOf = new Map<string, Document>();
  const entries: [Document, Document][] = groups instanceof Map ? [...groups] : Object.entries(groups);
  for (const [document, group] of entries) {
    const text = String(document);
    const other = groupOf.get(text) ?? group;
    if (other !== group) {
      const both = `${show(other)} and in ${show(group)}`;
      throw new RankingError(`groups have document ${show(text)} in ${both}; a number and its text are one id`);
    }
    groupOf.set(text, group);
  }
  const documentOf = new Map<Document, Document>();
  const fixedGroups = Array.from(fixed, (document) => groupOf.get(String(document))).filter(
    (group) => group !== undefined,
  );
  const collapsed = new Map<string, R>();
  for (const [ranker, ranking] of rankings) {
    collapsed.set(ranker, ranking && (oneOfEach(ranking, groupOf, documentOf, fixedGroups) as unknown as R));
  }
  return collapsed;
}

function oneOfEach(
  ranking: Ranking,
  groupOf: ReadonlyMap<string, Document>,
  documentOf: Map<Document, Document>,
  fixedGroups: readonly Document[],
): Document[] {
  const groups = new Set(fixedGroups);
  const documents: Document[] = [];
  for (const document of ranking) {
    const group = groupOf.get(String(document));
    if (group === undefined) {
      documents.push(document);
    } else if (!groups.has(group)) {
      groups.add(group);
      if (!documentOf.has(group)) documentOf.set(group, document);
      documents.push(documentOf.get(group)!);
    }
  }
  return documents;
}

/** Documents at fixed ranks of a list of `k` documents, by rank; one error lists all problems. */
export function checkFixed(fixed: Fixed, k: number): Map<number, Document> {
  const places = fixed instanceof Map ? [...fixed] : Object.entries(fixed).map(([rank, one]) => [Number(rank), one]);
  const problems: string[] = [];
  const ranks = new Map<string, number>();
  for (const [rank, document] of places as [number, unknown][]) {
    const place = `fixed holds ${show(document)} at rank ${rank}`;
    const text = textId(document);
    if (!Number.isInteger(rank) || rank < 1) problems.push(`${place}; a rank is a whole number, and 1 is the top`);
    else if (rank > k) problems.push(`${place}, but k is ${k}; raise k, or leave the document out`);
    if (text === null) problems.push(`${place}; a document id is a text or a whole number`);
    else if (ranks.has(text)) problems.push(`${place} and at rank ${ranks.get(text)}; give each document one rank`);
    else ranks.set(text, rank);
  }
  const checked = new Map(places as [number, Document][]);
  if (!problems.length && !countFreeRanks(k, checked)) {
    problems.push(`fixed takes all of the ${k} ranks of the list; raise k, so that there are ranks to interleave`);
  }
  if (problems.length) throw new RankingError(problems.join("\n"));
  return checked;
}

/** How many of the first `size` ranks hold no fixed document. */
export function countFreeRanks(size: number, fixed: ReadonlyMap<number, Document>): number {
  return size - [...fixed.keys()].filter((rank) => rank <= size).length;
}

/** The list that people see: fixed documents at their ranks, the others at the free ranks in their order.
 *
 * The list has no gaps, so a fixed document whose rank is below the end of the list is left out.
 */
export function insertFixed<D extends Document>(documents: readonly D[], fixed: ReadonlyMap<number, D>): D[] {
  const whole = [...documents];
  for (const [rank, document] of [...fixed].sort(([one], [other]) => one - other)) {
    if (rank <= whole.length + 1) whole.splice(rank - 1, 0, document);
  }
  return whole;
}

/** A, B, ..., Z, AA, AB, ... */
export function letter(place: number): string {
  const last = String.fromCharCode(65 + (place % 26));
  return place < 26 ? last : letter(Math.floor(place / 26) - 1) + last;
}

/** `Array.isArray` that also narrows arrays that cannot be changed. */
function isArray<T>(value: readonly T[] | object): value is readonly T[] {
  return Array.isArray(value);
}
