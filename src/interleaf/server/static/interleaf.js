/* Reports clicks on results, and the time users spent on them, to an interleaf service.

   <script src="https://interleaf.example/static/interleaf.js" defer
           data-impression="..." data-token="..."></script>
   <li data-interleaf-rank="1"><a href="...">...</a></li>

   data-endpoint is the URL that events are sent to; by default, the service that this file came from.
   Without an impression, nothing is sent. Without a token (lists made while the service was away have none), nothing is
   sent to the service. Events are sent to data-endpoint without a token, too: your server reports them with its key.
   Several lists on a page: interleaf.watch(element, {impression, token}).
   Other events, if the experiment allows them: interleaf.report(element, {kind: "add to cart", rank: 1}).
   A lasting id for visitors who are not logged in, in a first-party cookie: interleaf.visitor(), after consent.
   A page that shows results without leaving calls interleaf.returned() when users are back at the list. */
(() => {
  "use strict";

  const KEPT = "interleaf-click";
  const LINK = "a[href], area[href], [role=link]";
  const script = document.currentScript;
  const lists = new WeakMap();
  let last = kept(); // the latest click whose dwell is not known yet: {list, event, left}

  function watch(element, {impression, token, endpoint = script.dataset.endpoint} = {}) {
    const url = new URL(endpoint || "/v1/events", endpoint ? document.baseURI : script.src).href;
    const list = {impression: filled(impression), token: filled(token), endpoint: url};
    if (list.impression && (list.token || endpoint)) lists.set(element, list);
    else lists.delete(element);
  }

  /* Template engines write a missing value as one of these words. */
  function filled(value) {
    return ["None", "null", "undefined"].includes(value) ? "" : value || "";
  }

  function report(element, event) {
    const list = listOf(pathTo(element));
    if (list) send(list, {event: newId(), ...event});
  }

  function send(list, event) {
    const body = {events: [{...event, impression: list.impression}]};
    if (list.token) body.token = list.token;
    const text = JSON.stringify(body); // as plain text, which needs no permission from the other site beforehand
    if (navigator.sendBeacon?.(list.endpoint, text)) return;
    fetch(list.endpoint, {method: "POST", body: text, keepalive: true, credentials: "omit", mode: "no-cors"})
      .catch(() => {});
  }

  function clicked(click) {
    if (click.type === "auxclick" && click.button !== 1) return; // the middle button opens links, the right one menus
    const path = click.composedPath();
    const start = path.findIndex((node) => node.matches?.(LINK));
    const inside = start < 0 ? [] : path.slice(start);
    const rank = Number(inside.find((node) => node.dataset?.interleafRank)?.dataset.interleafRank);
    const list = listOf(inside);
    if (!list || !Number.isInteger(rank) || rank < 1) return;
    const event = {event: newId(), rank, kind: "click"};
    send(list, event);
    last = {list, event, left: Date.now()};
    keep();
  }

  /* The user has left for a result when the page is hidden: by the result, or by a tab in which it was opened. */
  function hidden() {
    if (!last) return;
    last.left = Date.now();
    keep();
  }

  /* The dwell is sent with the id of its click, so it completes that click instead of counting as a second one. */
  function returned() {
    if (!last) return;
    const dwell = Math.max(0, Date.now() - last.left) / 1000;
    send(last.list, {...last.event, dwell});
    last = null;
    keep();
  }

  function listOf(path) {
    return lists.get(path.find((node) => lists.has(node)));
  }

  function pathTo(element) {
    const path = [];
    for (let node = element; node; node = node.parentNode ?? node.host) path.push(node);
    return path;
  }

  /* For a page that is loaded again when the user goes back to it. */
  function keep() {
    try {
      if (last) sessionStorage.setItem(KEPT, JSON.stringify(last));
      else sessionStorage.removeItem(KEPT);
    } catch {} // storage may be forbidden; then only the dwell is unknown
  }

  function kept() {
    try {
      return JSON.parse(sessionStorage.getItem(KEPT));
    } catch {
      return null;
    }
  }

  function newId() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  /* The id that the page sends with its searches, as the unit; the same cookie as that of interleaf.visitor_id. */
  function visitor({name = "interleaf_visitor", days = 90} = {}) {
    const known = document.cookie.split("; ").find((cookie) => cookie.startsWith(`${name}=`))?.slice(name.length + 1);
    const id = /^[0-9a-f]{32}$/.test(known) ? known : newId();
    const secure = location.protocol === "https:" ? "; Secure" : "";
    if (id !== known) document.cookie = `${name}=${id}; Max-Age=${days * 86400}; Path=/; SameSite=Lax${secure}`;
    return id;
  }

  watch(document, script.dataset);
  document.addEventListener("click", clicked, true);
  document.addEventListener("auxclick", clicked, true);
  document.addEventListener("visibilitychange", () => (document.hidden ? hidden() : returned()));
  addEventListener("pageshow", (shown) => shown.persisted && returned());
  if (performance.getEntriesByType("navigation")[0]?.type === "back_forward") returned();
  else if (last) {
    last = null; // the user came here by a link, not by going back
    keep();
  }
  window.interleaf = {watch, report, returned, visitor};
})();
