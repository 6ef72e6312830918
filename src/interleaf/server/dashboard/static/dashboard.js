// Keeps the list and the page of an experiment up to date, and draws charts. Without this script, pages are complete but not refreshed.
"use strict";

const EVERY = 2500; // milliseconds between two refreshes
const OPTIONS = { ast: true, renderer: "svg", actions: false, defaultStyle: false, tooltip: false, logLevel: 1 };
const NOT_DRAWN = "The chart could not be drawn; the table has its numbers.";
const live = document.getElementById("live");
const connection = document.getElementById("connection");
const vega = document.getElementById("vega");
const known = new Map(); // id of a part -> its HTML as the server sent it
const views = new WeakMap(); // element of a drawing -> what vega holds for it
let tag = null;

function specOf(figure) {
  return figure.querySelector('script[type="application/json"]').textContent;
}

// Draws into an element that is not visible yet; does nothing while vega is still loading.
async function draw(figure) {
  if (typeof vegaEmbed !== "function") return;
  const target = figure.querySelector(".drawing");
  try {
    views.set(target, await vegaEmbed(target, JSON.parse(specOf(figure)), OPTIONS));
    const svg = target.querySelector("svg");
    const width = Number(svg.getAttribute("width"));
    svg.setAttribute("aria-hidden", "true"); // the element around it has the description
    svg.style.maxWidth = `${Math.round(1.35 * width)}px`;
    figure.classList.toggle("wide", width > 640);
    if (width > 640) target.tabIndex = 0; // on small screens it scrolls, with the keyboard, too
  } catch (error) {
    views.set(target, { finalize() {} });
    target.textContent = NOT_DRAWN;
  }
}

async function drawWhatIsNot() {
  const figures = [...live.querySelectorAll("figure[id]")];
  await Promise.all(figures.filter((figure) => !views.has(figure.querySelector(".drawing"))).map(draw));
  live.dataset.drawn = String(typeof vegaEmbed === "function");
}

function cannotDraw() {
  for (const target of live.querySelectorAll(".drawing")) target.textContent = NOT_DRAWN;
}

// Charts are drawn before their part is put into the page, and unchanged charts are reused, so nothing flickers.
async function drawAll(part, before) {
  const [same, drawn] = [[], []];
  for (const figure of part.querySelectorAll("figure[id]")) {
    const old = before?.querySelector(`#${CSS.escape(figure.id)}`) ?? null;
    if (old !== null && specOf(old) === specOf(figure)) same.push([figure, old]);
    else drawn.push(draw(figure));
  }
  await Promise.all(drawn);
  for (const [figure, old] of same) {
    figure.querySelector(".drawing").replaceWith(old.querySelector(".drawing"));
    figure.className = old.className;
  }
}

// The focused element: by its id, or as the n-th of its kind in an element with an id.
function placeOf(part) {
  const element = document.activeElement;
  if (element === null || !part.contains(element)) return null;
  const id = element.closest("[id]").id;
  const kind = element.tagName.toLowerCase();
  const number = element.id ? -1 : [...document.getElementById(id).querySelectorAll(kind)].indexOf(element);
  return () => {
    const around = document.getElementById(id);
    return number < 0 ? around : around?.querySelectorAll(kind)[number];
  };
}

function isBeingFilled(part) {
  return [...part.querySelectorAll("textarea, input:not([type=hidden])")].some((field) => field.value !== field.defaultValue);
}

// Keeps details open and restores the scroll position of wide tables.
function keepState(before, part) {
  for (const details of before.querySelectorAll("details[id]")) {
    const after = part.querySelector(`#${CSS.escape(details.id)}`);
    if (after !== null) after.open = details.open;
  }
  const boxes = [...part.querySelectorAll(".box")];
  return [...before.querySelectorAll(".box")].map((box, number) => [boxes[number], box.scrollLeft]);
}

function replace(before, part) {
  const scrolled = keepState(before, part);
  const focused = placeOf(before);
  const drawings = [...before.querySelectorAll(".drawing")];
  before.className = part.className;
  before.replaceChildren(...part.childNodes);
  for (const [box, left] of scrolled) if (box) box.scrollLeft = left;
  for (const drawing of drawings) if (!drawing.isConnected) views.get(drawing)?.finalize();
  if (focused !== null) focused()?.focus({ preventScroll: true });
}

// False: the user is typing there, so the part is not replaced.
async function update(part, last) {
  const html = part.outerHTML;
  const before = document.getElementById(part.id);
  if (known.get(part.id) === html) return true;
  if (before !== null && isBeingFilled(before)) return false;
  await drawAll(part, before);
  if (before !== null) replace(before, part);
  else if (last === null) live.prepend(part);
  else last.after(part);
  known.set(part.id, html);
  return true;
}

async function swap(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  const parts = [...fresh.body.children].filter((part) => part.id);
  const ids = new Set(parts.map((part) => part.id));
  for (const old of [...live.children]) {
    if (old.id && !ids.has(old.id)) {
      old.remove();
      known.delete(old.id);
    }
  }
  let [last, isWhole] = [null, true];
  for (const part of parts) {
    isWhole = (await update(part, last)) && isWhole;
    last = document.getElementById(part.id);
  }
  await drawWhatIsNot(); // vega may have loaded meanwhile
  return isWhole;
}

function say(words, address) {
  connection.hidden = words === "";
  connection.textContent = words;
  if (address) {
    const link = document.createElement("a");
    link.href = address;
    link.textContent = "Log in";
    connection.append(" ", link);
  }
}

// False: stop refreshing.
async function look() {
  let answer;
  try {
    answer = await fetch(live.dataset.live, { headers: tag === null ? {} : { "If-None-Match": tag } });
  } catch (error) {
    say("The service does not answer; this page may be out of date. Trying again.");
    return true;
  }
  if (answer.status === 401 || answer.status === 403) {
    say("You are logged out; this page may be out of date.", `/login?next=${encodeURIComponent(location.pathname)}`);
    return false;
  }
  if (answer.status === 200) {
    const isWhole = await swap(await answer.text());
    tag = isWhole ? answer.headers.get("ETag") : null;
  }
  say(answer.status === 200 || answer.status === 304 ? "" : "The service returned an error; trying again.");
  return true;
}

async function follow() {
  for (const part of live.children) if (part.id) known.set(part.id, part.outerHTML);
  vega?.addEventListener("load", drawWhatIsNot);
  vega?.addEventListener("error", cannotDraw);
  await drawWhatIsNot();
  while (true) {
    await new Promise((resolve) => setTimeout(resolve, EVERY));
    if (document.visibilityState === "visible" && !(await look())) return;
  }
}

if (live !== null) follow();
