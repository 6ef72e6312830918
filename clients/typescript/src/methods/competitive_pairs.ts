/** Competitive pairs (Airbnb 2025): the rankers' best unshown documents meet, in random order, round by round.
 *
 * In each round every ranker proposes its best document that is not shown. The different documents of the round are
 * added in random order, and each belongs to the rankers that proposed it; -1 stands for several, or nobody. With
 * `coins=list`, for two rankers, one coin decides the order of all pairs of a list.
 */

import type { Keyed } from "../randomness.js";
import type { EncodedRankings } from "../rankings.js";
import type { Drawn, Parameters } from "./registry.js";

interface Proposal {
  document: number;
  owner: number;
}

export function compose(encoded: EncodedRankings, k: number, randomness: Keyed, parameters: Parameters): Drawn {
  const hasOneCoin = parameters.coins === "list";
  const coin = hasOneCoin ? randomness.pick(2) : 0;
  const shown: number[] = [];
  const teams: number[] = [];
  const inList = new Array<boolean>(encoded.documents).fill(false);
  let round = propose(encoded.rankings, inList);
  while (shown.length < k && round.length > 0) {
    const count = Math.min(round.length, k - shown.length);
    for (let place = 0; place < count; place++) {
      const left = round.length - place;
      const other = place + (hasOneCoin ? (left === 2 ? coin : 0) : randomness.pick(left));
      [round[place], round[other]] = [round[other]!, round[place]!];
      shown.push(round[place]!.document);
      teams.push(round[place]!.owner);
    }
    round = propose(encoded.rankings, inList);
  }
  return { shown, teams };
}

/** The different documents of the next round with their owners; they are marked as shown. */
function propose(rankings: readonly number[][], inList: boolean[]): Proposal[] {
  const round: Proposal[] = [];
  let able = 0;
  for (const [ranker, ranking] of rankings.entries()) {
    const document = ranking.find((one) => !inList[one]);
    if (document === undefined) continue;
    able++;
    const same = round.find((proposal) => proposal.document === document);
    if (same) same.owner = -1;
    else round.push({ document, owner: ranker });
  }
  for (const proposal of round) {
    inList[proposal.document] = true;
    if (able < rankings.length || round.length === 1) proposal.owner = -1;
  }
  return round;
}
