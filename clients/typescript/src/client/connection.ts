/** Requests to a service, each with one deadline for all of its steps. */

import type { ErrorBody } from "../api.js";
import { ClientError } from "../errors.js";

const MAX_WAIT = 300_000; // milliseconds; limits the Retry-After header
const AWAY = [408, 425, 429];
/** Codes of a connection that the server closed while it was idle. */
const STALE = ["ECONNRESET", "EPIPE", "UND_ERR_SOCKET"];

/** The service did not answer, or asked to retry later. `status` is the status of its answer, if there was one. */
export class AwayError extends Error {
  override name = "AwayError";

  constructor(
    message: string,
    readonly retryAfter = 0,
    readonly status: number | null = null,
  ) {
    super(message);
  }
}

/** The status of an answer and its fields: the requested ones on success, otherwise those of an error. */
export interface Reply {
  status: number;
  data: Record<string, unknown>;
}

export function isSuccess(reply: Reply): boolean {
  return reply.status >= 200 && reply.status < 300;
}

/** An error response as an exception, with the service's message. */
export function toError(reply: Reply): ClientError {
  const { code, message, field } = reply.data as unknown as ErrorBody;
  const place = field ? ` (at ${field})` : "";
  return new ClientError(`${message}${place} [${reply.status} ${code}]`, reply.status, code, field ?? null);
}

/** Whether the key is valid but does not allow this request. */
export function isOutOfScope(reply: Reply): boolean {
  return reply.data.code === "wrong_experiment" || reply.data.code === "wrong_role";
}

/** Whether the key itself is refused: missing, unknown, revoked or expired. An admin can fix that. */
export function isKeyRejected(reply: Reply): boolean {
  return (reply.status === 401 || reply.status === 403) && !isOutOfScope(reply);
}

export class Connection {
  readonly #url: string;
  readonly #headers: Record<string, string>;

  constructor(url: string, key: string | null) {
    this.#url = checkUrl(url);
    if (key !== null && !/^[\x21-\x7e]+$/.test(key)) {
      throw new ClientError("key contains characters that no key has; give it as it was shown");
    }
    this.#headers = { "Content-Type": "application/json", ...(key === null ? {} : { Authorization: `Bearer ${key}` }) };
  }

  /** Sends a request whose successful response has these fields; it takes at most `milliseconds`.
   *
   * Throws `AwayError` if there is no answer, if the service asks to retry later, or if something else answered, such
   * as a proxy. All requests are idempotent, so a request on a stale connection is sent again.
   */
  async ask(
    method: string,
    path: string,
    body: string | null,
    fields: readonly string[],
    milliseconds: number,
  ): Promise<Reply> {
    if (milliseconds <= 0) throw new AwayError("the time for this request is over");
    const [response, text] = await this.#send(method, path, body, AbortSignal.timeout(Math.ceil(milliseconds)));
    if (response.status >= 500 || AWAY.includes(response.status)) {
      const wait = response.headers.get("Retry-After") ?? "";
      const seconds = /^\d+$/.test(wait) ? Number(wait) : 0;
      throw new AwayError(
        `the service answered ${response.status}`,
        Math.min(1000 * seconds, MAX_WAIT),
        response.status,
      );
    }
    const reply = { status: response.status, data: parseObject(text) };
    const data = isSuccess(reply) ? reply.data : asObject(reply.data?.error);
    const required = isSuccess(reply) ? fields : ["code", "message"];
    if (!data || required.some((field) => !Object.hasOwn(data, field))) {
      throw new AwayError(`the answer ${reply.status} does not come from an interleaf service`);
    }
    return { status: reply.status, data };
  }

  async #send(method: string, path: string, body: string | null, signal: AbortSignal): Promise<[Response, string]> {
    const options: RequestInit = {
      method,
      body,
      headers: this.#headers,
      signal,
      redirect: "manual",
      cache: "no-store",
    };
    for (let isSecond = false; ; isSecond = true) {
      try {
        const response = await fetch(this.#url + path, options);
        return [response, await response.text()];
      } catch (error) {
        const cause = (error as Error).cause as { code?: string; message?: string } | undefined;
        if (isSecond || signal.aborted || !STALE.includes(cause?.code ?? "")) {
          throw new AwayError(`${error}${cause?.message ? `: ${cause.message}` : ""}`);
        }
      }
    }
  }
}

/** The URL of the service without a slash at its end; in browsers it may be relative to the page. */
function checkUrl(url: string): string {
  const base = globalThis.location?.href;
  const parts = URL.canParse(url, base) ? new URL(url, base) : null;
  if (!parts || !/^https?:$/.test(parts.protocol) || parts.search || parts.hash || parts.username) {
    const remedy = "give the address of the service, such as 'http://127.0.0.1:8080'";
    throw new ClientError(`url is ${JSON.stringify(url)}; ${remedy}`);
  }
  return parts.href.replace(/\/+$/, "");
}

function parseObject(text: string): Record<string, unknown> {
  try {
    return asObject(JSON.parse(text)) ?? {};
  } catch {
    return {};
  }
}

function asObject(value: unknown): Record<string, unknown> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}
