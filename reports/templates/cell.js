// The details of one cell, from the strings that reports/render/views.py formats.
function part(title, ...children) {
  return make("div", {}, make("h4", {}, title), ...children);
}

function repro(command) {
  return make("p", { class: "repro" }, make("code", {}, command),
    make("button", { type: "button", class: "small copy", "aria-label": `Copy: ${command}` }, "Copy"));
}

// The outcome with its symbol, and the error; errors of red and of other cells look different.
function cellState(cell, [symbol, label, meaning, red]) {
  const where = cell.stage ? ` in stage ${cell.stage}` : "";
  const severity = cell.severity ? `, ${cell.severity}` : "";
  const words = make("span", {}, make("b", {}, label + severity + where), make("span", { class: "quiet" }, ` · ${meaning}`));
  const sign = make("span", { class: `swatch o-${cell.outcome}`, "aria-hidden": "true" }, symbol);
  const error = cell.error ? [make("pre", { class: `error${red ? "" : " calm"}` }, cell.error)] : [];
  if (cell.model_frame) error.push(make("p", { class: "quiet mono" }, `at ${cell.model_frame}`));
  if (cell.vendor) error.push(make("p", { class: "quiet mono" }, `raised at ${cell.vendor}`));
  return [make("div", { class: "state" }, sign, words), ...error];
}

// Bound used as a bar that is full at the bound.
function gauge(share) {
  const bar = make("i", {});
  bar.style.width = `${Math.min(share, 100)}%`;
  return make("span", { class: `gauge${share > 100 ? " over" : ""}`, "aria-hidden": "true" }, bar);
}

function numericsPart(cell, heads) {
  const bad = new Set(cell.bad || []);
  const head = make("tr", {}, heads.map((name) => make("th", { scope: "col" }, name)));
  const body = cell.numerics.map((row, at) =>
    make("tr", bad.has(at) ? { class: "bad-row" } : {}, row.map((text, column) =>
      make("td", {}, text, heads[column] === "Used" ? gauge(cell.used[at]) : null))));
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, body));
  const notes = (cell.notes || []).map((note) => make("li", {}, note));
  const made = part("Numerics against the float64 oracle",
    make("div", { class: "numbers", tabindex: "0", role: "region", "aria-label": "Numerics" }, table),
    notes.length ? make("ul", { class: "notes" }, notes) : null);
  made.className = "full";
  return made;
}

// The lowered program as a tree: delegated and fallback operators, and the partitioner's reasons.
function delegationPart(cell) {
  const chips = (ops, kind) => make("ul", { class: "chips" },
    ops.map(([op, number]) => make("li", { class: kind }, `${op} ×${number}`)));
  const branch = (title, ops, kind) => make("li", {}, make("span", {}, title), ops ? chips(ops, kind) : null);
  const bars = [];
  if (cell.nodes) {
    const taken = make("i", {});
    taken.style.width = `${(100 * cell.nodes[0]) / (cell.nodes[0] + cell.nodes[1])}%`;
    bars.push(make("div", { class: "nodes", "aria-hidden": "true" }, taken));
  }
  const branches = [];
  if (cell.taken) branches.push(branch(`Delegated to ${cell.target.split(":")[0]}`, cell.taken, "taken"));
  if (cell.left) branches.push(branch("Fallback", cell.left, "left"));
  if (cell.why) branches.push(make("li", {}, make("span", {}, "Reasons given by the partitioner"),
    make("ul", { class: "notes" }, cell.why.map((said) => make("li", {}, said)))));
  return part("Delegation", ...bars, cell.delegation ? make("div", { class: "said" }, cell.delegation) : null,
    branches.length ? make("ul", { class: "tree" }, branches) : null);
}

// Time of each stage, and its memory peak if it was measured.
function timesPart(cell) {
  const measured = (cell.stages || []).some(([, , , held]) => held);
  const line = (name, bar, text, held, attributes) => [make("span", attributes, name), bar, make("b", attributes, text),
    ...(measured ? [make("b", attributes, held)] : [])];
  const rows = (cell.stages || []).flatMap(([name, text, share, held]) => {
    const bar = make("i", share ? {} : { class: "none" });
    bar.style.width = `${share}%`;
    return line(name, bar, text, held, {});
  });
  if (cell.seconds) rows.push(...line(measured ? "total, peak" : "total", make("span", {}), cell.seconds, cell.memory || "", { class: "total" }));
  return part(measured ? "Time and memory" : "Time", make("div", { class: measured ? "times held" : "times" }, rows));
}

