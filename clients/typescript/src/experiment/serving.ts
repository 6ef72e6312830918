/** Composes the list for a request, as the service does. */

import { ClientError, show } from "../errors.js";
import { draw } from "../interleave.js";
import { ONE_LIST } from "../methods/registry.js";
import { Keyed, keyOf } from "../randomness.js";
import { checkRankings, countFreeRanks, insertFixed, removeDocuments } from "../rankings.js";
import { assign, FALLBACK, INTERLEAVED, OUTSIDE } from "./assignment.js";
import { AA, LOSER, RELABELLED, type ListSettings } from "./settings.js";

export type TextRankings = ReadonlyMap<string, readonly string[] | null>;
type Complete = Map<string, readonly string[]>;

/** A request for a list; null stands for a ranking that failed or came too late. */
export interface ListRequest {
  impression: string;
  unit: string | null;
  query: string | null;
  rankings: TextRankings;
  k: number | null;
  page: number;
  fixed: ReadonlyMap<number, string>;
}

/** The documents of the requested page, the arm of the unit, and whether the list is logged. */
export interface Shown {
  documents: string[];
  arm: string;
  isLogged: boolean;
}

/** Composes the list of a request. The same unit and query get the same list, for any number of pages.
 *
 * Where only the service can draw the method, the control is shown and nothing is logged.
 */
export function showList(settings: ListSettings, version: number, request: ListRequest): Shown {
  const unit = request.unit ?? request.impression;
  const available = completeRankings(settings, request);
  const shownRanker = findShownRanker(settings, available);
  const size = request.k ?? settings.k;
  const length = countFreeRanks(size * request.page, request.fixed);
  const arm = assign(settings, unit);
  if (arm === OUTSIDE || shownRanker === undefined || length < 1) {
    return { documents: unmixedPage(settings, request), arm, isLogged: false };
  }
  const needed = settings.mode === AA || settings.mode === LOSER ? [settings.control] : settings.rankers;
  const isComplete = needed.every((ranker) => available.get(ranker)!.length);
  if (!isComplete || arm !== INTERLEAVED) {
    checkRankings(available, "the control", [1, null]);
    const list = available.get(shownRanker)!.slice(0, length);
    const documents = onePage(list, request.fixed, size, request.page);
    return { documents, arm: isComplete ? arm : FALLBACK, isLogged: true };
  }
  if (settings.chosen === null) return { documents: unmixedPage(settings, request), arm: FALLBACK, isLogged: false };
  const rankings = asMode(settings, available, version, unit, size);
  const query = settings.chosen.method.isDrawnByUnit ? "" : (request.query ?? "");
  const list = draw(rankings, settings.chosen, length, [settings.name, version, unit, query]);
  return {
    documents: onePage(list.documents as string[], request.fixed, size, request.page),
    arm: settings.chosen.text === ONE_LIST && list.teams.length ? list.rankers[list.teams[0]!]! : arm,
    isLogged: true,
  };
}

/** The requested page of the control's list, or of the first available one. */
export function unmixedPage(settings: ListSettings, request: ListRequest): string[] {
  const available = completeRankings(settings, request);
  const shownRanker = findShownRanker(settings, available);
  const ranking = shownRanker === undefined ? [] : available.get(shownRanker)!;
  return onePage(ranking, request.fixed, request.k ?? settings.k, request.page);
}

/** One page of the list that users see. */
export function onePage(
  documents: readonly string[],
  fixed: ReadonlyMap<number, string>,
  size: number,
  page: number,
): string[] {
  return insertFixed(documents.slice(0, size * page), fixed).slice(size * (page - 1), size * page);
}

/** A ranking for each ranker, without fixed documents; empty if it is missing. */
function completeRankings(settings: ListSettings, request: ListRequest): Complete {
  for (const ranker of request.rankings.keys()) {
    if (!settings.rankers.includes(ranker)) {
      const problem = `there is no such ranker; there are ${settings.rankers.join(", ")}`;
      throw new ClientError(`rankings cannot be ${show(ranker)}: ${problem}`, null, null, "rankings");
    }
  }
  if (new Set(request.fixed.values()).size < request.fixed.size) {
    const problem = `fixed cannot be ${show(Object.fromEntries(request.fixed))}: give each document one rank`;
    throw new ClientError(problem, null, null, "fixed");
  }
  const rankings = new Map(settings.rankers.map((ranker) => [ranker, request.rankings.get(ranker) ?? []]));
  return request.fixed.size ? removeDocuments(rankings, request.fixed.values()) : rankings;
}

/** The ranker whose list is shown if nothing can be mixed: the control, or the first one with a ranking. */
function findShownRanker(settings: ListSettings, available: Complete): string | undefined {
  return [settings.control, ...settings.rankers].find((ranker) => available.get(ranker)?.length);
}

/** The rankings to mix: those available, or, in a check of the set-up, copies or reversals of the control's. */
function asMode(settings: ListSettings, available: Complete, version: number, unit: string, size: number): Complete {
  const { rankers, control, mode, name } = settings;
  const ofControl = available.get(control)!;
  if (mode === AA) return new Map(rankers.map((ranker) => [ranker, ofControl]));
  if (mode === LOSER) {
    const worse = [...ofControl.slice(0, size).reverse(), ...ofControl.slice(size)];
    return new Map(rankers.map((ranker) => [ranker, ranker === control ? ofControl : worse]));
  }
  if (mode === RELABELLED) {
    const randomness = new Keyed(keyOf([[name, version, unit], "relabelled"]));
    const left = [...rankers];
    const swapped = rankers.map(() => left.splice(randomness.pick(left.length), 1)[0]!);
    return new Map(rankers.map((ranker, place) => [ranker, available.get(swapped[place]!)!]));
  }
  return available;
}
