// Keys, theme and the first view.
const THEMES = ["auto", "light", "dark"];
const THEME_SIGNS = { auto: "◐", light: "☀", dark: "☾" };

function showTheme() {
  const theme = document.documentElement.dataset.theme || "auto";
  const button = document.getElementById("theme");
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  button.hidden = false;
  button.replaceChildren(make("span", { "aria-hidden": "true" }, THEME_SIGNS[theme]), make("span", { class: "word" }, ` ${theme}`));
  button.setAttribute("aria-label", `Theme: ${theme}. Switch to ${next}`);
  button.title = `Theme: ${theme}`;
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme || "auto") + 1) % THEMES.length];
  if (next === "auto") delete root.dataset.theme; else root.dataset.theme = next;
  try { localStorage.setItem("conform-theme", next); } catch { /* The choice is not saved. */ }
  showTheme();
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link) return;
  if (link.classList.contains("skip")) {
    event.preventDefault();
    document.getElementById("main").focus();
  } else if (link.getAttribute("href").startsWith("#/") && !event.ctrlKey && !event.metaKey) clicked = !link.classList.contains("back");
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing) {
    const search = one("#view:not([hidden]) #search");
    event.preventDefault();
    if (search) search.focus(); else location.hash = "#/cells";
  } else if (event.key === "Escape" && !event.defaultPrevented) {
    if (typing && event.target.id === "search" && event.target.value) {
      event.target.value = "";
      event.target.dispatchEvent(new Event("input"));
    } else if (route.view === "cell") one(".back").click();
  }
});

history.scrollRestoration = "manual";
addEventListener("hashchange", follow);
showTheme();
follow();
