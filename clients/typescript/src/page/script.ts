/** The script of result pages, which the service serves as /static/interleaf.js. */

import { start } from "./page.js";

const script = document.currentScript as HTMLScriptElement;
start(new URL("/v1/events", script.src).href, script.dataset.endpoint).watch(document, script.dataset);
