// The matrix of one run, cases by targets, with groups, search and filters.
const ORDERS = { name: "Name", worst: "Worst first" };
const GROUPS = { op: "Op", suite: "Suite", none: "No groups" };

function menu(label, key, options, chosen, changed) {
  const number = make("b", {});
  const node = make("details", { class: "menu" }, make("summary", {}, `${label} `, number),
    make("div", {}, options.map(({ value, content }) => {
      const input = make("input", { type: "checkbox", value });
      return make("label", {}, input, content);
    })));
  node.dataset.key = key;
  const sync = () => {
    for (const input of all("input", node)) input.checked = chosen.has(input.value);
    number.textContent = chosen.size ? String(chosen.size) : "";
  };
  node.addEventListener("change", (event) => {
    if (event.target.checked) chosen.add(event.target.value);
    else chosen.delete(event.target.value);
    sync();
    changed();
  });
  sync();
  return { node, sync };
}

function choice(label, options, value, changed) {
  const select = make("select", {}, Object.entries(options).map(([key, text]) =>
    make("option", { value: key, selected: key === value ? "" : null }, text)));
  select.addEventListener("change", () => changed(select.value));
  return make("label", { class: "picker" }, make("span", { class: "quiet" }, label), select);
}

// Groups that a reader opened stay open when the reader returns.
const opened = new Set();

// Cases in groups, with the cell of each target: the rows of the table, unfiltered.
function grouped(cells, run, by) {
  const names = by === "suite" ? cells.suites : cells.ops;
  const of = by === "suite" ? cells.suite : cells.op;
  const found = new Map();
  for (let cell = 0; cell < run.outcome.length; cell += 1) {
    if (run.outcome[cell] === ABSENT) continue;
    const item = cells.case[cell];
    const key = by === "none" ? 0 : of[item];
    if (!found.has(key)) found.set(key, { name: by === "none" ? "" : names[key] || "(none)", cases: new Map() });
    const { cases } = found.get(key);
    if (!cases.has(item)) cases.set(item, { item, squares: new Int32Array(cells.width).fill(-1) });
    cases.get(item).squares[cells.target[cell]] = cell;
  }
  // Names with a leading underscore would otherwise sort first.
  const sorted = (items, nameOf) => items.map((item) => [nameOf(item).toLowerCase().replace(/^_+/, ""), item])
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, item]) => item);
  return sorted([...found.values()], (group) => group.name).map((group) => ({
    ...group, group: true, open: false, cases: sorted([...group.cases.values()], ({ item }) => cells.caseShown[item]),
  }));
}

function tally(main, run, found) {
  const counts = new Array(main.outcomes.length).fill(0);
  for (const cell of found) counts[run.outcome[cell]] += 1;
  return counts;
}

// The cells of a case in a column.
function cellsIn({ squares }, { members }) {
  return members.map(({ at }) => squares[at]).filter((cell) => cell >= 0);
}

function groupSquare(main, name, counts, off, href = null) {
  const there = main.outcomes.filter((_, at) => counts[at]);
  if (!there.length) return null;
  const said = `${name}: ${there.map((outcome) => `${counts[main.outcomes.indexOf(outcome)].toLocaleString(LOCALE)} ${outcome.label}`).join(", ")}`;
  const dim = off ? " off" : "";
  const square = (kind, ...shown) => (href
    ? make("a", { href, class: `sq ${kind}${dim}`, title: said, "aria-label": said }, ...shown)
    : make("button", { type: "button", class: `sq ${kind}${dim}`, title: said, "aria-label": said }, ...shown));
  if (there.length === 1) return square(`o-${there[0].value}`, there[0].symbol);
  const sum = (test) => main.outcomes.reduce((total, outcome, at) => total + (test(outcome) ? counts[at] : 0), 0);
  const passed = sum((outcome) => outcome.passed);
  const red = sum((outcome) => outcome.red);
  const rated = sum((outcome) => outcome.rated);
  const conclusive = sum((outcome) => outcome.conclusive);
  const most = there.reduce((a, b) => (counts[main.outcomes.indexOf(b)] > counts[main.outcomes.indexOf(a)] ? b : a));
  // Unrated cells are not part of the bar: 1/1 beside a half grey bar would read like a half.
  const shown = counts.map((number, at) => (rated && !main.outcomes[at].rated ? 0 : number));
  // 0/5 for cells that no runtime here can execute would read like five failures.
  return square(`mixed${red ? " hot" : ""}`, conclusive ? `${passed}/${rated}` : most.symbol, make("i", {}, segments(main.outcomes, shown)));
}

