// First bad runs, flaky cells and step changes, from the history of all runs.
function runLink(main, { run, key }) {
  return key ? make("a", { class: "mono", href: address("cells", { run: key === main.runs[0].key ? "" : key }) }, run)
    : make("span", { class: "mono" }, run);
}

function pairLink({ pair }) {
  return pair ? make("a", { href: address("compare", { a: pair[0], b: pair[1] }) }, "Compare") : null;
}

function tableOf(label, heads, rows) {
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, make("table", { class: "list" },
    make("thead", {}, make("tr", {}, heads.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((item) => make("td", {}, item)))))));
}

function linkById(cells, id) {
  const cell = cells.find(id);
  return cell < 0 ? make("span", { class: "mono" }, id) : cellLink(cells, cell, null);
}

views.changes = async () => {
  const [main, cells, found] = await Promise.all([mainData(), catalogue(), conform.load("changes")]);
  const byValue = new Map(main.outcomes.map((outcome) => [outcome.value, outcome]));
  const rest = (name) => (found.more[name] ? make("p", { class: "note" }, `and ${found.more[name].toLocaleString(LOCALE)} more; conform history lists all of them.`) : null);
  const none = (text) => make("p", { class: "empty" }, text);
  const bad = found.bad.map((row) => [
    [swatch(byValue.get(row.now)), " ", linkById(cells, row.id), make("div", { class: "quiet said" }, row.error)],
    [runLink(main, row.since), make("div", { class: "quiet" }, `red in ${count(row.red, "run")}`)],
    row.good ? [runLink(main, row.good), make("div", {}, pairLink(row))] : make("span", { class: "quiet" }, "never passed"),
    [make("span", { class: "mono" }, row.commits), row.between ? make("div", { class: "quiet" }, `between: ${row.between}`) : null],
  ]);
  const flaky = found.flaky.map((row) => [
    linkById(cells, row.id),
    row.outcomes.map(([value, number]) => (byValue.has(value) ? pill(byValue.get(value), number) : make("span", {}, `${number} ${value} `))),
    make("span", { class: "mono" }, row.commit),
    [row.example.map((run, at) => [at ? " · " : "", runLink(main, run)]), make("div", {}, pairLink(row))],
  ]);
  const steps = found.steps.map((row) => [
    [linkById(cells, row.id)],
    make("span", {}, make("b", { class: row.worse ? "worse" : "better" }, `${row.worse ? "▼ worse" : "▲ better"} `), row.metric, make("div", { class: "nowrap" }, row.change)),
    [runLink(main, row.to), make("div", {}, pairLink(row))],
    [make("span", { class: "mono" }, row.commits), row.environment ? make("div", { class: "quiet said" }, row.environment) : null,
      row.between ? make("div", { class: "quiet" }, `${count(row.between, "run")} in between without a value`) : null],
    row.lasts ? `${count(row.nights, "run")}, still lasts` : count(row.nights, "run"),
  ]);
  return {
    title: "Changes",
    nodes: [
      make("h1", { tabindex: "-1" }, "Changes over time"),
      found.remarks.length ? make("section", { class: "concerns" }, make("ul", {}, found.remarks.map((line) => make("li", {}, line)))) : null,
      make("section", { id: "bad" }, make("h2", {}, "Red now ", make("span", { class: "quiet" }, "with the first bad run of each cell")),
        bad.length ? tableOf("Red now", ["Cell", "Red since", "Last passed", "Commits"], bad) : none("No cell is red in its newest result."), rest("bad")),
      make("section", { id: "flaky" }, make("h2", {}, "Flaky ", make("span", { class: "quiet" }, "different outcomes with the same code, environment and seed")),
        flaky.length ? tableOf("Flaky cells", ["Cell", "Outcomes", "Commit", "Example"], flaky) : none("No cell has different outcomes in comparable runs."), rest("flaky")),
      make("section", { id: "steps" }, make("h2", {}, "Step changes ", make("span", { class: "quiet" }, "metrics that stayed at a new level for three or more runs")),
        steps.length ? tableOf("Step changes", ["Cell", "Change", "Began in", "Commits", "Lasted"], steps) : none("No metric changed its level."), rest("steps")),
    ].filter(Boolean),
  };
};
