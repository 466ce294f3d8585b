"use strict";
// Runs before the first paint, so that a chosen theme does not flash.
try {
  const chosen = localStorage.getItem("conform-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // This browser has no storage for pages opened from disk: use the system's theme.
}
