// The keyboard: / searches, j and k go through what is listed, Enter opens it, [ and ] turn pages.
// Every page works without this.
"use strict";

(() => {
  const items = [...document.querySelectorAll("[data-item]")];
  let at = -1;

  const isTyping = (target) =>
    target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);

  const go = (step) => {
    if (!items.length) return;
    items[at]?.classList.remove("here");
    at = Math.min(items.length - 1, Math.max(0, at + step));
    items[at].classList.add("here");
    (items[at].querySelector("a, summary") ?? items[at]).focus({ preventScroll: true });
    items[at].scrollIntoView({ block: "nearest" });
  };

  const turn = (rel) => document.querySelector(`a[rel="${rel}"]`)?.click();

  const keys = {
    "/": () => document.querySelector('[data-key="/"]')?.focus(),
    j: () => go(1),
    k: () => go(-1),
    "[": () => turn("prev"),
    "]": () => turn("next"),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") return document.activeElement?.blur();
    if (isTyping(event.target) || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
})();
