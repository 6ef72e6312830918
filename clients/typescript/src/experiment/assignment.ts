/** Assigns units to an experiment by hashing: interleaved lists, holdout, or outside. */

import { hashFraction } from "../randomness.js";
import type { ListSettings } from "./settings.js";

export const INTERLEAVED = "interleaved";
export const HOLDOUT = "holdout";
export const FALLBACK = "fallback";
export const OUTSIDE = "outside";

/** Whether a unit sees interleaved lists, is held out, or is outside of the experiment. */
export function assign(settings: ListSettings, unit: string): string {
  const { name, lane, offset, share, holdout } = settings;
  if (share < 1) {
    const place = hashFraction(`interleaf-lane ${lane ?? name}`, unit);
    if (place < offset || place >= offset + share) return OUTSIDE;
  }
  return holdout > 0 && hashFraction(`interleaf-holdout ${name}`, unit) < holdout ? HOLDOUT : INTERLEAVED;
}
