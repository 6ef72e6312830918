/** The errors of this package: a message names the thing, the value and the remedy. */

export class InterleafError extends Error {
  override name = "InterleafError";
}

/** A key, or a number of choices, that cannot be used. */
export class RandomnessError extends InterleafError {
  override name = "RandomnessError";
}

/** Rankings, fixed documents or groups that cannot be mixed. */
export class RankingError extends InterleafError {
  override name = "RankingError";
}

/** A method that does not exist here, or a parameter that it does not have. */
export class MethodError extends InterleafError {
  override name = "MethodError";
}

/** Wrong use of a client; with the status, the code and the field of the service's answer, if it answered. */
export class ClientError extends InterleafError {
  override name = "ClientError";

  constructor(
    message: string,
    readonly status: number | null = null,
    readonly code: string | null = null,
    readonly field: string | null = null,
  ) {
    super(message);
  }
}

/** A value as it is written in messages. */
export function show(value: unknown): string {
  if (typeof value === "bigint") return String(value);
  try {
    return (JSON.stringify(value) ?? String(value)).slice(0, 100);
  } catch {
    return Object.prototype.toString.call(value);
  }
}
