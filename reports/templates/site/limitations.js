// Cells of a run that limitations and missing support explain, by cause.
const GAP_CELLS = 30;

views.limitations = async (params) => {
  const main = await mainData();
  const chosen = runNamed(main, params.get("run"));
  const [cells, run] = await Promise.all([catalogue(), runData(chosen)]);
  const found = run.gaps.map((gap) => ({ gap, cells: [], counts: new Array(main.outcomes.length).fill(0), targets: new Set() }));
  for (let cell = 0; cell < run.outcome.length; cell += 1) {
    if (run.slot[cell] < 0) continue;
    const entry = found[run.gap[run.slot[cell]]];
    entry.cells.push(cell);
    entry.counts[run.outcome[cell]] += 1;
    entry.targets.add(cells.targetShown[cells.target[cell]]);
  }
  const stale = main.outcomes.findIndex((outcome) => outcome.value === "xpassed");
  const gaps = found.slice(1).filter((entry) => entry.cells.length)
    .sort((a, b) => b.counts[stale] - a.counts[stale] || b.cells.length - a.cells.length);
  const key = params.get("run") ? chosen : null;
  const state = { q: params.get("q") || "" };
  const input = make("input", { id: "search", type: "search", placeholder: "Search reason, link, target", "aria-label": "Search reason, link, target",
    autocomplete: "off", spellcheck: "false", value: state.q });
  const matching = make("output", { class: "quiet", id: "matching", "aria-live": "polite" });
  const list = make("div", {});
  const members = (entry) => {
    const node = make("details", { class: "others" }, make("summary", {}, count(entry.cells.length, "cell")));
    node.addEventListener("toggle", () => {
      if (node.children.length > 1) return;
      const left = entry.cells.length - GAP_CELLS;
      node.append(make("ul", { class: "plain" }, entry.cells.slice(0, GAP_CELLS).map((cell) => make("li", {}, cellLink(cells, cell, key))),
        left > 0 ? make("li", {}, make("a", { href: address("cells", { run: params.get("run"), q: entry.gap[0] }) }, `and ${left.toLocaleString(LOCALE)} more`)) : null));
    });
    return node;
  };
  const row = (entry) => {
    const [reason, link, href] = entry.gap;
    return make("article", { class: "gap" },
      make("p", { class: "reason" }, reason),
      link ? make("p", { class: "said" }, href ? make("a", { href, rel: "noreferrer" }, link) : make("span", { class: "quiet" }, link)) : null,
      make("div", { class: "pills" }, main.outcomes.map((outcome, at) => (entry.counts[at] ? pill(outcome, entry.counts[at]) : null)),
        [...entry.targets].map((name) => make("span", { class: "mono tag" }, name))),
      members(entry));
  };
  const apply = () => {
    const wanted = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = gaps.filter((entry) => {
      const hay = `${entry.gap[0]} ${entry.gap[1]} ${[...entry.targets].join(" ")}`.toLowerCase();
      return wanted.every((word) => hay.includes(word));
    });
    matching.textContent = `${shown.length.toLocaleString(LOCALE)} of ${count(gaps.length, "cause")}`;
    list.replaceChildren(...shown.map(row));
    if (!shown.length) list.append(make("p", { class: "empty" }, gaps.length ? "No cause matches the filter." : "No cell of this run has a limitation."));
  };
  input.addEventListener("input", () => { state.q = input.value.trim(); amend({ q: state.q }); apply(); });
  const total = gaps.reduce((sum, entry) => sum + entry.cells.length, 0);
  return {
    title: `Limitations of ${chosen.key}`,
    nodes: [
      make("div", { class: "headline" }, make("h1", { tabindex: "-1" }, "Limitations"),
        picker("Run", main.runs, chosen, (value) => { location.hash = address("limitations", { run: value === main.runs[0].key ? "" : value, q: state.q }); })),
      make("p", { class: "sentence" }, `${count(total, "cell")} of ${chosen.cells.toLocaleString(LOCALE)} have a known limitation or are declared unsupported. Causes with xpassed cells come first: their limitation is stale.`),
      make("div", { class: "toolbar" }, input, matching), list,
    ],
    shown: apply,
  };
};
