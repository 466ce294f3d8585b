// Small charts as SVG; each has a title, a description and a table with the same values.
const SVG = "http://www.w3.org/2000/svg";

function draw(tag, attributes, ...children) {
  return place(document.createElementNS(SVG, tag), attributes, children);
}

// Round tick values from low to high: the largest step that gives three; integers only for counts.
function ticks(low, high, whole = false) {
  for (let power = 10 ** Math.ceil(Math.log10(high - low || 1)); ; power /= 10) {
    for (const factor of [1, 0.5, 0.2]) {
      const step = whole ? Math.max(1, power * factor) : power * factor;
      const made = [];
      for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) made.push(Number(at.toPrecision(12)));
      if (made.length >= 3 || step <= 1e-300 || (whole && step === 1)) return made;
    }
  }
}

// The same for powers of ten; with values in between where these are too few.
function logTicks(low, high) {
  const decades = (factors) => {
    const made = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      made.push(...factors.map((factor) => factor * 10 ** power).filter((value) => value >= low && value <= high));
    }
    return made;
  };
  const found = [[1], [1, 3], [1, 2, 5]].map(decades).find((made) => made.length >= 3) || ticks(low, high);
  const every = Math.ceil(found.length / 6);
  return found.filter((_, at) => at % every === 0);
}

