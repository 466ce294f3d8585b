// A table of any length: the document has only the visible rows. Arrow keys move between squares.
const ROW = 30;

// columns: names of targets, "backend:recipe"; rows are drawn by draw(row) as [head, squares].
function makeGrid({ label, columns, corner, drawRow, toggle }) {
  const groups = [];
  for (const name of columns) {
    const [backend, recipe] = [name.split(":")[0], name.slice(name.indexOf(":") + 1)];
    if (!groups.length || groups[groups.length - 1].backend !== backend) groups.push({ backend, recipes: [] });
    groups[groups.length - 1].recipes.push(recipe);
  }
  const firsts = new Set();
  let at = 0;
  for (const group of groups) { firsts.add(at); at += group.recipes.length; }
  const head = make("thead", {},
    make("tr", { role: "row", "aria-rowindex": "1" }, make("th", { rowspan: "2", scope: "col", class: "name" }, corner),
      groups.map((group) => make("th", { colspan: String(group.recipes.length), scope: "colgroup", class: "backend first" }, group.backend))),
    make("tr", { role: "row", "aria-rowindex": "2" }, groups.flatMap((group) => group.recipes.map((recipe, place) =>
      make("th", { scope: "col", class: `recipe${place ? "" : " first"}` }, make("span", {}, recipe))))));
  const body = make("tbody", {});
  const table = make("table", { role: "grid", "aria-label": label, "aria-colcount": String(columns.length + 1) }, head, body);
  const node = make("div", { class: "grid virtual" }, table);
  let rows = [];
  let active = { row: 0, column: 0 };
  let shown = [0, 0];

  function spacer(number) {
    const row = make("tr", { class: "space", "aria-hidden": "true" }, make("td", { colspan: String(columns.length + 1) }));
    row.style.height = `${number * ROW}px`;
    return row;
  }

  function build(index) {
    const [title, squares] = drawRow(rows[index]);
    const tr = make("tr", { class: rows[index].group ? "group" : "case", "aria-rowindex": String(index + 3) }, title,
      squares.map((square, column) => make("td", { class: firsts.has(column) ? "first" : null }, square)));
    tr.dataset.row = index;
    for (const item of all("button, a", tr)) item.tabIndex = -1;
    const focal = focalOf(tr, active.column);
    if (index === active.row && focal) focal.tabIndex = 0;
    return tr;
  }

  function focalOf(tr, column) {
    return tr.cells[column] ? one("button, a", tr.cells[column]) : null;
  }

  function render(force) {
    const from = Math.max(0, Math.floor(node.scrollTop / ROW) - 8);
    const to = Math.min(rows.length, from + Math.ceil(node.clientHeight / ROW) + 16);
    if (!force && from === shown[0] && to === shown[1]) return;
    const held = body.contains(document.activeElement);
    shown = [from, to];
    const made = [spacer(from)];
    for (let index = from; index < to; index += 1) made.push(build(index));
    made.push(spacer(rows.length - to));
    body.replaceChildren(...made);
    if (held) (focalAt(active) || node).focus({ preventScroll: true });
  }

  function focalAt({ row, column }) {
    const tr = one(`tr[data-row="${row}"]`, body);
    return tr && focalOf(tr, column);
  }

  // Scroll a row into view, below the head and beside the names.
  function reveal(row) {
    const top = row * ROW;
    const room = node.clientHeight - head.offsetHeight;
    if (top < node.scrollTop) node.scrollTop = top;
    else if (top + ROW > node.scrollTop + room) node.scrollTop = top + ROW - room;
  }

  function focus(next) {
    active = next;
    reveal(next.row);
    render(true);
    const item = focalAt(next);
    if (!item) return;
    item.focus({ preventScroll: true });
    const edge = item.getBoundingClientRect();
    const box = node.getBoundingClientRect();
    const names = next.column ? one("th.name", head).offsetWidth : 0;
    if (edge.right > box.right) node.scrollLeft += edge.right - box.right + 8;
    else if (edge.left < box.left + names) node.scrollLeft -= box.left + names - edge.left + 8;
  }

  const has = ({ row, column }) => {
    if (!rows[row] || column < 0 || column > columns.length) return false;
    return column === 0 ? Boolean(rows[row].group) : Boolean(drawRow(rows[row])[1][column - 1]);
  };

  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
    PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -Infinity], End: [0, Infinity] };

  function step(key, wide) {
    const [down, right] = steps[key];
    const next = { ...active };
    if (wide && !Number.isFinite(right)) next.row = right < 0 ? 0 : rows.length - 1;
    else if (!Number.isFinite(right)) next.column = right < 0 ? 0 : columns.length;
    else { next.row += down; next.column += right; }
    next.row = Math.min(Math.max(next.row, 0), rows.length - 1);
    // Skip missing squares: backwards from an end, forwards otherwise.
    const [y, x] = Number.isFinite(right) ? [Math.sign(down), Math.sign(right)] : [wide ? -Math.sign(right) : 0, wide ? 0 : -Math.sign(right)];
    while (rows[next.row] && next.column >= 0 && next.column <= columns.length) {
      if (has(next)) return next;
      next.row += y;
      next.column += x;
    }
    return null;
  }

  node.addEventListener("scroll", () => requestAnimationFrame(() => render(false)));
  node.addEventListener("settle", () => render(true));
  node.addEventListener("keydown", (event) => {
    if (!steps[event.key] || !event.target.closest("[data-row]") || event.altKey || event.metaKey) return;
    event.preventDefault();
    const next = step(event.key, event.ctrlKey);
    if (next) focus(next);
  });
  node.addEventListener("focusin", (event) => {
    const tr = event.target.closest("[data-row]");
    if (!tr) return;
    const before = focalAt(active);
    if (before) before.tabIndex = -1;
    active = { row: Number(tr.dataset.row), column: event.target.closest("th, td").cellIndex };
    event.target.tabIndex = 0;
  });
  node.addEventListener("click", (event) => {
    const tr = event.target.closest("tr.group");
    if (tr && event.target.closest("button")) toggle(rows[Number(tr.dataset.row)]);
  });
  new ResizeObserver(() => render(false)).observe(node);

  return {
    node,
    set(next) {
      rows = next;
      table.setAttribute("aria-rowcount", String(rows.length + 2));
      active.row = Math.min(active.row, Math.max(rows.length - 1, 0));
      if (rows.length && !has(active)) active = { row: active.row, column: rows[active.row].group ? 0 : 1 };
      while (rows.length && !has(active) && active.column < columns.length) active.column += 1;
      // The second row of the head sticks below the first, whose height depends on the font.
      const [upper] = all(".backend", head);
      if (upper) node.style.setProperty("--upper", `${upper.getBoundingClientRect().height}px`);
      node.style.height = `min(86vh, ${rows.length * ROW + 172}px)`;
      render(true);
    },
  };
}
