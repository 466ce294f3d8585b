// Shows the data in the page. Sets text nodes only, never markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { cells } = data;
  // Cell details in a dialog, addressed by the hash.
  const dialog = document.getElementById("detail");

  function show(cell) {
    const close = make("button", { type: "button", class: "small close" }, "Close");
    close.addEventListener("click", () => dialog.close());
    dialog.replaceChildren(make("h2", { id: "detail-title" }, cell.id), close,
      ...cellState(cell, data.outcomes[cell.outcome]),
      cellBody(cell, data.texts, data.numerics), repro(cell.repro));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    toEnd(dialog);
  }
  dialog.addEventListener("close", () => { state.cell = ""; write(); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  // Filters are in the hash, so that a link keeps them.
  const state = { q: "", target: new Set(), status: new Set(), cell: "" };
  const search = document.getElementById("search");
  const byId = new Map(cells.map((cell) => [cell.id, cell]));
  const haystack = cells.map((cell) =>
    [cell.id, cell.op, cell.suite, cell.tags, cell.error, cell.reason, cell.stage, cell.severity].join(" ").toLowerCase());

  function read() {
    const given = new URLSearchParams(location.hash.slice(1));
    const words = (key) => new Set((given.get(key) || "").split(",").filter(Boolean));
    state.q = given.get("q") || "";
    state.target = words("target");
    state.status = words("status");
    state.cell = given.get("cell") || "";
  }

  function write() {
    const given = new URLSearchParams();
    if (state.q) given.set("q", state.q);
    if (state.target.size) given.set("target", [...state.target].join(","));
    if (state.status.size) given.set("status", [...state.status].join(","));
    if (state.cell) given.set("cell", state.cell);
    const hash = given.toString();
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  }

  const recipes = all("#matrix .recipe");
  const columns = recipes.length;
  const bodies = all("#matrix tbody").map((node) => ({
    node,
    toggle: one(".group .name button", node),
    tiles: all(".group td", node).map((cell) => one(".sq", cell)),
    rows: all(".case", node).map((row) => ({ row, squares: all(".sq", row) })),
  }));

  function expand(group, open) {
    group.node.classList.toggle("closed", !open);
    group.toggle.setAttribute("aria-expanded", String(open));
  }

  // If targets are selected, the table has only their columns.
  function pick() {
    const shown = recipes.map((head) => !state.target.size
      || head.dataset.targets.split(" ").some((target) => state.target.has(target)));
    recipes.forEach((head, at) => { head.hidden = !shown[at]; });
    let at = 0;
    for (const head of all("#matrix .backend")) {
      head.dataset.span ||= head.colSpan;
      const number = shown.slice(at, (at += Number(head.dataset.span))).filter(Boolean).length;
      head.hidden = !number;
      head.colSpan = number || 1;
    }
    for (const place of all("#matrix td")) place.hidden = !shown[place.cellIndex - 1];
  }

  function apply() {
    pick();
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = cells.map((cell, at) =>
      (!state.target.size || state.target.has(cell.target)) &&
      (!state.status.size || state.status.has(cell.outcome)) &&
      words.every((word) => haystack[at].includes(word)));
    const active = words.length > 0 || state.target.size > 0 || state.status.size > 0;
    const narrow = words.length > 0 || state.status.size > 0;
    for (const group of bodies) {
      const hit = new Array(columns).fill(false);
      let any = false;
      for (const { row, squares } of group.rows) {
        let here = false;
        for (const square of squares) {
          const match = matches[square.dataset.at];
          square.classList.toggle("off", !match);
          if (match) { here = true; hit[square.parentNode.cellIndex - 1] = true; }
        }
        row.hidden = !here;
        any ||= here;
      }
      group.node.hidden = !any;
      group.tiles.forEach((tile, at) => tile && tile.classList.toggle("off", !hit[at]));
      if (narrow !== group.narrow) expand(group, narrow);
      group.narrow = narrow;
    }
    for (const node of all("#failing [data-at]")) (node.closest("li") || node).hidden = !matches[node.dataset.at];
    for (const cause of all(".cause")) {
      cause.hidden = !all("[data-at]", cause).some((node) => matches[node.dataset.at]);
      const others = one(".others", cause);
      if (!others) continue;
      const left = all("[data-at]", others).filter((node) => matches[node.dataset.at]).length;
      others.hidden = !left;
      one("summary", others).textContent = `${one(".card", cause) ? "and " : ""}${left} more ${left === 1 ? "cell" : "cells"}`;
    }
    const none = document.getElementById("no-red");
    if (none) none.hidden = all(".cause").some((cause) => !cause.hidden);
    if (!search) return;
    const number = matches.filter(Boolean).length;
    document.getElementById("matching").textContent = active
      ? `${number.toLocaleString("en")} of ${cells.length.toLocaleString("en")} cells match` : "";
    document.getElementById("clear").hidden = !active;
    document.getElementById("nothing").hidden = number > 0;
    if (search.value !== state.q) search.value = state.q;
    for (const menu of all(".menu")) {
      const chosen = state[menu.dataset.key];
      for (const input of all("input", menu)) input.checked = chosen.has(input.value);
      one("b", menu).textContent = chosen.size ? String(chosen.size) : "";
    }
  }

  function follow() {
    read();
    apply();
    const cell = byId.get(state.cell);
    if (cell) show(cell);
    else if (dialog.open) dialog.close();
  }

  document.addEventListener("click", (event) => {
    const { target } = event;
    const link = target.closest('a[href^="#"]');
    if (link) {
      // A jump must not replace the filters in the hash; a filter scrolls to its result.
      const jump = link.closest(".jumps");
      const place = jump ? one(link.getAttribute("href")) : one(".toolbar");
      if (jump) event.preventDefault();
      setTimeout(() => place.scrollIntoView(), 0);
    }
    const opener = target.closest("button[data-at]");
    if (opener) {
      state.cell = cells[opener.dataset.at].id;
      write();
      show(cells[opener.dataset.at]);
    }
    const row = target.closest(".group");
    if (row && target.closest("button")) {
      const group = bodies.find((item) => item.node === row.parentNode);
      expand(group, group.node.classList.contains("closed"));
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && search && !event.target.matches("input") && !dialog.open) {
      event.preventDefault();
      search.focus();
    }
    // Arrow keys move between the squares, skipping folded rows.
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const step = steps[event.key];
    if (!step || !event.target.matches(".sq")) return;
    event.preventDefault();
    const rows = all("#matrix tbody tr").filter((row) => row.offsetParent);
    let x = event.target.parentNode.cellIndex;
    let y = rows.indexOf(event.target.closest("tr"));
    for (;;) {
      y += step[0];
      x += step[1];
      const place = rows[y] && rows[y].cells[x];
      if (!place || x < 1) return;
      const square = one(".sq", place);
      if (square) return square.focus();
    }
  });

  if (search) {
    search.addEventListener("input", () => { state.q = search.value.trim(); write(); apply(); });
    document.getElementById("clear").addEventListener("click", () => {
      state.q = "";
      state.target.clear();
      state.status.clear();
      write();
      apply();
      search.focus();
    });
    for (const menu of all(".menu")) {
      menu.addEventListener("change", (event) => {
        const chosen = state[menu.dataset.key];
        if (event.target.checked) chosen.add(event.target.value);
        else chosen.delete(event.target.value);
        write();
        apply();
      });
    }
    const button = document.getElementById("expand");
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(open));
      button.textContent = open ? "Collapse all" : "Expand all";
      for (const group of bodies) expand(group, open);
    });
  }

  for (const square of all("#matrix .sq[data-at]")) {
    const cell = cells[square.dataset.at];
    square.title = `${cell.id}: ${data.outcomes[cell.outcome][1]}${cell.severity ? `, ${cell.severity}` : ""}`;
    square.setAttribute("aria-label", square.title);
  }
  for (const card of all(".card")) one(".body", card).append(cellBody(cells[card.dataset.at], data.texts, data.numerics));
  toEnd(document);
  addEventListener("hashchange", follow);
  follow();
})();
