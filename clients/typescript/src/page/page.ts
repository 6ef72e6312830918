/** Reports clicks on results, and the time that people spent on them, to a service. */

import { Dwell } from "./dwell.js";
import { dataOf, Lists, newId, send, type Watched } from "./lists.js";

/** An event of a list, such as `{ kind: "add to cart", rank: 1 }`. */
export interface PageEvent {
  kind: string;
  rank?: number;
  document?: string;
  value?: number;
  [field: string]: unknown;
}

/** The calls that pages make: `window.interleaf`. */
export interface PageApi {
  /** Watches the results in an element; without an impression it stops. */
  watch(element: EventTarget, watched?: Watched): void;
  /** Reports another event than a click, if the experiment allows its kind. */
  report(element: Node, event: PageEvent): void;
  /** People are back at the list, on a page that shows results without leaving it. */
  returned(): void;
  /** A lasting id for visitors who are not logged in, in a first-party cookie; call it after consent. */
  visitor(options?: { name?: string; days?: number }): string;
}

const LINK = "a[href], area[href], [role=link]";

declare global {
  interface Window {
    interleaf?: PageApi;
  }
}

/** Starts to watch a page. `service` is the URL of the service's events, `endpoint` one of your own server.
 *
 * Further calls change nothing and return the same object, so that clicks are reported once.
 */
export function start(service: string, endpoint?: string): PageApi {
  if (window.interleaf?.watch) return window.interleaf; // without `watch`, it is an element of this name
  const lists = new Lists(service, endpoint || undefined);
  const dwell = new Dwell();

  const clicked = (event: Event): void => {
    const click = event as MouseEvent;
    if (click.type === "auxclick" && click.button !== 1) return; // the middle button opens links, the right one menus
    const path = click.composedPath();
    const place = path.findIndex((node) => node instanceof Element && node.matches(LINK));
    const inside = place < 0 ? [] : path.slice(place);
    const rank = Number(dataOf(inside.find((node) => dataOf(node).interleafRank)).interleafRank);
    const found = lists.find(inside);
    if (!found || !Number.isInteger(rank) || rank < 1) return;
    const [list, root] = found;
    const reported = { event: newId(), rank, kind: "click" };
    send(list, reported);
    dwell.clicked(list, reported, inside[0]!, { click, root });
  };

  document.addEventListener("click", clicked, true);
  document.addEventListener("auxclick", clicked, true);
  document.addEventListener("visibilitychange", () => (document.hidden ? dwell.hidden() : dwell.visible()));
  addEventListener("pagehide", () => dwell.hidden());
  addEventListener("pageshow", (shown) => shown.persisted && dwell.visible());
  for (const name of ["popstate", "hashchange"]) addEventListener(name, () => dwell.navigated(false));
  followHistory((isReplaced) => dwell.navigated(isReplaced));

  return (window.interleaf = {
    watch: (element, watched) => lists.watch(element, watched),
    report(element, event) {
      const found = lists.find(pathTo(element));
      if (found) send(found[0], { event: newId(), ...event });
    },
    returned: () => dwell.returned(),
    visitor,
  });
}

/** Tells of routes that the page sets by itself, which no event announces. */
function followHistory(navigated: (isReplaced: boolean) => void): void {
  for (const name of ["pushState", "replaceState"] as const) {
    const original = history[name];
    history[name] = function (this: History, ...values: Parameters<History["pushState"]>): void {
      original.apply(this, values);
      queueMicrotask(() => navigated(name === "replaceState"));
    };
  }
}

function pathTo(element: Node): EventTarget[] {
  const path: EventTarget[] = [];
  for (let node: Node | null | undefined = element; node; node = node.parentNode ?? (node as ShadowRoot).host) {
    path.push(node);
  }
  return path;
}

/** The id that the page sends with its searches, as the unit; the same cookie as that of `visitorId`. */
function visitor({ name = "interleaf_visitor", days = 90 } = {}): string {
  const cookies = document.cookie.split("; ");
  const known = cookies.find((cookie) => cookie.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
  const id = /^[0-9a-f]{32}$/.test(known) ? known : newId();
  const secure = location.protocol === "https:" ? "; Secure" : "";
  if (id !== known) document.cookie = `${name}=${id}; Max-Age=${days * 86400}; Path=/; SameSite=Lax${secure}`;
  return id;
}
