/** Team draft (Radlinski et al. 2008; for many rankers Schuth et al. 2014): rankers pick in turn.
 *
 * In each round every ranker that still can adds its best unshown document, in a new random order, and owns it. With
 * `fill=fair`, positions below the length of the shortest ranking have no owner.
 */

import type { Keyed } from "../randomness.js";
import type { EncodedRankings } from "../rankings.js";
import type { Drawn, Parameters } from "./registry.js";

export function compose(encoded: EncodedRankings, k: number, randomness: Keyed, parameters: Parameters): Drawn {
  const { rankings } = encoded;
  const inList = new Array<boolean>(encoded.documents).fill(false);
  const best = new Array<number>(rankings.length).fill(0);
  const order = rankings.map((_, ranker) => ranker);
  const shown = parameters.prefix ? sharedPrefix(rankings, k) : [];
  const teams = shown.map(() => -1);
  for (const document of shown) inList[document] = true;
  const owned = parameters.fill === "fair" ? Math.min(k, ...rankings.map((ranking) => ranking.length)) : k;
  const canPick = (ranker: number): boolean => {
    const ranking = rankings[ranker]!;
    while (best[ranker]! < ranking.length && inList[ranking[best[ranker]!]!]) best[ranker]!++;
    return best[ranker]! < ranking.length;
  };
  let drafting = rankings.length;
  let picked = 0; // the rankers at the begin of `order` that have picked in this round
  while (shown.length < k && drafting > 0) {
    if (parameters.fill === "stop" && !order.every(canPick)) break;
    const place = picked + randomness.pick(drafting - picked);
    const ranker = order[place]!;
    if (canPick(ranker)) {
      const document = rankings[ranker]![best[ranker]!]!;
      teams.push(shown.length < owned ? ranker : -1);
      shown.push(document);
      inList[document] = true;
      order[place] = order[picked]!;
      order[picked] = ranker;
      picked++;
    } else {
      drafting--;
      order[place] = order[drafting]!;
    }
    if (picked === drafting) picked = 0;
  }
  return { shown, teams };
}

/** The documents that all rankings begin with, at most `k`. */
function sharedPrefix(rankings: readonly number[][], k: number): number[] {
  const [first = [], ...others] = rankings;
  let length = 0;
  while (length < Math.min(k, first.length) && others.every((ranking) => ranking[length] === first[length])) length++;
  return first.slice(0, length);
}