views.cells = async (params) => {
  const main = await mainData();
  const chosen = runNamed(main, params.get("run"));
  const [cells, run] = await Promise.all([catalogue(), runData(chosen)]);
  const state = {
    q: params.get("q") || "", target: words(params, "target"), status: words(params, "status"),
    by: GROUPS[params.get("group")] ? params.get("group") : "op",
    order: ORDERS[params.get("order")] ? params.get("order") : "name",
  };
  const used = new Set(Array.from(run.slot.keys()).filter((cell) => run.slot[cell] >= 0).map((cell) => cells.target[cell]));
  const targets = inOrder([...used].map((at) => ({ at, raw: cells.targets[at], name: cells.targetShown[at] })), ({ name }) => name, run);
  const box = make("div", {});
  const matching = make("output", { class: "quiet", id: "matching", "aria-live": "polite" });
  const input = make("input", { id: "search", type: "search", placeholder: "Case, op, suite, target, error",
    "aria-label": "Search case, op, suite, target, error", autocomplete: "off", spellcheck: "false", value: state.q });
  const clear = make("button", { type: "button", id: "clear" }, "Clear");
  const expand = make("button", { type: "button", id: "expand", class: "small", "aria-pressed": "false" }, "Expand all");
  let groups = grouped(cells, run, state.by);
  let grid;
  let columns;
  let drawn;
  let matches;
  let narrowed = null;

  function drawRow(row) {
    if (row.group) {
      const toggle = make("button", { type: "button", "aria-expanded": String(row.open) }, row.name, " ", make("span", { class: "quiet" }, count(row.cases.length, "case")));
      row.squares ||= columns.map((column) => {
        const all = row.cases.flatMap((item) => cellsIn(item, column));
        return groupSquare(main, `${row.name} on ${column.name}`, tally(main, run, all), !all.some((cell) => matches[cell]));
      });
      return [make("th", { scope: "row", class: "name" }, toggle), row.squares];
    }
    const name = cells.caseShown[row.item];
    const label = row.under && name.startsWith(`${row.under}/`) ? name.slice(row.under.length + 1) : name;
    return [make("th", { scope: "row", class: "name mono", title: name }, label), columns.map((column) => {
      const found = cellsIn(row, column);
      if (!found.length) return null;
      const badness = (cell) => worseness(main, run.outcome[cell], run.severityOf(cell));
      const cell = found.reduce((worst, other) => (badness(other) > badness(worst) ? other : worst));
      if (found.length > 1) {
        return groupSquare(main, `${name} on ${column.name}`, tally(main, run, found), !found.some((each) => matches[each]),
          address("cell", { id: cells.id(cell), run: params.get("run") && chosen.key }));
      }
      const outcome = main.outcomes[run.outcome[cell]];
      const said = `${cells.shownId(cell)}: ${outcomeWords(main, run.outcome[cell], run.severityOf(cell))}`;
      return make("a", { class: `sq o-${outcome.value}${matches[cell] ? "" : " off"}`, title: said, "aria-label": said,
        href: address("cell", { id: cells.id(cell), run: params.get("run") && chosen.key }) }, outcome.symbol);
    })];
  }

  function list() {
    const rows = [];
    for (const group of groups) {
      group.squares = null;
      group.worst = -1;
      group.hits = group.cases.filter((item) => {
        item.worst = -1;
        for (const cell of columns.flatMap((column) => cellsIn(item, column))) {
          if (matches[cell]) item.worst = Math.max(item.worst, worseness(main, run.outcome[cell], run.severityOf(cell)));
        }
        group.worst = Math.max(group.worst, item.worst);
        return item.worst >= 0;
      });
    }
    const shown = groups.filter((group) => group.hits.length);
    if (state.order === "worst") {
      shown.sort((a, b) => b.worst - a.worst);
      for (const group of shown) group.hits.sort((a, b) => b.worst - a.worst);
    }
    for (const group of shown) {
      if (state.by !== "none") rows.push(group);
      if (group.open || state.by === "none") for (const item of group.hits) rows.push({ ...item, under: state.by === "op" ? group.name : "" });
    }
    grid.set(rows);
    return shown.length > 0;
  }

  function apply() {
    const began = performance.now();
    matches = search(state.q, cells, run);
    let number = 0;
    for (let cell = 0; cell < matches.length; cell += 1) {
      if (!matches[cell]) continue;
      const fits = (!state.status.size || state.status.has(main.outcomes[run.outcome[cell]].value)) &&
        (!state.target.size || state.target.has(cells.targets[cells.target[cell]]));
      if (fits) number += 1; else matches[cell] = 0;
    }
    const wanted = folded(targets.filter(({ raw }) => !state.target.size || state.target.has(raw)));
    const signature = JSON.stringify(wanted.map(({ members }) => members.map(({ at }) => at)));
    if (!grid || signature !== drawn) {
      drawn = signature;
      columns = wanted;
      grid = makeGrid({ label: "Cases by target", columns: columns.map(({ name }) => name), drawRow,
        corner: state.by === "suite" ? "Suite and case" : state.by === "op" ? "Op and case" : "Case",
        toggle: (group) => {
          group.open = !group.open;
          if (group.open) opened.add(group.name); else opened.delete(group.name);
          list();
        } });
      box.replaceChildren(grid.node);
    }
    const narrow = Boolean(state.q || state.status.size);
    if (narrow !== narrowed) for (const group of groups) group.open = narrow || opened.has(group.name);
    narrowed = narrow;
    const some = list();
    const active = state.q || state.status.size || state.target.size;
    matching.textContent = active ? `${number.toLocaleString(LOCALE)} of ${count(chosen.cells, "cell")} match` : count(chosen.cells, "cell");
    clear.hidden = !active;
    box.classList.toggle("nothing", !some);
    one(".empty", foot).hidden = some;
    box.dataset.took = (performance.now() - began).toFixed(1);
  }

  function changed() {
    amend({ q: state.q, target: [...state.target].join(","), status: [...state.status].join(","),
      group: state.by === "op" ? "" : state.by, order: state.order === "name" ? "" : state.order });
    apply();
  }

  function regroup() {
    groups = grouped(cells, run, state.by);
    grid = null;
    narrowed = null;
    changed();
  }

  const menus = [
    menu("Target", "target", targets.map(({ raw, name }) => ({ value: raw, content: make("span", { class: "mono" }, name) })), state.target, changed),
    menu("Status", "status", main.outcomes.filter((_, at) => chosen.counts[at]).map((outcome) => ({ value: outcome.value,
      content: [swatch(outcome), outcome.label, make("span", { class: "quiet" }, chosen.counts[main.outcomes.indexOf(outcome)].toLocaleString(LOCALE))] })), state.status, changed),
  ];
  input.addEventListener("input", () => { state.q = input.value.trim(); changed(); });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    const first = one(".grid [tabindex='0']", box);
    if (first) { event.preventDefault(); first.focus(); }
  });
  clear.addEventListener("click", () => {
    state.q = input.value = "";
    state.target.clear();
    state.status.clear();
    for (const item of menus) item.sync();
    changed();
    input.focus();
  });
  expand.addEventListener("click", () => {
    const open = expand.getAttribute("aria-pressed") !== "true";
    expand.setAttribute("aria-pressed", String(open));
    expand.textContent = open ? "Collapse all" : "Expand all";
    opened.clear();
    for (const group of groups) {
      group.open = open;
      if (open) opened.add(group.name);
    }
    list();
  });
  const foot = make("div", {}, make("p", { class: "empty", hidden: "" }, "No cell matches the filter."),
    make("p", { class: "note" }, "A group row shows passed / rated cells; open it to see its cases. Select a square to see the cell. Keys: arrows move between squares, Enter opens one, / goes to the search."));
  const go = (key) => { location.hash = address("cells", { ...Object.fromEntries(route.params), run: key === main.runs[0].key ? "" : key }); };
  return {
    title: `Cells of ${chosen.key}`,
    nodes: [
      make("div", { class: "headline" }, make("h1", { tabindex: "-1" }, "Cells"), picker("Run", main.runs, chosen, go)),
      runHead(main, chosen, run),
      make("div", { class: "toolbar", role: "search", "aria-label": "Filter" }, input, menus.map(({ node }) => node),
        choice("Group", GROUPS, state.by, (value) => { state.by = value; regroup(); }),
        choice("Order", ORDERS, state.order, (value) => { state.order = value; regroup(); }), clear, expand, matching),
      make("ul", { class: "legend key" }, main.outcomes.filter((_, at) => chosen.counts[at]).map((outcome) =>
        make("li", { title: outcome.meaning }, swatch(outcome), outcome.label))),
      box, foot,
    ],
    shown: apply,
  };
};

// The verdict of a run on one line, its problems, and its environment.
function runHead(main, chosen, run) {
  const pairs = (caption, items) => make("table", { class: "pairs" }, make("caption", {}, caption),
    items.map(([name, ...values]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, values.join(" · ")))));
  return make("section", { class: `runhead ${chosen.tone}` },
    make("p", { class: "verdict" }, make("span", { class: "mark", "aria-hidden": "true" }, chosen.mark),
      make("b", {}, chosen.headline), make("span", { class: "quiet" }, ` ${chosen.sentence}.`)),
    run.concerns.length ? make("ul", { class: "worries" }, run.concerns.map((line) => make("li", {}, line))) : null,
    make("details", { class: "where" }, make("summary", {}, "Environment"),
      make("div", { class: "columns" }, pairs("Run", run.facts), pairs("Packages", run.packages), pairs("Backends", run.backends))));
}
