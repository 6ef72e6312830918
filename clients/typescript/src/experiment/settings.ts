/** The settings of a live experiment that decide what people see. */

import { MethodError } from "../errors.js";
import { resolve, type ResolvedMethod } from "../methods/registry.js";

export interface ListSettings {
  name: string;
  rankers: string[];
  control: string;
  /** The method; null if only the service can draw it. */
  chosen: ResolvedMethod | null;
  k: number;
  share: number;
  lane: string | null;
  offset: number;
  holdout: number;
  mode: string;
}

/** Purposes of an experiment that change the rankings before they are mixed. */
export const AA = "aa";
export const RELABELLED = "aa_relabelled";
export const LOSER = "known_loser";

/** Reads the settings that the service describes; null if this release does not understand them. */
export function readSettings(data: unknown): ListSettings | null {
  if (typeof data !== "object" || data === null) return null;
  const { name, rankers, control, method, k, share, lane, offset, holdout, mode } = data as Record<string, unknown>;
  const areTexts = [name, control, method, mode].every((value) => typeof value === "string");
  const areNumbers = [k, share, holdout, offset ?? 0].every((value) => typeof value === "number");
  const areRankers = Array.isArray(rankers) && rankers.every((ranker) => typeof ranker === "string");
  if (!areTexts || !areNumbers || !areRankers || !(lane === null || typeof lane === "string")) return null;
  const known = { name, rankers, control, k, share, lane, offset: offset ?? 0, holdout, mode } as Omit<
    ListSettings,
    "chosen"
  >;
  return { ...known, chosen: resolveIfKnown(method as string) };
}

function resolveIfKnown(method: string): ResolvedMethod | null {
  try {
    return resolve(method);
  } catch (error) {
    if (error instanceof MethodError) return null;
    throw error;
  }
}
