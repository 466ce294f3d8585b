"use strict";
// Runs before the first paint, so that a chosen theme does not flash.
try {
  const chosen = localStorage.getItem("conform-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage for pages from disk in this browser: the system's theme it is.
}
