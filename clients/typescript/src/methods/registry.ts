/** The table of the methods that this package can draw, and spec strings such as `team_draft(fill=owned)`. */

import { MethodError, show } from "../errors.js";
import type { Keyed } from "../randomness.js";
import type { EncodedRankings } from "../rankings.js";
import { compose as competitivePairs } from "./competitive_pairs.js";
import { compose as teamDraft } from "./team_draft.js";

export type Parameters = Readonly<Record<string, string | boolean>>;

/** The documents of a list by number, and their owners: -1 nobody or several. */
export interface Drawn {
  shown: number[];
  teams: number[];
}

interface Parameter {
  /** The values, the default first. */
  choices: readonly (string | boolean)[];
  /** The values that are for two rankers only. */
  forTwo?: string | boolean;
}

interface Method {
  parameters: Readonly<Record<string, Parameter>>;
  compose: (encoded: EncodedRankings, k: number, randomness: Keyed, parameters: Parameters) => Drawn;
  /** Whether a list is drawn by its unit alone, and not by its query. */
  isDrawnByUnit?: boolean;
  /** Whether the log has the ranks of the documents that are not shown. */
  logsUnshownRanks?: boolean;
}

export const DEFAULT = "competitive_pairs";
export const ONE_LIST = "one_list";

export const METHODS: Readonly<Record<string, Method>> = {
  competitive_pairs: {
    parameters: { coins: { choices: ["pair", "list"], forTwo: "list" } },
    compose: competitivePairs,
    logsUnshownRanks: true,
  },
  team_draft: {
    parameters: { fill: { choices: ["fair", "owned", "stop"] }, prefix: { choices: [false, true] } },
    compose: teamDraft,
    logsUnshownRanks: true,
  },
  /** The list of one ranker, drawn by a fair coin. */
  one_list: {
    parameters: {},
    compose: ({ rankings }, k, randomness) => {
      const ranker = randomness.pick(rankings.length);
      const shown = rankings[ranker]!.slice(0, k);
      return { shown, teams: shown.map(() => ranker) };
    },
    isDrawnByUnit: true,
    logsUnshownRanks: true,
  },
};

/** A method with its parameters. `text` is the canonical spec string: it leaves defaults out. */
export interface ResolvedMethod {
  text: string;
  method: Method;
  parameters: Parameters;
  /** The least and the largest number of rankers; null: no limit of its own. */
  rankers: readonly [number, number | null];
}

const SPEC = /^\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*$/s;
const ITEM = /^\s*([A-Za-z_]\w*)\s*=\s*(["']?)(\w+)\2\s*$/;

/** The method of a spec string. */
export function resolve(spec: string): ResolvedMethod {
  const [, name, inside = ""] = SPEC.exec(spec) ?? [];
  if (name === undefined) {
    throw new MethodError(`${show(spec)} is not a spec; write a name, or name(parameter=value, ...)`);
  }
  const method = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
  if (!method) {
    const known = Object.keys(METHODS).join(", ");
    throw new MethodError(`${show(name)} cannot be drawn here; there are ${known}. A service draws the other methods`);
  }
  const values = readParameters(spec, name, inside, method);
  const written = Object.entries(method.parameters)
    .filter(([parameter, { choices }]) => values[parameter] !== choices[0])
    .map(([parameter]) => `${parameter}=${values[parameter] === true ? "True" : values[parameter]}`);
  const isForTwo = Object.entries(method.parameters).some(
    ([parameter, { forTwo }]) => forTwo !== undefined && values[parameter] === forTwo,
  );
  return {
    text: written.length ? `${name}(${written.join(", ")})` : name,
    method,
    parameters: values,
    rankers: [2, isForTwo ? 2 : null],
  };
}

function readParameters(spec: string, name: string, inside: string, method: Method): Parameters {
  const values: Record<string, string | boolean> = {};
  for (const [parameter, { choices }] of Object.entries(method.parameters)) values[parameter] = choices[0]!;
  const set = new Set<string>();
  for (const item of inside.trim() ? inside.replace(/,\s*$/, "").split(",") : []) {
    const [, parameter = "", , word = ""] = ITEM.exec(item) ?? [];
    if (!parameter) throw new MethodError(`${show(spec)} is not a spec at ${show(item)}; write name(parameter=value)`);
    const choices = Object.hasOwn(method.parameters, parameter) ? method.parameters[parameter]!.choices : undefined;
    if (!choices) {
      const known = Object.keys(method.parameters).join(", ") || "none";
      throw new MethodError(`${name} has no parameter ${show(parameter)}; it has ${known}`);
    }
    if (set.has(parameter)) throw new MethodError(`${show(spec)} sets ${show(parameter)} twice; leave one out`);
    set.add(parameter);
    const value = choices.find(
      (choice) => (typeof choice === "boolean" ? (choice ? "True" : "False") : choice) === word,
    );
    if (value === undefined) {
      const remedy = `give ${choices.map(show).join(" or ")}`;
      throw new MethodError(`${name}: parameter ${show(parameter)} cannot be ${show(word)}; ${remedy}`);
    }
    values[parameter] = value;
  }
  return values;
}
