// One cell: its result in one run, and its history over all runs.
function shell(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`;
}

async function pastOf(main, cell) {
  const shards = await conform.load(`h/${Math.floor(cell / main.shard)}`);
  const found = shards[cell % main.shard];
  const outcomes = [...found.outcomes].map((letter) => main.byLetter[letter.charCodeAt(0)]);
  let next = 0;
  const slots = outcomes.map((outcome) => (outcome === ABSENT ? -1 : next++));
  const column = (name) => slots.map((slot) => (slot < 0 ? null : float(found[name][slot])));
  return { outcomes, seconds: column("seconds"), used: column("used"), sqnr: column("sqnr") };
}

function strip(main, cells, cell, past, chosen) {
  const items = past.outcomes.map((at, number) => {
    const run = main.runs[number];
    const outcome = main.outcomes[at];
    const said = `${run.key}: ${outcome ? outcome.label : "not in this run"}`;
    if (!outcome) return make("li", {}, make("span", { class: "sq none", title: said, role: "img", "aria-label": said }, "·"));
    return make("li", {}, make("a", { class: `sq o-${outcome.value}`, href: address("cell", { id: cells.id(cell), run: run.key }),
      title: said, "aria-label": said, "aria-current": run === chosen ? "true" : null }, outcome.symbol));
  });
  return make("ol", { class: "strip", "aria-label": "Outcome in each run, oldest first" }, items.reverse());
}

function pastSection(main, cells, cell, past, chosen) {
  const there = past.outcomes.map((at, number) => number).filter((number) => past.outcomes[number] !== ABSENT).reverse();
  const labels = there.map((number) => main.runs[number].key);
  const axis = daysOf(there.map((number) => main.runs[number]));
  const pick = (values) => there.map((number) => values[number]);
  const charts = [];
  const add = (values, options) => { if (values.some((value) => value !== null)) charts.push(lineChart({ labels, axis, values, ...options })); };
  if (there.length > 1) {
    add(pick(past.used), { title: "Bound used", desc: "largest error / bound; above 1 is a mismatch", format: boundUse, tick: (value) => `${value < 1 || value >= 1e6 ? general(value, 3) : value.toLocaleString(LOCALE)}×`, log: true, limit: 1 });
    add(pick(past.sqnr), { title: "SQNR", desc: "of the worst output, in dB; higher is better", format: decibels, tick: (value) => `${general(value, 3)} dB` });
    add(pick(past.seconds), { title: "Time", desc: "of all stages, wall clock", format: seconds, zero: true });
  }
  return make("section", { id: "history" },
    make("h2", {}, "History ", make("span", { class: "quiet" }, `${count(there.length, "run")}, oldest first`)),
    strip(main, cells, cell, past, chosen), charts.length ? make("div", { class: "charts" }, charts) : null,
    there.length > 1 ? null : make("p", { class: "note" }, "Only one run has this cell. Charts need at least two."));
}

async function recordOf(main, chosen, run, cell) {
  if (run.slot[cell] < 0 || cell >= run.slot.length) return null;
  if (run.detailed && !run.detailed.has(cell)) return null;
  const shard = await conform.load(`${chosen.file}/${Math.floor(cell / main.shard)}`);
  const found = shard.cells.find(([number]) => number === cell);
  return found ? { view: found[1], texts: shard.texts } : null;
}

function summaryOnly(main, run, cell) {
  const slot = run.slot[cell];
  const outcome = main.outcomes[run.outcome[cell]];
  const gap = run.gaps[run.gap[slot]];
  const pairs = [["Bound used", boundUse(float(run.used[slot]))], ["SQNR", decibels(float(run.sqnr[slot]))],
    ["Time", run.seconds[slot] === null ? DASH : seconds(float(run.seconds[slot]))]];
  return [...cellState({ outcome: outcome.value, severity: main.severities[run.severity[slot]], error: run.errors[run.error[slot]] }, [outcome.symbol, outcome.label, outcome.meaning, outcome.red]),
    gap ? limitationPart({ reason: gap[0], link: gap[1], href: gap[2] }) : null,
    part("Numbers", make("dl", { class: "about" }, pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]))),
    make("p", { class: "note" }, "This site has full records only of the newest runs and of red cells. The run folder has the record of this cell:")];
}

views.cell = async (params) => {
  const main = await mainData();
  const chosen = runNamed(main, params.get("run"));
  const [cells, run] = await Promise.all([catalogue(), runData(chosen)]);
  const id = params.get("id") || "";
  const cell = cells.find(id);
  if (cell < 0) throw new Error(`This site has no cell ${id}.`);
  const past = await pastOf(main, cell);
  const here = run.of(cell) !== ABSENT;
  const record = here ? await recordOf(main, chosen, run, cell) : null;
  const heads = main.numerics;
  const body = [];
  if (record) {
    const outcome = main.outcomes[run.outcome[cell]];
    body.push(...cellState(record.view, [outcome.symbol, outcome.label, outcome.meaning, outcome.red]),
      repro(record.view.repro), cellBody(record.view, record.texts, heads, chosen.path));
  } else if (here) body.push(...summaryOnly(main, run, cell));
  else body.push(make("p", { class: "empty" }, `Run ${chosen.key} did not select this cell.`));
  const at = (key) => address("cell", { id, run: key === main.runs[0].key ? "" : key });
  // Keep the filters of the previous view; the reader may have chosen another run since.
  const back = address("cells", { ...Object.fromEntries(lastCells), run: params.get("run") });
  const up = make("a", { href: back, class: "back" }, "← All cells");
  const related = inOrder(cells.targets.map((_, target) => cells.at[cells.case[cell] * cells.width + target])
    .filter((other) => other >= 0 && run.of(other) !== ABSENT), (other) => cells.targetShown[cells.target[other]], run);
  const others = make("ul", { class: "strip named" }, related.map((other) => {
    const outcome = main.outcomes[run.outcome[other]];
    return make("li", { class: other === cell ? "here" : null }, make("a", { href: address("cell", { id: cells.id(other), run: params.get("run") }),
      "aria-current": other === cell ? "true" : null, title: outcomeWords(main, run.outcome[other], run.severityOf(other)) }, swatch(outcome), cells.targetShown[cells.target[other]]));
  }));
  return {
    title: cells.shownId(cell),
    nodes: [
      make("div", { class: "headline" }, up, picker("Run", main.runs, chosen, (key) => { location.hash = at(key); })),
      make("h1", { class: "mono cellname", tabindex: "-1" }, cells.shownId(cell)),
      make("section", { class: "sheet" }, body),
      here ? make("section", {}, make("h2", {}, "This case on other targets"), others) : null,
      pastSection(main, cells, cell, past, chosen),
      here ? make("section", {}, make("h2", {}, "Artifacts"),
        make("p", { class: "note" }, "The first command prints the record from cells.jsonl in the run folder. The second runs the cell again from its case and seed, and saves the program, inputs, outputs and a bundled program. Both need a checkout of the project."),
        repro(`conform show ${shell(id)} ${shell(chosen.path)}`),
        record ? repro(`${record.view.repro} --save ${shell("kept")}`) : null) : null,
      runHead(main, chosen, run),
    ].filter(Boolean),
  };
};
