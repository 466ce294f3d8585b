// Formats values as reports/text.py does; a test compares the two.
const DASH = "–";
const LOCALE = "en-US";

function count(number, noun, plural) {
  return `${number.toLocaleString(LOCALE)} ${number === 1 ? noun : plural || `${noun}s`}`;
}

function nonfinite(value) {
  if (Number.isNaN(value)) return "NaN";
  if (Number.isFinite(value)) return "";
  return value > 0 ? "∞" : "−∞";
}

// Python rounds a tie to the even digit and JavaScript away from zero, so correct an odd digit.
function even(rounded, exact) {
  const beyond = exact.replace(/e.*/, "").slice(rounded.replace(/e.*/, "").length).replace(".", "");
  const last = Number(rounded.replace(/e.*/, "").slice(-1));
  return /^50*$/.test(beyond) && last % 2 ? rounded.replace(/\d(?=e|$)/, String(last - 1)) : rounded;
}

function fixed(value, digits) {
  return even(value.toFixed(digits), value.toFixed(digits + 30));
}

// C's %g: significant digits, no trailing zeros, an exponent of two digits for very large or small values.
function general(value, digits) {
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const [mantissa, exponent] = even(value.toExponential(digits - 1), value.toExponential(digits + 30)).split("e");
  const power = Number(exponent);
  const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (power >= -4 && power < digits) return trim(fixed(value, digits - 1 - power));
  return `${trim(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

function decibels(value) {
  return value === null ? DASH : `${nonfinite(value) || fixed(value, 1)} dB`;
}

function boundUse(value) {
  if (value === null) return DASH;
  if (Number.isFinite(value) && value > 1) {
    const digits = value < 100 ? 2 : 0;
    const up = Math.ceil(value * 10 ** digits) / 10 ** digits;
    if (up >= 1e6) return `${general(up, 2)}× bound`;
    return `${up.toLocaleString(LOCALE, { minimumFractionDigits: digits, maximumFractionDigits: digits })}× bound`;
  }
  return `${nonfinite(value) || general(value, 2)}× bound`;
}

function seconds(value) {
  if (!Number.isFinite(value)) return `${nonfinite(value)} s`;
  if (value <= 0) return "0 s";
  if (value < 1e-3) return `${fixed(value * 1e6, 0)} µs`;
  if (value < 0.9995) return value < 0.0995 ? `${general(value * 1e3, 3)} ms` : `${fixed(value * 1e3, 0)} ms`;
  if (value < 59.95) return `${fixed(value, 1)} s`;
  if (value >= 365 * 86400) return `${general(value / 3600, 2)} h`; // a year
  const whole = Number(fixed(value, 0));
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours ? `${hours} h ${String(minutes).padStart(2, "0")} min`
    : `${minutes} min ${String(whole % 60).padStart(2, "0")} s`;
}
