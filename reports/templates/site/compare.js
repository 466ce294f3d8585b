// Shows a comparison of two runs that Python made; filters and groups its changes.
const PAGE = 200;
const BY = { kind: "Kind of change", op: "Op", target: "Target", cause: "Cause" };

function environmentTable(rows) {
  if (!rows.length) return make("p", { class: "note" }, "Both runs have the same seed, commit, selection, targets, packages and host.");
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences of environment" }, make("table", { class: "list" },
    make("thead", {}, make("tr", {}, ["Setting", "Before", "After"].map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, rows.map(([name, before, after]) => make("tr", {}, make("th", { scope: "row" }, name),
      make("td", { class: "said" }, before || DASH), make("td", { class: "said" }, after || DASH))))));
}

function changeRow(main, cells, now, change) {
  const sign = (outcome) => (outcome >= 0 ? swatch(main.outcomes[outcome])
    : make("span", { class: "swatch absent", "aria-hidden": "true" }, "·"));
  const kind = main.kinds[change.kind];
  return make("li", { class: "change" },
    make("span", { class: "pair" }, sign(change.from), make("span", { class: "quiet", "aria-hidden": "true" }, "→"), sign(change.to)),
    make("div", {}, cellLink(cells, change.cell, now === main.runs[0] ? null : now),
      make("div", { class: "detail" }, make("b", { class: kind.tone }, `${kind.sign} ${kind.label}`), ` ${change.detail}`)));
}

// The runs that the site compares with a run, as the runs before it.
function comparedWith(main, after) {
  const at = main.runs.indexOf(after);
  return main.pairs.filter(([, other]) => other === at).map(([before]) => main.runs[before]);
}

function pairPicker(main, a, b) {
  const go = (before, after) => { location.hash = address("compare", { ...Object.fromEntries(route.params), a: before, b: after }); };
  const change = (key) => go(comparedWith(main, runNamed(main, key)).includes(a) ? a.key : "", key);
  const swap = make("button", { type: "button", class: "small", hidden: comparedWith(main, a).includes(b) ? null : "" }, "⇄ Swap");
  swap.addEventListener("click", () => go(b.key, a.key));
  return make("div", { class: "headline pickers" }, picker("Before", comparedWith(main, b), a, (key) => go(key, b.key)),
    picker("After", main.runs, b, change), swap);
}

function groupsOf(main, cells, changes, by) {
  const name = {
    kind: (change) => main.kinds[change.kind].label,
    op: (change) => cells.ops[cells.op[cells.case[change.cell]]] || "(none)",
    target: (change) => cells.targetShown[cells.target[change.cell]],
    cause: (change) => change.error || "(no longer failing)",
  }[by];
  const found = new Map();
  for (const change of changes) {
    const key = name(change);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(change);
  }
  const losses = (items) => items.filter((change) => main.kinds[change.kind].worse).length;
  const made = [...found.entries()];
  return by === "kind" ? made : made.sort(([a, x], [b, y]) => losses(y) - losses(x) || y.length - x.length || (a < b ? -1 : 1));
}

