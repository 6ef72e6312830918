/** The script of result pages, which the service serves as /static/interleaf.js. */

import { start, type PageApi } from "./page.js";

declare global {
  interface Window {
    interleaf?: PageApi;
  }
}

const script = document.currentScript as HTMLScriptElement;
// A page may load the script again, with another list: clicks must be reported once. An element may have this name.
if (!window.interleaf?.watch) window.interleaf = start(new URL("/v1/events", script.src).href, script.dataset.endpoint);
window.interleaf.watch(document, script.dataset);
