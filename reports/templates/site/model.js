// Cells by number, the same in every run; a run's columns spread over them.
const ABSENT = 255;
const models = new Map();

function memo(name, build) {
  if (!models.has(name)) models.set(name, conform.load(name).then(build));
  models.get(name).catch(() => models.delete(name));
  return models.get(name);
}

function mainData() {
  return memo("main", (data) => {
    const byLetter = new Uint8Array(128).fill(ABSENT);
    data.outcomes.forEach((outcome, at) => { byLetter[outcome.letter.charCodeAt(0)] = at; });
    return { ...data, byLetter };
  });
}

function lookUp(names) {
  return new Map(names.map((name, at) => [name, at]));
}

function twins(names, pairs) {
  const shown = [...names];
  for (const [at, safe] of pairs) shown[at] = safe;
  return shown;
}

async function catalogue() {
  const main = await mainData();
  return memo("cells", (data) => {
    const width = data.targets.length;
    const at = new Int32Array(data.cases.length * width).fill(-1);
    data.case.forEach((item, cell) => { at[item * width + data.target[cell]] = cell; });
    const cases = lookUp(data.cases);
    const targets = lookUp(data.targets);
    const caseShown = twins(data.cases, data.shown.cases);
    const targetShown = twins(data.targets, data.shown.targets);
    const name = (names, target, cell) => (data.targets[target] === main.no_target
      ? names[data.case[cell]] : `${names[data.case[cell]]}@${data.targets === names ? "" : targetShown[target]}`);
    return {
      ...data, at, width, caseShown, targetShown, size: data.case.length,
      hay: data.cases.map((item, number) =>
        `${caseShown[number]} ${data.ops[data.op[number]]} ${data.suites[data.suite[number]]}`.toLowerCase()),
      hayTarget: targetShown.map((item) => item.toLowerCase()),
      // Links carry the recorded name; the displayed text is a safe form of it.
      id: (cell) => (data.targets[data.target[cell]] === main.no_target
        ? data.cases[data.case[cell]] : `${data.cases[data.case[cell]]}@${data.targets[data.target[cell]]}`),
      shownId: (cell) => name(caseShown, data.target[cell], cell),
      find(id) {
        const split = id.lastIndexOf("@");
        const target = targets.get(split < 0 ? main.no_target : id.slice(split + 1));
        const item = cases.get(split < 0 ? id : id.slice(0, split));
        return item === undefined || target === undefined ? -1 : at[item * width + target];
      },
    };
  });
}

async function runData(run) {
  const main = await mainData();
  return memo(run.file, (data) => {
    const outcome = new Uint8Array(data.outcomes.length);
    const slot = new Int32Array(data.outcomes.length).fill(-1);
    let next = 0;
    for (let cell = 0; cell < outcome.length; cell += 1) {
      outcome[cell] = main.byLetter[data.outcomes.charCodeAt(cell)];
      if (outcome[cell] !== ABSENT) slot[cell] = next++;
    }
    return {
      ...data, outcome, slot,
      detailed: data.detailed && new Set(data.detailed),
      // 0 for a cell without a severity.
      severityOf: (cell) => (slot[cell] >= 0 ? data.severity[slot[cell]] : 0),
      of: (cell) => (cell < outcome.length ? outcome[cell] : ABSENT),
    };
  });
}

// Marks the cells that have every search word in their case, op, suite, target, error or limitation.
function search(text, cells, run) {
  const found = new Uint8Array(run.outcome.length);
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const hit = (hay, word) => Uint8Array.from(hay, (item) => (item.includes(word) ? 1 : 0));
  run.hayError ||= run.errors.map((item) => item.toLowerCase());
  run.hayGap ||= run.gaps.map((item) => (item ? `${item[0]} ${item[1]}`.toLowerCase() : ""));
  const hits = wanted.map((word) => [hit(cells.hay, word), hit(cells.hayTarget, word), hit(run.hayError, word), hit(run.hayGap, word)]);
  for (let cell = 0; cell < found.length; cell += 1) {
    const slot = run.slot[cell];
    if (slot < 0) continue;
    found[cell] = 1;
    for (const [byCase, byTarget, byError, byGap] of hits) {
      if (byCase[cells.case[cell]] || byTarget[cells.target[cell]] || byError[run.error[slot]] || byGap[run.gap[slot]]) continue;
      found[cell] = 0;
      break;
    }
  }
  return found;
}

