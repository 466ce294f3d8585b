// Compare two runs by the rules of reports/comparison/diff: outcomes by its table, numbers by measures.js.
const PAGE = 200;
const BY = { kind: "Kind of change", op: "Op", target: "Target", cause: "Cause" };

async function sideOf(run) {
  const [data, more] = await Promise.all([runData(run), conform.load(run.file.replace("r", "m"))]);
  return { run, data, more };
}

function sideCell(main, { data, more }, cell) {
  const at = data.of(cell);
  if (at === ABSENT) return null;
  const slot = data.slot[cell];
  const share = more.shares[more.share[slot]] || NOTHING_TAKEN;
  const executed = more.runtime[slot] > 0;
  return {
    at, share, executed, signature: more.signature[slot] ? more.signatures[more.signature[slot]] : "",
    lowered: Boolean(share[0] || share[1] || share[2]) || executed || main.outcomes[at].value === "lowered",
    runtime: more.runtimes[more.runtime[slot]], bytes: more.bytes[slot], planned: more.planned[slot], outputs: more.outputs[slot],
    seconds: float(data.seconds[slot]), host: more.hosts[more.host[slot]], error: data.errors[data.error[slot]],
    gap: data.gaps[data.gap[slot]], severity: data.severity[slot],
  };
}

function outcomeDetail(main, before, after) {
  const label = (side) => (side ? outcomeWords(main, side.at, side.severity) : "absent");
  if (!after || main.outcomes[after.at].passed) return `${label(before)} → ${label(after)}`;
  const gap = main.outcomes[after.at].value === "xfailed" && after.gap;
  const why = gap ? gap[0] : after.error;
  return `${label(before)} → ${label(after)}${why ? `: ${why}` : ""}`;
}

// All changes, worst first; the number of common cells; the number of times that are not comparable.
function compareRuns(main, cells, old, now) {
  const none = main.outcomes.length;
  const ranks = lookUp(main.kinds.map((kind) => kind.value));
  const changes = [];
  let compared = 0;
  let foreign = 0;
  for (let cell = 0; cell < cells.size; cell += 1) {
    const [before, after] = [sideCell(main, old, cell), sideCell(main, now, cell)];
    if (!before && !after) continue;
    const alike = before && after && before.signature === after.signature;
    const kind = main.transitions[alike ? 0 : 1][before ? before.at : none][after ? after.at : none];
    const first = kind >= 0 ? { cell, kind, before, after, detail: outcomeDetail(main, before, after), amount: 0 } : null;
    if (first) changes.push(first);
    if (!before || !after) continue;
    compared += 1;
    const timed = before.host !== "" && before.host === after.host;
    if (!timed) foreign += 1;
    for (const found of measuresOf(before, after, main.thresholds, timed, main.severities)) {
      const next = { cell, before, after, ...found, kind: ranks.get(found.kind) };
      // A consequence of a failure is part of its detail, not a change of its own.
      if (first && main.kinds[first.kind].leads && main.kinds[next.kind].follows) {
        first.detail += `; with it ${main.kinds[next.kind].label}: ${next.detail}`;
      } else changes.push(next);
    }
  }
  for (const change of changes) change.id = cells.id(change.cell);
  const severity = ({ after }) => (after ? worseness(main, after.at, after.severity) % main.severities.length : 0);
  changes.sort((a, b) => a.kind - b.kind || severity(b) - severity(a) || (a.amount === b.amount ? 0 : b.amount - a.amount) || (a.id < b.id ? -1 : 1));
  return { changes, compared, foreign };
}

