/** A lasting id for visitors who are not logged in, in a first-party cookie. */

import { ClientError, show } from "../errors.js";
import { newId } from "../randomness.js";

export const COOKIE = "interleaf_visitor";
const MAX_AGE_DAYS = 90;

export interface VisitorIdOptions {
  /** The name of the cookie. */
  name?: string;
  days?: number;
  /** False for plain HTTP, during development. */
  secure?: boolean;
}

/** The id of a visitor, to pass as `unit`; `setCookie` is the value of a Set-Cookie header, or null. */
export interface VisitorId {
  id: string;
  setCookie: string | null;
}

/** The id in a visitor's cookies, or a new id with the header that stores it in the browser.
 *
 * `cookies` is the text of the Cookie header, or an object of names and values. The id is random and contains no
 * personal data. Python's `visitor_id` and the script for result pages use the same cookie.
 */
export function visitorId(
  cookies: string | Readonly<Record<string, unknown>> | null | undefined,
  options: VisitorIdOptions = {},
): VisitorId {
  const { name = COOKIE, days = MAX_AGE_DAYS, secure = true } = options;
  const problems: string[] = [];
  if (!/^[A-Za-z0-9_-]{1,100}$/.test(name)) {
    problems.push(`name is ${show(name)}; give letters, digits, '_' and '-' as the name of a cookie`);
  }
  if (!Number.isSafeInteger(days) || days < 1) {
    problems.push(`days is ${show(days)}; give a whole number of days, at least 1`);
  }
  if (problems.length) throw new ClientError(problems.join("\n"));
  const present = typeof cookies === "object" ? cookies?.[name] : findCookie(cookies ?? "", name);
  if (typeof present === "string" && /^[0-9a-f]{32}$/.test(present)) return { id: present, setCookie: null };
  const id = newId();
  const cookie = `${name}=${id}; Max-Age=${days * 86_400}; Path=/; SameSite=Lax; HttpOnly${secure ? "; Secure" : ""}`;
  return { id, setCookie: cookie };
}

function findCookie(header: string, name: string): string | undefined {
  const found = header.split(";").find((part) => part.trim().startsWith(`${name}=`));
  return found?.trim().slice(name.length + 1);
}
