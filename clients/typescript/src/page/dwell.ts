/** How long people stay on a result: the latest click is completed by its dwell.
 *
 * A result on another page is left when people are back at the list: the dwell is the time that they were away. A result
 * that this document shows in place of the list, and one on a page that has this script, too, is timed while it is
 * visible; its dwell is also sent when the page is hidden or left, because nothing may follow. The service keeps the
 * longest dwell of a click.
 */

import { dataOf, send, type List } from "./lists.js";

/** The latest click whose dwell is not known yet, as it is kept for a page that is loaded again. */
interface Click {
  list: List;
  event: { event: string; rank: number; kind: string };
  /** When the list was left, in milliseconds since 1970. */
  left: number;
  /** The route of the result, if its link has one. */
  target: string;
}

/** What only this document knows of a click. */
interface Origin {
  click: Event;
  /** The route of the list. */
  route: string;
  /** The node of the list. */
  root: EventTarget;
}

/** The time for which a result has been visible. */
interface Viewing {
  /** The route of the result; null if it is shown without a route of its own. */
  route: string | null;
  visible: number;
  /** Since when it is visible; null while it is hidden. */
  since: number | null;
  sent: number;
}

const KEPT = "interleaf-click";

export class Dwell {
  #last: Click | null;
  #origin: Origin | null = null;
  #viewing: Viewing | null = null;
  readonly #observer = new MutationObserver(() => this.#mutated());

  constructor() {
    this.#last = readKept() ?? null;
    const isBack = entryType() === "back_forward";
    if (isBack) this.returned();
    else if (this.#last?.target === routeOf(location.href)) this.#view(this.#last.target, Date.now());
    else this.#forget(); // people came here by a link, not by going back
  }

  /** People clicked a result of a list. */
  clicked(list: List, event: Click["event"], link: EventTarget, origin: Omit<Origin, "route">): void {
    this.#leave();
    const { href } = link as HTMLAnchorElement;
    this.#last = { list, event, left: Date.now(), target: href ? routeOf(href) : "" };
    this.#origin = { ...origin, route: routeOf(location.href) };
    this.#observer.observe(document, { childList: true, subtree: true });
    keep(this.#last);
  }

  /** The page was hidden: by the result, by another tab, or by leaving it. */
  hidden(): void {
    if (this.#viewing) {
      this.#pause();
    } else if (this.#last) {
      this.#last.left = Date.now();
      keep(this.#last);
    }
  }

  /** The page is visible again. */
  visible(): void {
    if (this.#viewing) this.#viewing.since ??= Date.now();
    else this.returned();
  }

  /** People are back at the list. */
  returned(): void {
    if (this.#viewing || !this.#last) return this.#leave();
    const isTaken = readKept() === null; // by the page of the result, which has this script, too
    if (!isTaken)
      send(this.#last.list, { ...this.#last.event, dwell: Math.max(0, Date.now() - this.#last.left) / 1000 });
    this.#forget();
  }

  /** The page has another address, without being loaded again. */
  navigated(isReplaced: boolean): void {
    const route = routeOf(location.href);
    if (!this.#last) return;
    if (!this.#viewing) {
      const isResult = route === this.#last.target || this.#isInPlace();
      if (route !== this.#origin?.route && isResult) this.#view(route, this.#last.left);
    } else if (isReplaced && route !== this.#origin?.route) {
      this.#viewing.route = route; // still the same result
    } else if (route !== this.#viewing.route) {
      this.#leave();
    }
  }

  /** The list is gone, or back, although the address is the same. */
  #mutated(): void {
    if (!this.#last || !this.#origin || (this.#viewing && this.#viewing.route !== null)) return;
    const isShown = isListShown(this.#last.list, this.#origin.root);
    if (this.#viewing && isShown) this.#leave();
    else if (!this.#viewing && !isShown && this.#isInPlace()) this.#view(null, this.#last.left);
  }

  /** Whether the page itself opened the result, and not the browser. */
  #isInPlace(): boolean {
    return !!this.#origin && (this.#origin.click.defaultPrevented || !this.#last?.target);
  }

  #view(route: string | null, since: number): void {
    this.#viewing = { route, visible: 0, since: document.hidden ? null : since, sent: -1 };
    keep(null); // this document sends the dwell
  }

  /** Stops the time of a visible result, and sends what is known so far. */
  #pause(): void {
    const viewing = this.#viewing!;
    viewing.visible += viewing.since === null ? 0 : Math.max(0, Date.now() - viewing.since);
    viewing.since = null;
    if (viewing.visible === viewing.sent) return;
    viewing.sent = viewing.visible;
    send(this.#last!.list, { ...this.#last!.event, dwell: viewing.visible / 1000 });
  }

  /** Ends a click: the result is not visible any more. */
  #leave(): void {
    if (this.#viewing) this.#pause();
    this.#forget();
  }

  #forget(): void {
    this.#last = this.#origin = this.#viewing = null;
    this.#observer.disconnect();
    keep(null);
  }
}

/** The part of an address that says what a page shows: a fragment only if an application routes by it. */
function routeOf(address: string): string {
  const { href, hash } = new URL(address, document.baseURI);
  return /^#[!/]/.test(hash) ? href : href.slice(0, href.length - hash.length);
}

/** Whether a list, or the same list in a new element, is in the document. */
function isListShown(list: List, root: EventTarget): boolean {
  if (root === document) return !!document.querySelector("[data-interleaf-rank]");
  if ((root as Node).isConnected) return true;
  const named = Array.from(document.querySelectorAll("[data-interleaf-impression]"));
  return named.some((element) => dataOf(element).interleafImpression === list.impression);
}

function entryType(): string | undefined {
  return (performance.getEntriesByType("navigation")[0] as PerformanceNavigationTiming | undefined)?.type;
}

/** Keeps a click for a page that is loaded again when people go back to it, and for the page of the result. */
function keep(click: Click | null): void {
  try {
    if (click) sessionStorage.setItem(KEPT, JSON.stringify(click));
    else sessionStorage.removeItem(KEPT);
  } catch {
    // storage may be forbidden; then only the dwell is unknown
  }
}

/** The click that is kept; undefined if storage is forbidden. */
function readKept(): Click | null | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  } catch {
    return undefined;
  }
}