function environmentTable(old, now) {
  const [before, after] = [new Map(old.data.described), new Map(now.data.described)];
  const names = [...new Set([...before.keys(), ...after.keys()])].filter((name) => (before.get(name) || "") !== (after.get(name) || ""));
  if (!names.length) return make("p", { class: "note" }, "Both runs have the same seed, commit, selection, targets, packages and host.");
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences of environment" }, make("table", { class: "list" },
    make("thead", {}, make("tr", {}, ["Setting", "Before", "After"].map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, names.map((name) => make("tr", {}, make("th", { scope: "row" }, name),
      make("td", { class: "said" }, before.get(name) || DASH), make("td", { class: "said" }, after.get(name) || DASH))))));
}

function changeRow(main, cells, now, change) {
  const sign = (side) => (side ? swatch(main.outcomes[side.at])
    : make("span", { class: "swatch absent", "aria-hidden": "true" }, "·"));
  const kind = main.kinds[change.kind];
  return make("li", { class: "change" },
    make("span", { class: "pair" }, sign(change.before), make("span", { class: "quiet", "aria-hidden": "true" }, "→"), sign(change.after)),
    make("div", {}, cellLink(cells, change.cell, now.run === main.runs[0] ? null : now.run),
      make("div", { class: "detail" }, make("b", { class: kind.tone }, `${kind.sign} ${kind.label}`), ` ${change.detail}`)));
}

function pairPicker(main, a, b) {
  const go = (before, after) => { location.hash = address("compare", { ...Object.fromEntries(route.params), a: before, b: after }); };
  const swap = make("button", { type: "button", class: "small" }, "⇄ Swap");
  swap.addEventListener("click", () => go(b.key, a.key));
  return make("div", { class: "headline pickers" }, picker("Before", main, a, (key) => go(key, b.key)),
    picker("After", main, b, (key) => go(a.key, key)), swap);
}

function groupsOf(main, cells, changes, by) {
  const name = {
    kind: (change) => main.kinds[change.kind].label,
    op: (change) => cells.ops[cells.op[cells.case[change.cell]]] || "(none)",
    target: (change) => cells.targetShown[cells.target[change.cell]],
    cause: (change) => (change.after && change.after.signature) || "(no longer failing)",
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
  const before = params.get("a") ? runNamed(main, params.get("a")) : main.runs[after === main.runs[0] ? main.base : main.runs.indexOf(after) + 1] || after;
  const [old, now] = await Promise.all([sideOf(before), sideOf(after)]);
  const { changes, compared, foreign } = compareRuns(main, cells, old, now);
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
      rows.append(...items.slice(next, upto).map((change) => changeRow(main, cells, now, change)));
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
  const remarks = [
    ...(before === after ? ["before and after are the same run"] : []),
    ...(foreign ? [`times of ${count(foreign, "cell")} were not compared: the hosts differ`] : []),
    ...old.data.incomplete.map((line) => `before is incomplete: ${line}`),
    ...now.data.incomplete.map((line) => `after is incomplete: ${line}`),
  ];
  const verdict = (run) => make("p", { class: `verdict ${run.tone}` }, make("span", { class: "mark", "aria-hidden": "true" }, run.mark),
    make("b", {}, run.headline), make("span", { class: "quiet" }, ` ${run.key}: ${run.rate_text}`));
  return {
    title: `${before.key} → ${after.key}`,
    nodes: [
      make("h1", { tabindex: "-1" }, "Compare"), pairPicker(main, before, after), verdict(before), verdict(after),
      make("section", {}, make("h2", {}, "Environment"), environmentTable(old, now),
        remarks.length ? make("ul", { class: "worries" }, remarks.map((line) => make("li", {}, line))) : null),
      make("section", {}, make("h2", {}, "Changes ", make("span", { class: "quiet" }, `in ${count(compared, "common cell")}, and cells that only one run has`)),
        make("div", { class: "chipset" }, chips),
        make("div", { class: "toolbar" }, input, choice("Group", BY, state.by, (value) => { state.by = value; changed(); }), matching), list,
        make("p", { class: "note" }, "Kinds and thresholds are the same as in conform diff. To see numbers that improved, swap the runs: they appear as worse.")),
    ],
    shown: apply,
  };
};
