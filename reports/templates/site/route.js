// The hash is the state: #/view?name=value. A link reproduces the view.
const views = {};
const route = { view: "", params: new URLSearchParams(), visit: 0 };
const scrolls = new Map();
let clicked = false;
let lastCells = new URLSearchParams();

function address(view, params = {}) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value) given.set(name, value);
  const query = given.toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

function words(params, name) {
  return new Set((params.get(name) || "").split(",").filter(Boolean));
}

// Changes the address of the current view; typing in a filter adds no entry to the history.
function amend(changes) {
  for (const [name, value] of Object.entries(changes)) {
    if (value) route.params.set(name, value);
    else route.params.delete(name);
  }
  const hash = address(route.view, Object.fromEntries(route.params));
  history.replaceState(history.state, "", hash);
}

// Saves the state to restore later: scroll positions of page and table, and the focused square.
function keepPlace() {
  if (route.view === "cells") lastCells = new URLSearchParams(route.params);
  const grid = one("#view .grid");
  const square = document.activeElement.closest(".grid a");
  scrolls.set(`${route.view}?${route.params}`, { page: scrollY, grid: grid ? grid.scrollTop : 0, square: square && square.getAttribute("href") });
}

function restorePlace() {
  const known = clicked ? null : scrolls.get(`${route.view}?${route.params}`);
  clicked = false;
  const grid = one("#view .grid");
  if (grid && known) {
    grid.scrollTop = known.grid;
    grid.dispatchEvent(new Event("settle"));
  }
  scrollTo(0, known ? known.page : 0);
  const square = grid && known && known.square && all("a.sq", grid).find((item) => item.getAttribute("href") === known.square);
  if (square) square.focus({ preventScroll: true });
  return Boolean(square);
}

async function follow() {
  const hash = location.hash.startsWith("#/") ? location.hash.slice(2) : "";
  const [path, query = ""] = [hash.split("?")[0], hash.slice(hash.indexOf("?") + 1 || hash.length)];
  const first = route.visit === 0;
  if (!first) keepPlace();
  route.view = views[path] ? path : "";
  route.params = new URLSearchParams(query);
  const visit = (route.visit += 1);
  const current = () => visit === route.visit;
  for (const item of all(".top nav a")) {
    if (item.dataset.view === (route.view === "cell" ? "cells" : route.view)) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  const root = document.getElementById("view");
  const overview = document.getElementById("overview");
  let made;
  try {
    made = await views[route.view](route.params, current);
  } catch (error) {
    made = { title: "Problem", nodes: [make("h1", {}, "This view cannot be shown"), make("p", { class: "empty", role: "alert" }, error.message)] };
  }
  if (!current()) return;
  overview.hidden = route.view !== "";
  root.hidden = route.view === "";
  root.replaceChildren(...made.nodes);
  document.title = `${made.title} · Conformance`;
  if (made.shown) made.shown();
  toEnd(root);
  // A screen reader starts at the top of a new view.
  if (!restorePlace() && !first) (one("h1", route.view === "" ? overview : root) || root).focus({ preventScroll: true });
  document.body.dataset.ready = String(visit);
}

// The run of a view: the one named in the address, or the newest.
function runNamed(main, key) {
  const run = key ? main.runs.find((item) => item.key === key) : main.runs[0];
  if (!run) throw new Error(`This site has no run ${key}.`);
  return run;
}
