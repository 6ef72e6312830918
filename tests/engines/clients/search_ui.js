// A front end with Elastic's Search UI and its connector, which asks the engine from the browser.
import { SearchDriver } from "@elastic/search-ui";
import ElasticsearchAPIConnector from "@elastic/search-ui-elasticsearch-connector";

const { engine, user } = Object.fromEntries(new URLSearchParams(location.search));
const driver = new SearchDriver({
  apiConnector: new ElasticsearchAPIConnector({
    host: engine,
    index: "products",
    connectionOptions: { headers: { "X-User": user } },
  }),
  trackUrlState: false,
  alwaysSearchOnInitialLoad: false,
  initialState: { resultsPerPage: 10 },
  searchQuery: {
    search_fields: { title: { weight: 1 }, text: { weight: 1 } },
    result_fields: { title: { snippet: {} }, id: { raw: {} } },
    facets: { brand: { type: "value", size: 10 } },
  },
});

const element = (name) => document.getElementById(name);
driver.subscribeToStateChanges(({ results, totalResults, facets, isLoading, error, pagingStart }) => {
  if (error) console.error(error);
  if (isLoading) return;
  const items = results.map((one) => `<li data-id="${one.id.raw}">${one.title.snippet ?? one.title.raw}</li>`);
  element("hits").innerHTML = `<ol data-page="${Math.ceil(pagingStart / 10)}">${items.join("")}</ol>`;
  element("total").textContent = `${totalResults} results`;
  const brands = (facets.brand?.[0]?.data ?? []).map((one) => `<li>${one.value} <span>${one.count}</span></li>`);
  element("brands").innerHTML = `<ul>${brands.join("")}</ul>`;
});
document.querySelector("input").addEventListener("change", (event) => {
  driver.getActions().setSearchTerm(event.target.value);
});
element("next").addEventListener("click", () => driver.getActions().setCurrent(driver.getState().current + 1));
