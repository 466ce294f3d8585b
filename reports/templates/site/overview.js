// Draws the charts of the overview; its text is in the page.
let overviewDrawn = false;

views[""] = async () => {
  const main = await mainData();
  if (!overviewDrawn && main.runs.length > 1) {
    overviewDrawn = true;
    const runs = [...main.runs].reverse();
    const labels = runs.map((run) => run.key);
    const axis = daysOf(runs);
    document.getElementById("trend").append(
      columnChart({ title: "Cells by outcome", desc: "one column per run, oldest first; the number above counts red cells", labels, axis,
        stacks: runs.map((run) => run.counts), parts: main.outcomes }),
      make("div", { class: "pair-of-charts" },
        lineChart({ title: "Red cells", desc: "cells that make the run fail", labels, axis, values: runs.map((run) => run.red),
          format: (value) => value.toLocaleString(LOCALE), zero: true, top: 2, whole: true }),
        lineChart({ title: "Pass rate", desc: "passed / rated in %; cells that did not run count as rated", labels, axis,
          values: runs.map((run) => (run.rate === null ? null : 100 * run.rate)), format: (value) => `${general(value, 4)} %` })));
    for (const [name, , rated, unsupported] of main.runs[0].backends) {
      const values = runs.map((run) => {
        const [, passed, of] = run.backends.find(([other]) => other === name) || [];
        return of && passed !== null ? (100 * passed) / of : null;
      });
      if (values.every((value) => value === null)) continue;
      document.getElementById("scores").append(lineChart({ title: name, desc: `${rated.toLocaleString(LOCALE)} rated, ${unsupported.toLocaleString(LOCALE)} unsupported in the newest run`,
        labels, axis, values, format: (value) => `${general(value, 4)} %` }));
    }
  }
  return { title: main.runs[0].headline, nodes: [] };
};

// Without scripts the list of runs is shown in full.
const older = document.getElementById("older");
if (older) {
  const rows = all("#runs .older");
  for (const row of rows) row.hidden = true;
  older.hidden = false;
  older.addEventListener("click", () => {
    for (const row of rows) row.hidden = false;
    older.hidden = true;
  });
}
