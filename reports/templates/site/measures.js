// The rules of reports/comparison/diff/measures.py: numbers of a cell that got worse. A test compares
// the two, so change a rule in both.
const NOTHING_TAKEN = [0, 0, 0, [], []];

function falls(before, after) {
  const now = new Map(after);
  return before.map(([op, calls]) => [op, calls - (now.get(op) || 0)]).filter(([, calls]) => calls > 0);
}

function totalCalls(pairs) {
  return pairs.reduce((sum, [, number]) => sum + number, 0);
}

function* delegationWorse(before, after, limits) {
  const [delegates, , , taken, left] = before;
  const [nowDelegates, , , nowTaken, nowLeft] = after;
  const fallen = falls(taken, nowTaken);
  const over = falls(nowLeft, left);
  const nothing = delegates > 0 && nowDelegates === 0;
  if ((fallen.length && over.length) || nothing) {
    const number = totalCalls(fallen);
    if (number >= limits.ops_lost || nothing) {
      let detail = fallen.length ? `no longer delegated: ${calls(fallen)}` : "";
      if (over.length) detail += `${detail ? "; " : ""}fallback now: ${calls(over)}`;
      if (nothing) detail = detail ? `nothing is delegated now; ${detail}` : "nothing is delegated now";
      yield { kind: "delegation-lost", detail, amount: number };
    }
  }
  const more = nowDelegates - delegates;
  if (delegates && more >= Math.max(1, limits.delegates_up)) {
    yield { kind: "delegates-up", detail: `${delegates.toLocaleString(LOCALE)} → ${count(nowDelegates, "delegate")}`, amount: more };
  }
}

function* sizeWorse(kind, before, after, least, leastPercent) {
  if (before <= 0 || after <= before || after - before < least) return;
  const share = (100 * (after - before)) / before;
  if (share >= leastPercent) yield { kind, detail: `${size(before)} → ${size(after)} (+${fixed(share, 1)} %)`, amount: share };
}

const whichOutput = ([call, output]) => `output ${output} of call ${call}`;

function fall(kind, output, before, after, drop, limit) {
  if (!(drop > 0) || drop < limit) return null;
  const by = Number.isFinite(drop) && Number.isFinite(before - after) ? ` (−${fixed(drop, 1)} dB)` : "";
  return { kind, detail: `SQNR ${decibels(before)} → ${decibels(after)}${by}, ${whichOutput(output)}`, amount: drop };
}

// Two equal infinities differ by NaN.
const dropOf = (before, after) => (before === after ? 0 : before - after);

function sqnrWorse(old, now, limits) {
  const [a, b] = [float(old[2]), float(now[2])];
  if (Number.isNaN(a)) return null;
  const drop = Number.isNaN(b) ? Infinity : dropOf(Math.min(a, limits.sqnr_ceiling_db), Math.min(b, limits.sqnr_ceiling_db));
  return fall("numerics-worse", now, a, b, drop, limits.sqnr_drop_db);
}

function boundWorse(old, now, limits) {
  const [a, b] = [float(old[3]), float(now[3])];
  if (Number.isNaN(a)) return null;
  const rise = Number.isNaN(b) ? Infinity : -dropOf(a, b);
  if (!(rise > 0) || rise < limits.bound_used_up) return null;
  return { kind: "bound-up", detail: `error uses ${boundUse(a)} → ${boundUse(b)}, ${whichOutput(now)}`, amount: rise };
}

function qualityWorse(old, now, limits) {
  const a = float(old[4]);
  if (a === null || Number.isNaN(a)) return null;
  const b = now[4] === null ? NaN : float(now[4]);
  const drop = Number.isNaN(b) ? Infinity : dropOf(Math.min(a, limits.sqnr_ceiling_db), Math.min(b, limits.sqnr_ceiling_db));
  return fall("quality-worse", now, a, b, drop, limits.quality_drop_db);
}

function* numericsWorse(before, after, limits) {
  const key = ([call, output]) => `${call} ${output}`;
  const now = new Map(after.map((item) => [key(item), item]));
  const gone = before.filter((item) => !now.has(key(item))).sort(([a, x], [b, y]) => a - b || x - y);
  if (gone.length) {
    yield { kind: "numerics-worse", amount: Infinity,
      detail: `${before.length.toLocaleString(LOCALE)} → ${count(after.length, "output")} compared; missing now: ${whichOutput(gone[0])}` };
  }
  for (const rule of [sqnrWorse, boundWorse, qualityWorse]) {
    let worst = null;
    for (const item of before) {
      const other = now.get(key(item));
      const found = other && rule(item, other, limits);
      if (found && (!worst || found.amount > worst.amount)) worst = found;
    }
    if (worst) yield worst;
  }
}

function* timeWorse(before, after, limits) {
  if (!Number.isFinite(before) || !Number.isFinite(after) || before <= 0) return;
  if (after / before >= limits.time_factor && after - before >= limits.time_up_seconds && after > before) {
    yield { kind: "time-up", detail: `${seconds(before)} → ${seconds(after)} (${fixed(after / before, 1)}×)`, amount: after / before };
  }
}

function* severityWorse(before, after, severities) {
  if (before && after > before) yield { kind: "more-severe", detail: `${severities[before]} → ${severities[after]}`, amount: after - before };
}

// before and after: { share, bytes, planned, outputs, runtime, lowered, executed, seconds, severity }.
function* measuresOf(before, after, limits, timed, severities) {
  if (before.lowered && after.lowered) yield* delegationWorse(before.share, after.share, limits);
  yield* sizeWorse("bytes-up", before.bytes, after.bytes, limits.bytes_up, limits.bytes_up_percent);
  yield* sizeWorse("planned-memory-up", before.planned, after.planned, limits.planned_memory_up, limits.planned_memory_up_percent);
  yield* severityWorse(before.severity, after.severity, severities);
  if (!before.executed || !after.executed) return;
  yield* numericsWorse(before.outputs, after.outputs, limits);
  if (timed && before.seconds !== null && after.seconds !== null) yield* timeWorse(before.seconds, after.seconds, limits);
  if (before.runtime !== after.runtime) yield { kind: "runtime-changed", detail: `${before.runtime} → ${after.runtime}`, amount: 0 };
}
