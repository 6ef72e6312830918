/** Cleans values that come from visitors, so that nothing they type or forge can break a search.
 *
 * Texts are cut and cleaned. An id that the service would refuse is replaced by its hash, because cutting could make
 * two ids equal. A number out of range becomes the nearest valid one, or is dropped. Python's client does the same.
 */

import { LIMITS, type Caption, type EventBody, type Highlight } from "../api.js";
import { blake2b } from "../blake2b.js";
import { ClientError, show } from "../errors.js";
import { newId, toHex, utf8 } from "../randomness.js";
import { textId } from "../rankings.js";

const LONE = /[\ud800-\udfff]/gu; // surrogates without a partner, which UTF-8 cannot encode
const WHOLE = /^\s*-?[0-9]{1,20}\s*$/;
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

export class Visitors {
  /** How many values had to be changed or dropped. */
  cleaned = 0;
  readonly #fields = new Set<string>();

  constructor(private readonly log: (message: string) => void) {}

  /** Counts a value that had to be changed or dropped, and tells of the first of a field. Values are never logged. */
  note(field: string, what: string): void {
    this.cleaned++;
    if (this.#fields.has(field)) return;
    this.#fields.add(field);
    this.log(`${field} ${what}; further ones are counted in the client's status as cleaned, and not logged`);
  }

  /** An id of a unit, a session or an impression; null if it is empty. */
  id(field: string, value: unknown): string | null {
    return this.#text(field, value, cleanId);
  }

  /** A text that may be cut. */
  text(field: string, value: unknown, maxLength: number): string | null {
    return this.#text(field, value, (text) => cleanText(text, maxLength));
  }

  /** Attributes with their values, without empty ones. */
  attributes(values: Readonly<Record<string, unknown>> | null | undefined): Record<string, string> | null {
    if (values === null || values === undefined) return null;
    if (!isRecord(values)) throw new ClientError(`attributes are ${show(values)}; give an object of names and values`);
    const cleaned = new Map<string, string>();
    for (const [name, value] of Object.entries(values)) {
      const label = this.text("attributes", name, LIMITS.MAX_LABEL);
      const text = this.text("attributes", value, LIMITS.MAX_DOCUMENT);
      if (label && text && cleaned.size < LIMITS.MAX_ATTRIBUTES) cleaned.set(label, text);
      else if (value !== null && value !== undefined) {
        this.note("attributes", `are empty, or more than ${LIMITS.MAX_ATTRIBUTES}`);
      }
    }
    return Object.fromEntries(cleaned);
  }

  /** Captions by document, without values that the service would refuse: snippets contain what visitors typed. */
  captions(values: Readonly<Record<string, unknown>> | null | undefined): Record<string, Caption> | null {
    if (values === null || values === undefined) return null;
    if (!isRecord(values))
      throw new ClientError(`captions are ${show(values)}; give an object of documents and captions`);
    const cleaned = new Map<string, Caption>();
    for (const [document, caption] of Object.entries(values)) {
      if (isDocument(document) && cleaned.size < LIMITS.MAX_CAPTIONS && isRecord(caption)) {
        cleaned.set(document, this.#caption(caption));
      } else {
        this.note("captions", "do not name a document, are not an object, or are too many");
      }
    }
    return Object.fromEntries(cleaned);
  }

  /** Lengths of texts by document, without values that the service would refuse. */
  characters(values: Readonly<Record<string, unknown>> | null | undefined): Record<string, number> | null {
    if (values === null || values === undefined) return null;
    if (!isRecord(values))
      throw new ClientError(`characters are ${show(values)}; give an object of documents and lengths`);
    const cleaned = new Map<string, number>();
    for (const [document, value] of Object.entries(values)) {
      const length = inRange(value, 0, LIMITS.MAX_CHARACTERS);
      if (isDocument(document) && cleaned.size < LIMITS.MAX_CAPTIONS && length !== null) cleaned.set(document, length);
      else this.note("characters", "do not name a document, are not lengths, or are too many");
    }
    return Object.fromEntries(cleaned);
  }

  /** A page number; 1 if the value is not one. */
  page(value: unknown): number {
    const page = whole(value);
    if (page !== null && page >= 1) return page;
    this.note("page", "is not a page number");
    return 1;
  }

  /** The number of results per page; null, for the experiment's setting, if the value is not a number. */
  k(value: unknown): number | null {
    if (value === null || value === undefined) return null;
    const k = whole(value);
    const fit = k === null || k < 1 ? null : Math.min(k, LIMITS.MAX_K);
    if (fit === null || fit !== k) this.note("k", `is not from 1 to ${LIMITS.MAX_K}`);
    return fit;
  }

  /** An event that the service accepts, or null if a required field is missing or invalid. */
  event(given: unknown): (EventBody & { event: string }) | null {
    const event: Record<string, unknown> = {};
    const unfit = new Set<string>();
    for (const [field, value] of isRecord(given) ? Object.entries(given) : []) {
      if (value === null || value === undefined) continue;
      const fit = Object.hasOwn(EVENT, field) ? EVENT[field as keyof typeof EVENT](value) : null;
      if (fit === null || (typeof value === "string" && field !== "time" && value !== String(fit))) unfit.add(field);
      if (fit !== null) event[field] = fit;
    }
    for (const field of unfit) this.note(`event field ${show(field)}`, "holds a value that the service does not take");
    const hasPlace = "document" in event || ("rank" in event && "impression" in event);
    if (hasPlace && !unfit.has("kind") && "impression" in event !== "unit" in event)
      return { event: newId(), ...event };
    this.note("an event", "is without an impression or a unit, a rank or a document, or a kind");
    return null;
  }

  #caption(given: Readonly<Record<string, unknown>>): Caption {
    const caption: Record<string, unknown> = {};
    for (const [field, value] of Object.entries(given)) {
      if (value === null || value === undefined) continue;
      if (field === "title" || field === "url" || field === "snippet") {
        caption[field] = this.text("captions", value, LIMITS.MAX_CAPTION);
        continue;
      }
      const isHighlights = field === "highlights";
      const fit = isHighlights
        ? highlights(value)
        : field === "deep_links"
          ? inRange(value, 0, LIMITS.MAX_DEEP_LINKS)
          : null;
      if (fit === null || (Array.isArray(fit) && fit.length < (value as unknown[]).length)) {
        this.note("captions", "hold a field or a value that the service does not take");
      }
      if (fit !== null) caption[field] = fit;
    }
    return caption;
  }

  #text(field: string, value: unknown, clean: (text: string) => string): string | null {
    if (value === null || value === undefined) return null;
    const text = asText(value);
    const fit = clean(text ?? coerce(value));
    if (fit !== text) this.note(field, "holds a value that the service does not take");
    return fit || null;
  }
}

