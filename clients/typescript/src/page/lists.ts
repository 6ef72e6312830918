/** The shown lists of a page, and events that are sent about them. */

/** A list that was shown: where its events go. */
export interface List {
  impression: string;
  token: string;
  endpoint: string;
}

/** What a page says of a list; template engines write a missing value as a word. */
export interface Watched {
  impression?: string | null | undefined;
  token?: string | null | undefined;
  endpoint?: string | null | undefined;
}

const MISSING = ["None", "null", "undefined"];

/** The lists of a page: those that `watch` was called for, and those whose element names its impression. */
export class Lists {
  readonly #watched = new WeakMap<EventTarget, List>();

  /** `service` is the URL that events go to; `endpoint` goes before it: it also takes events without a token. */
  constructor(
    private readonly service: string,
    private readonly endpoint: string | undefined,
  ) {}

  watch(element: EventTarget, watched: Watched = {}): void {
    const list = this.#read(watched);
    if (list) this.#watched.set(element, list);
    else this.#watched.delete(element);
  }

  /** The nearest list that a path of nodes, from the inside out, is in, and its node. */
  find(path: readonly EventTarget[]): [List, EventTarget] | null {
    for (const node of path) {
      const { interleafImpression: impression, interleafToken: token } = dataOf(node);
      const list =
        this.#watched.get(node) ?? (impression === undefined ? undefined : this.#read({ impression, token }));
      if (list) return [list, node];
      if (list === null) return null; // this list is not logged
    }
    return null;
  }

  #read({ impression, token, endpoint }: Watched): List | null {
    const own = filled(endpoint) || this.endpoint;
    const list = {
      impression: filled(impression),
      token: filled(token),
      endpoint: own ? new URL(own, document.baseURI).href : this.service,
    };
    return list.impression && (list.token || own) ? list : null;
  }
}

/** The data attributes of a node; none if it is no element. */
export function dataOf(node: EventTarget | undefined): DOMStringMap {
  return (node as HTMLElement | undefined)?.dataset ?? {};
}

/** Sends an event at once, also while the page is left. */
export function send(list: List, event: object): void {
  const events = [{ ...event, impression: list.impression }];
  const text = JSON.stringify(list.token ? { events, token: list.token } : { events });
  // As plain text, which needs no permission from the other site beforehand.
  if (navigator.sendBeacon?.(list.endpoint, text)) return;
  const options: RequestInit = { method: "POST", body: text, keepalive: true, credentials: "omit", mode: "no-cors" };
  fetch(list.endpoint, options).catch(() => {});
}

export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function filled(value: string | null | undefined): string {
  return MISSING.includes(value ?? "") ? "" : (value ?? "");
}