function limitationPart(cell) {
  const link = cell.href ? make("a", { href: cell.href, rel: "noreferrer" }, cell.href) : cell.link || null;
  const made = part("Limitation", make("div", {}, cell.reason), link);
  made.className = "full";
  return made;
}

// The tensors whose quantization costs most.
function qualityPart(cell) {
  const [head, ...rows] = cell.quality_rows || [[]];
  const line = (cells, tag) => make("tr", {}, cells.map((text) => make(tag, tag === "th" ? { scope: "col" } : {}, text)));
  const table = rows.length ? make("div", { class: "numbers", tabindex: "0", role: "region", "aria-label": "Quality" },
    make("table", {}, make("thead", {}, line(head, "th")), make("tbody", {}, rows.map((row) => line(row, "td"))))) : null;
  const made = part("Where the quality goes", make("p", {}, cell.quality), cell.quality_search ? make("p", {}, cell.quality_search) : null, table);
  made.className = "full";
  return made;
}

function divergencePart(cell) {
  return part(cell.fails ? "Failing node" : "First diverging node", make("div", { class: "mono" }, cell.diverges));
}

function defectsPart(cell) {
  return part("Known defects", make("ul", { class: "mono" }, cell.defects.map((line) => make("li", {}, line))));
}

// A link to the files if the page is in the run folder, else the path of their folder.
function keptPart(cell, folder) {
  const files = make("p", { class: "mono" }, folder === "" ? make("a", { href: `${cell.saved_to}/` }, cell.saved_to) : `${folder}/${cell.saved_to}`);
  return part("Files", files, make("p", { class: "quiet" }, "Program, inputs, actual and expected outputs, bounds, and a bundled program for ExecuTorch's runners, as far as the cell got."));
}

function issuePart(issue) {
  const made = make("details", { class: "issue full" }, make("summary", {}, "Text for an issue"),
    make("div", {}, make("pre", { class: "issue-text", tabindex: "0" }, issue),
      make("button", { type: "button", class: "small copy" }, "Copy")));
  return made;
}

function aboutPart(cell) {
  const source = cell.source_href ? make("a", { href: cell.source_href, rel: "noreferrer" }, cell.source) : cell.source;
  const pairs = [["Runtime", cell.runtime], ["Evidence", cell.evidence], ["Quality", cell.quality], ["Metrics", cell.metrics], ["Program", cell.size], ["Call time", cell.calls], ["Sizes", cell.sizes], ["Op", cell.op], ["Suite", cell.suite],
    ["Case", source], ["Tags", cell.tags], ["Worker", cell.worker],
    ["Result from", cell.from], ["Earlier attempts", cell.attempts]];
  return part("Cell", make("dl", { class: "about" }, pairs.filter(([, value]) => value)
    .map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]).flat()));
}

function cellBody(cell, texts, heads, folder = "") {
  const made = make("div", { class: "parts" });
  if (cell.reason) made.append(limitationPart(cell));
  if (cell.known_issues) made.append(part("Known issues with these symptoms", make("ul", { class: "notes" }, cell.known_issues.map((line) => make("li", {}, line)))));
  if (cell.defects) made.append(defectsPart(cell));
  if (cell.numerics) made.append(numericsPart(cell, heads));
  if (cell.quality_rows || cell.quality_search) made.append(qualityPart(cell));
  if (cell.diverges) made.append(divergencePart(cell));
  if (cell.delegation || cell.taken || cell.left) made.append(delegationPart(cell));
  if (cell.stages || cell.seconds) made.append(timesPart(cell));
  made.append(aboutPart(cell));
  if (cell.saved_to) made.append(keptPart(cell, folder));
  if (cell.traceback !== undefined) {
    const trace = part("Traceback", make("pre", { class: "trace", tabindex: "0" }, texts[cell.traceback]));
    trace.className = "full";
    made.append(trace);
  }
  if (cell.issue !== undefined) made.append(issuePart(texts[cell.issue]));
  return made;
}

// The error is at the end of a traceback.
function toEnd(root) {
  for (const trace of all(".trace", root)) trace.scrollTop = trace.scrollHeight;
}