views.compare = async (params) => {
  const main = await mainData();
  const cells = await catalogue();
  const after = runNamed(main, params.get("b"));
  const others = comparedWith(main, after);
  if (!others.length) throw new Error("This site has one run. A comparison needs two.");
  const usual = main.runs[after === main.runs[0] ? main.base : main.runs.indexOf(after) + 1];
  const before = params.get("a") ? runNamed(main, params.get("a")) : others.find((run) => run === usual) || others[0];
  if (!others.includes(before)) {
    throw new Error(`This site does not compare ${before.key} with ${after.key}. Run: conform diff ${shell(before.path)} ${shell(after.path)}`);
  }
  const found = await conform.load(`d${main.runs.indexOf(before)}/${main.runs.indexOf(after)}`);
  const changes = found.changes.map(([cell, kind, from, to, detail, error]) => ({ cell, kind, from, to, detail, error: found.errors[error] }));
  const state = { q: params.get("q") || "", kind: words(params, "kind"), by: BY[params.get("by")] ? params.get("by") : "kind" };
  const list = make("div", { class: "changes", id: "changes" });
  const matching = make("output", { class: "quiet", id: "matching", "aria-live": "polite" });
  const input = make("input", { id: "search", type: "search", placeholder: "Search cell, op, detail", "aria-label": "Search cell, op, detail",
    autocomplete: "off", spellcheck: "false", value: state.q });
  const chips = main.kinds.map((kind, at) => {
    const number = changes.filter((change) => change.kind === at).length;
    if (!number) return null;
    const chip = make("button", { type: "button", class: `chip ${kind.tone}`, title: kind.meaning, "aria-pressed": "false" },
      `${kind.sign} ${kind.label} `, make("b", {}, number.toLocaleString(LOCALE)));
    chip.addEventListener("click", () => {
      if (state.kind.has(kind.value)) state.kind.delete(kind.value); else state.kind.add(kind.value);
      changed();
    });
    chip.dataset.kind = kind.value;
    return chip;
  }).filter(Boolean);

  function apply() {
    const wanted = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    const hay = (change) => (change.hay ||= `${cells.shownId(change.cell)} ${cells.ops[cells.op[cells.case[change.cell]]]} ${change.detail}`.toLowerCase());
    const shown = changes.filter((change) => (!state.kind.size || state.kind.has(main.kinds[change.kind].value)) &&
      wanted.every((word) => hay(change).includes(word)));
    for (const chip of chips) chip.setAttribute("aria-pressed", String(state.kind.has(chip.dataset.kind)));
    matching.textContent = shown.length === changes.length ? count(changes.length, "change")
      : `${shown.length.toLocaleString(LOCALE)} of ${count(changes.length, "change")}`;
    list.replaceChildren(...groupsOf(main, cells, shown, state.by).map(([name, items]) => section(name, items)));
    if (!shown.length) list.append(make("p", { class: "empty" }, changes.length ? "No change matches the filter." : "No cell changed."));
  }

  function section(name, items) {
    const rows = make("ul", { class: "plain" });
    const more = make("button", { type: "button", class: "small" });
    let next = 0;
    const extend = () => {
      const upto = next ? next + PAGE : Math.min(25, items.length);
      rows.append(...items.slice(next, upto).map((change) => changeRow(main, cells, after, change)));
      next = Math.min(upto, items.length);
      more.hidden = next >= items.length;
      more.textContent = `Show ${Math.min(PAGE, items.length - next).toLocaleString(LOCALE)} more of ${(items.length - next).toLocaleString(LOCALE)}`;
    };
    more.addEventListener("click", extend);
    extend();
    return make("section", { class: "changegroup" }, make("h2", {}, name, " ", make("span", { class: "quiet" }, items.length.toLocaleString(LOCALE))), rows, more);
  }

  function changed() {
    amend({ q: state.q, kind: [...state.kind].join(","), by: state.by === "kind" ? "" : state.by });
    apply();
  }

  input.addEventListener("input", () => { state.q = input.value.trim(); changed(); });
  const verdict = (run) => make("p", { class: `verdict ${run.tone}` }, make("span", { class: "mark", "aria-hidden": "true" }, run.mark),
    make("b", {}, run.headline), make("span", { class: "quiet" }, ` ${run.key}: ${run.rate_text}`));
  return {
    title: `${before.key} → ${after.key}`,
    nodes: [
      make("h1", { tabindex: "-1" }, "Compare"), pairPicker(main, before, after), verdict(before), verdict(after),
      make("section", {}, make("h2", {}, "Environment"), environmentTable(found.environment),
        found.remarks.length ? make("ul", { class: "worries" }, found.remarks.map((line) => make("li", {}, line))) : null),
      make("section", {}, make("h2", {}, "Changes ", make("span", { class: "quiet" }, `in ${count(found.compared, "common cell")}, and cells that only one run has`)),
        make("div", { class: "chipset" }, chips),
        make("div", { class: "toolbar" }, input, choice("Group", BY, state.by, (value) => { state.by = value; changed(); }), matching), list,
        make("p", { class: "note" }, "Kinds and thresholds are those of conform diff. The site compares each run with the run before it and with the newest run; conform diff BEFORE AFTER compares any two. Numbers that improved appear as worse if the runs are swapped.")),
    ],
    shown: apply,
  };
};