// Axis labels of runs: the day, with the time where a day has several runs; the run's name where the
// start is unknown.
function daysOf(runs) {
  const days = runs.map((run) => run.day.slice(0, 10));
  const repeated = new Set(days).size < days.length;
  return runs.map((run, at) => (days[at] && repeated ? run.day.slice(5, 16).replace("T", " ") : days[at]) || run.key);
}

// Targets in the order of the matrix: backends in the order of the run, then recipes, each followed by
// its variants with other passes.
function inOrder(targets, nameOf, run) {
  const base = (name) => name.replace(/(.)[+-].*$/, "$1");
  const rank = new Map();
  const note = (key) => { if (!rank.has(key)) rank.set(key, rank.size); };
  for (const name of [...run.targets, ...targets.map(nameOf)]) { note(name.split(":")[0]); note(base(name)); note(name); }
  const key = (item) => { const name = nameOf(item); return [name.split(":")[0], base(name), name].map((part) => rank.get(part)); };
  const keys = new Map(targets.map((item) => [item, key(item)]));
  return [...targets].sort((a, b) => {
    const [left, right] = [keys.get(a), keys.get(b)];
    const at = left.findIndex((value, place) => value !== right[place]);
    return at < 0 ? 0 : left[at] - right[at];
  });
}

// Columns as in reports/columns.py: one per target, but one for all variants of a recipe with other
// passes, if these are more than two.
function folded(targets) {
  const made = [];
  for (const target of targets) {
    const base = target.name.replace(/(.)[+-].*$/, "$1");
    const name = base === target.name ? base : `${base} ± passes`;
    const last = made[made.length - 1];
    if (last && last.name === name) last.members.push(target);
    else made.push({ name, members: [target] });
  }
  return made.flatMap((column) => (column.members.length > 2 ? [column] : column.members.map((target) => ({ name: target.name, members: [target] }))));
}

// The words of a cell's outcome, with the severity of its mismatch.
function outcomeWords(main, at, severity) {
  const { label } = main.outcomes[at];
  return severity ? `${label}, ${main.severities[severity]}` : label;
}

// Larger is worse: by outcome, then mismatches by severity; an unknown severity counts as critical.
function worseness(main, at, severity) {
  const unknown = main.outcomes[at].value === "mismatch" ? main.severities.length - 1 : 0;
  return main.outcomes[at].badness * main.severities.length + (severity || unknown);
}

function swatch(outcome) {
  return make("span", { class: `swatch o-${outcome.value}`, "aria-hidden": "true" }, outcome.symbol);
}

function pill(outcome, number) {
  return make("span", { class: "pill", title: outcome.meaning }, swatch(outcome), `${number.toLocaleString(LOCALE)} ${outcome.label}`);
}

function segments(outcomes, counts) {
  return outcomes.map((outcome, at) => {
    if (!counts[at]) return null;
    const node = make("s", { class: `o-${outcome.value}` });
    node.style.flexGrow = counts[at];
    return node;
  });
}

function cellLink(cells, cell, run, ...children) {
  return make("a", { href: address("cell", { id: cells.id(cell), run: run && run.key }), class: "mono" },
    ...(children.length ? children : [cells.shownId(cell)]));
}

function picker(label, runs, chosen, onchange) {
  const options = runs.map((run) =>
    make("option", { value: run.key, selected: run === chosen ? "" : null }, `${run.mark} ${run.key}`));
  const select = make("select", {}, options);
  select.addEventListener("change", () => onchange(select.value));
  return make("label", { class: "picker" }, make("span", { class: "quiet" }, label), select);
}
