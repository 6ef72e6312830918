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

/** A request for a list.
 *
 * null stands for a ranking that failed or came too late, as does one that is left out. An empty ranking is an answer:
 * the ranker found nothing.
 */
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
  const shownRanker = findShownRanker(settings, request, available);
  const size = request.k ?? settings.k;
  const length = countFreeRanks(size * request.page, request.fixed);
  const arm = assign(settings, unit);
  if (arm === OUTSIDE || shownRanker === undefined || length < 1) {
    return { documents: unmixedPage(settings, request), arm, isLogged: false };
  }
  const needed = settings.mode === AA || settings.mode === LOSER ? [settings.control] : settings.rankers;
  const isComplete = needed.every((ranker) => canMix(settings, request, available, ranker));
  if (!isComplete || arm !== INTERLEAVED) {
    if (!areEmpty(available)) checkRankings(available, "the control", [1, null]);
    const list = available.get(shownRanker)!.slice(0, length);
    const documents = onePage(list, request.fixed, size, request.page);
    return { documents, arm: isComplete ? arm : FALLBACK, isLogged: true };
  }
  if (settings.chosen === null) return { documents: unmixedPage(settings, request), arm: FALLBACK, isLogged: false };
  const rankings = asMode(settings, available, version, unit, size);
  const query = settings.chosen.method.isDrawnByUnit ? "" : (request.query ?? "");
  const key = keyOf([settings.name, version, unit, query]);
  const list = areEmpty(rankings) ? { documents: [], teams: [] } : draw(rankings, settings.chosen, length, key);
  return {
    documents: onePage(list.documents as string[], request.fixed, size, request.page),
    arm: settings.chosen.text === ONE_LIST ? findOwner([...rankings.keys()], list.teams, key) : arm,
    isLogged: true,
  };
}

/** The ranker of a list of one ranker. An empty list has no owner; its ranker is drawn again from the key. */
function findOwner(rankers: readonly string[], teams: readonly number[], key: string): string {
  return rankers[teams[0] ?? new Keyed(key).pick(rankers.length)]!;
}

/** The requested page of the control's list, or of another one if the control failed. */
export function unmixedPage(settings: ListSettings, request: ListRequest): string[] {
  const available = completeRankings(settings, request);
  const shownRanker = findShownRanker(settings, request, available);
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

/** A ranking for each ranker, without fixed documents; also empty if it is missing. */
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

function areEmpty(rankings: Complete): boolean {
  return [...rankings.values()].every((ranking) => !ranking.length);
}

/** Whether the ranker answered, even if it found nothing. */
function hasAnswered(request: ListRequest, ranker: string): boolean {
  return (request.rankings.get(ranker) ?? null) !== null;
}

/** Whether the ranker answered; with documents, if one empty ranking would make the mixed list empty. */
function canMix(settings: ListSettings, request: ListRequest, available: Complete, ranker: string): boolean {
  const stopsEarly = settings.chosen?.parameters.fill === "stop";
  return hasAnswered(request, ranker) && (!stopsEarly || available.get(ranker)!.length > 0);
}

/** The ranker whose list is shown if nothing is mixed: the control if it answered, else the first one that found
 * something, else the first one that answered.
 */
function findShownRanker(settings: ListSettings, request: ListRequest, available: Complete): string | undefined {
  const answered = settings.rankers.filter((ranker) => hasAnswered(request, ranker));
  if (answered.includes(settings.control)) return settings.control;
  return answered.find((ranker) => available.get(ranker)!.length) ?? answered[0];
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