/** A text without NUL and lone surrogates, cut to a length in characters. */
export function cleanText(text: string, maxLength: number): string {
  const clean = text.replaceAll("\0", "").replace(LONE, "\ufffd");
  return clean.length <= maxLength
    ? clean
    : Array.from(clean.slice(0, 2 * maxLength))
        .slice(0, maxLength)
        .join("");
}

/** An id as it is, or a hash of it (32 hexadecimal digits) if the service would refuse it. */
export function cleanId(text: string): string {
  return text === cleanText(text, LIMITS.MAX_NAME) ? text : toHex(blake2b(Uint8Array.from(utf8(text))));
}

/** Whether the service takes this id of a document. */
function isDocument(id: string): boolean {
  return id !== "" && id === cleanText(id, LIMITS.MAX_DOCUMENT);
}

/** A whole number, also from text, such as a URL parameter; null if the value is not one. */
export function whole(value: unknown): number | null {
  const number = typeof value === "string" && WHOLE.test(value) ? Number(value) : value;
  return typeof number === "number" && Number.isInteger(number) ? number : null;
}

function asText(value: unknown): string | null {
  if (typeof value === "string") return value;
  return typeof value === "bigint" || Number.isFinite(value) ? String(value) : null;
}

/** The text of a value of another type; for an array with one value, as from a query string, that of the value. */
function coerce(value: unknown): string {
  try {
    return String(Array.isArray(value) && value.length === 1 ? value[0] : value);
  } catch {
    return ""; // `toString` of an unknown object may throw anything; the search must go on
  }
}

function toId(value: unknown): string | null {
  const text = asText(value);
  return text === null ? null : cleanId(text) || null;
}

/** A name, which is dropped rather than cut if it is too long. */
function short(maxLength: number): (value: unknown) => string | null {
  return (value) => {
    const text = asText(value);
    return text && text === cleanText(text, maxLength) ? text : null;
  };
}

function inRange(value: unknown, least: number, most: number): number | null {
  const number = whole(value);
  return number !== null && number >= least && number <= most ? number : null;
}

function between(least: number, most: number): (value: unknown) => number | null {
  return (value) => {
    const number = typeof value === "string" && value.trim() ? Number(value) : value;
    return typeof number === "number" && number >= least && number <= most ? number : null;
  };
}

/** A time as text; a `Date`, or a text with its time zone. */
function toTime(value: unknown): string | null {
  const moment = value instanceof Date ? value : new Date(TIME.test(String(value)) ? String(value) : Number.NaN);
  return Number.isNaN(moment.getTime()) ? null : moment.toISOString();
}

/** Highlights of a caption, without those that the service would refuse. */
function highlights(value: unknown): Highlight[] | null {
  if (!Array.isArray(value)) return null;
  const cleaned: Highlight[] = [];
  for (const span of value.slice(0, LIMITS.MAX_HIGHLIGHTS)) {
    const { field, start, end, ...others } = isRecord(span) ? span : {};
    const label = short(LIMITS.MAX_LABEL)(field);
    const first = inRange(start, 0, LIMITS.MAX_HIGHLIGHT_END);
    const last = inRange(end, 0, LIMITS.MAX_HIGHLIGHT_END);
    const isWhole = label !== null && first !== null && last !== null && !Object.keys(others).length;
    if (isWhole) cleaned.push({ field: label, start: first, end: last });
  }
  return cleaned;
}

const EVENT = {
  event: toId,
  impression: toId,
  unit: toId,
  rank: (value: unknown) => inRange(value, 1, LIMITS.MAX_RANK),
  document: (value: unknown) => short(LIMITS.MAX_DOCUMENT)(textId(value) ?? value),
  kind: short(LIMITS.MAX_LABEL),
  time: toTime,
  dwell: between(0, LIMITS.MAX_DWELL),
  value: between(-LIMITS.MAX_VALUE, LIMITS.MAX_VALUE),
};

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