function chart({ title, desc, head, rows, height = 170, paint, key = null }) {
  const box = make("div", { class: "plot" });
  const fallback = make("details", { class: "fallback" }, make("summary", {}, "As a table"),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, make("table", { class: "list" },
      make("thead", {}, make("tr", {}, head.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, rows().map((row) => make("tr", {}, row.map((text) => make("td", {}, text))))))));
  let drawn = 0;
  const redraw = () => {
    const width = Math.round(box.clientWidth);
    if (!width || width === drawn) return;
    drawn = width;
    box.replaceChildren(draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${title}. ${desc}` },
      draw("title", {}, title), draw("desc", {}, desc), paint(width, height)));
  };
  new ResizeObserver(redraw).observe(box);
  return make("figure", { class: "chart" }, make("figcaption", {}, make("b", {}, title), make("span", { class: "quiet" }, ` ${desc}`)), box, key, fallback);
}

function scale({ low, high, width, height, format, log = false, whole = false }) {
  const left = 62;
  const top = 12;
  const bottom = height - 22;
  const of = log ? Math.log10 : (value) => value;
  const y = (value) => bottom - ((of(value) - of(low)) / (of(high) - of(low) || 1)) * (bottom - top);
  const lines = (log ? logTicks(low, high) : ticks(low, high, whole)).flatMap((value) => [
    draw("line", { class: "rule", x1: left, x2: width - 4, y1: y(value), y2: y(value) }),
    draw("text", { class: "tick", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)),
  ]);
  return { left, right: width - 14, top, bottom, y, lines };
}

// Labels at both ends, and as many in between as fit.
function alongX(labels, x, height) {
  const last = labels.length - 1;
  const text = (at, anchor) => draw("text", { class: "tick", x: x(at), y: height - 4, "text-anchor": anchor }, labels[at]);
  if (!last) return [text(0, "middle")];
  // Labels at the ends are aligned inwards and need half a label more room.
  const room = 1.5 * 7 * Math.max(...labels.map((label) => label.length)) + 12;
  const step = Math.ceil(last / Math.max(1, Math.floor((x(last) - x(0)) / room)));
  const made = [text(0, "start"), text(last, "end")];
  for (let at = step; x(last) - x(at) >= room; at += step) made.push(text(at, "middle"));
  return made;
}

// Points in time order, joined where consecutive. A value that is not finite is a ring at the edge;
// a missing value is a gap.
function lineChart({ title, desc, labels, axis, values, format, tick = format, zero = false, limit = null, top = null, log = false, whole = false }) {
  const finite = values.filter((value) => value !== null && Number.isFinite(value));
  if (limit !== null) finite.push(limit);
  if (top !== null) finite.push(top);
  let low = zero ? 0 : Math.min(...finite);
  let high = Math.max(...finite, zero ? 0 : -Infinity);
  if (!finite.length) [low, high] = [0, 1];
  if (log) {
    // A logarithmic axis has no zero: it is drawn at the lower edge, as values that are not finite are.
    const above = finite.filter((value) => value > 0);
    [low, high] = above.length ? [Math.min(...above) / 2, Math.max(...above) * 2] : [0.1, 10];
  } else if (!zero) { const room = (high - low) * 0.12 || Math.abs(high) * 0.05 || 1; low = low >= 0 ? Math.max(low - room, 0) : low - room; high += room; }
  if (high === low) high = low + 1;
  // Infinite values are drawn at the edge, apart from the largest finite one.
  if (finite.length && values.some((value) => value === Infinity)) high = log ? high * 4 : high + (high - low) * 0.2;
  const hasPlace = (value) => Number.isFinite(value) && !(log && value <= 0);
  const paint = (width, height) => {
    const { left, right, top: upper, bottom, y, lines } = scale({ low, high, width, height, format: tick, log, whole });
    const x = (at) => (values.length === 1 ? (left + right) / 2 : left + 6 + (at / (values.length - 1)) * (right - left - 6));
    const place = (value) => (hasPlace(value) ? y(value) : value > 0 ? upper : bottom);
    const made = finite.length ? [...lines] : [];
    for (const [edge, value] of [[upper, Infinity], [bottom, -Infinity], [bottom, NaN], ...(log ? [[bottom, 0]] : [])]) {
      if (values.some((item) => Object.is(item, value))) made.push(draw("text", { class: "tick", x: left - 8, y: edge + 4, "text-anchor": "end" }, format(value)));
    }
    if (limit !== null) made.push(draw("line", { class: "limit", x1: left, x2: right, y1: y(limit), y2: y(limit) }));
    let path = "";
    let open = false;
    values.forEach((value, at) => {
      if (value === null) { open = false; return; }
      path += `${open ? "L" : "M"}${x(at).toFixed(1)} ${place(value).toFixed(1)}`;
      open = true;
    });
    if (path) made.push(draw("path", { class: "line", d: path }));
    values.forEach((value, at) => {
      if (value === null) return;
      const dot = { class: hasPlace(value) ? "dot" : `ring${Number.isNaN(value) ? " lost" : ""}`, cx: x(at), cy: place(value), r: values.length > 40 ? 2 : 3 };
      made.push(draw("circle", dot, draw("title", {}, `${labels[at]}: ${format(value)}`)));
    });
    return [...made, ...alongX(axis, x, height)];
  };
  const rows = () => values.map((value, at) => [labels[at], value === null ? DASH : format(value)]).reverse();
  return chart({ title, desc, head: ["Run", title], rows, paint });
}

// A column per run, stacked by outcome; its height is the number of cells.
function columnChart({ title, desc, labels, axis, stacks, parts, height = 220 }) {
  const totals = stacks.map((stack) => stack.reduce((sum, number) => sum + number, 0));
  const paint = (width, tall) => {
    const { left, right, bottom, y, lines } = scale({ low: 0, high: Math.max(...totals, 2) * 1.06, width, height: tall, format: (value) => value.toLocaleString(LOCALE), whole: true });
    const pitch = Math.min((right - left) / stacks.length, 110);
    const wide = Math.max(pitch * 0.72, 1.5);
    const x = (at) => left + 8 + at * pitch;
    const made = [...lines];
    stacks.forEach((stack, at) => {
      const column = draw("g", {}, draw("title", {}, `${labels[at]}: ${parts.filter((_, part) => stack[part]).map((part) => `${stack[parts.indexOf(part)].toLocaleString(LOCALE)} ${part.label}`).join(", ")}`));
      let from = bottom;
      let red = 0;
      parts.forEach((part, index) => {
        if (!stack[index]) return;
        if (part.red) red += stack[index];
        const tallness = Math.max(bottom - y(stack[index]), part.red ? 3 : 0.75);
        column.append(draw("rect", { class: `f-${part.value}`, x: x(at), width: wide, y: from - tallness, height: tallness }));
        from -= tallness;
      });
      if (red && pitch > 22) column.append(draw("text", { class: "hot", x: x(at) + wide / 2, y: Math.max(from - 4, 10), "text-anchor": "middle" }, `✕${red.toLocaleString(LOCALE)}`));
      made.push(column);
    });
    const middle = (at) => x(at) + (at ? (at < stacks.length - 1 ? wide / 2 : wide) : 0);
    return [...made, ...(stacks.length > 3 || pitch > 50 ? alongX(axis, middle, tall) : [])];
  };
  const used = parts.filter((_, at) => stacks.some((stack) => stack[at]));
  const key = make("ul", { class: "legend key" }, used.map((part) => make("li", { title: part.meaning }, swatch(part), part.label)));
  const rows = () => stacks.map((stack, at) => [labels[at], ...used.map((part) => stack[parts.indexOf(part)].toLocaleString(LOCALE))]).reverse();
  return chart({ title, desc, head: ["Run", ...used.map((part) => part.label)], rows, paint, height, key });
}
