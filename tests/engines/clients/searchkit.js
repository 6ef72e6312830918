// A front end with InstantSearch and Searchkit, which asks the engine from the browser.
import Client from "@searchkit/instantsearch-client";
import instantsearch from "instantsearch.js";
import { connectHits, connectPagination, connectRefinementList, connectSearchBox, connectStats } from "instantsearch.js/es/connectors";
import Searchkit from "searchkit";

const { engine, user } = Object.fromEntries(new URLSearchParams(location.search));
const searchkit = new Searchkit({
  connection: { host: engine, headers: { "X-User": user } },
  search_settings: {
    search_attributes: ["title", "text"],
    result_attributes: ["id", "title"],
    highlight_attributes: ["title"],
    facet_attributes: [{ attribute: "brand", field: "brand", type: "string" }],
  },
});
const search = instantsearch({ indexName: "products", searchClient: Client(searchkit), future: { preserveSharedStateOnUnmount: true } });

const element = (name) => document.getElementById(name);
let pages;
search.addWidgets([
  connectSearchBox(({ refine }, isFirst) => {
    if (isFirst) document.querySelector("input").addEventListener("change", (event) => refine(event.target.value));
  })({}),
  connectHits(({ items, results }) => {
    const rows = items.map((one) => `<li data-id="${one.id}">${one._highlightResult.title.value}</li>`);
    element("hits").innerHTML = `<ol data-page="${(results?.page ?? 0) + 1}" data-query="${results?.query ?? ""}">${rows.join("")}</ol>`;
  })({ escapeHTML: false }),
  connectStats(({ nbHits }) => {
    element("total").textContent = `${nbHits} results`;
  })({}),
  connectRefinementList(({ items }) => {
    const brands = items.map((one) => `<li>${one.label} <span>${one.count}</span></li>`);
    element("brands").innerHTML = `<ul>${brands.join("")}</ul>`;
  })({ attribute: "brand" }),
  connectPagination((options) => {
    pages = options;
  })({}),
]);
search.on("error", (problem) => console.error(problem));
search.start();
element("next").addEventListener("click", () => pages.refine(pages.currentRefinement + 1));
