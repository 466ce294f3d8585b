"use strict";
// Shared by the page of one run and the dashboard. Makes nodes from text, never from markup.
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);

function place(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

function make(tag, attributes, ...children) {
  return place(document.createElement(tag), attributes, children);
}

async function copy(button) {
  const source = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    // A page opened from disk may not write to the clipboard; select the text instead.
    getSelection().selectAllChildren(source);
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1600);
}

document.addEventListener("click", (event) => {
  for (const menu of all(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  if (event.target.matches(".copy")) copy(event.target);
});

document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest(".menu[open]");
  if (!menu) return;
  menu.open = false;
  one("summary", menu).focus();
  event.preventDefault();
});
