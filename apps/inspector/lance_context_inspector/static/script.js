// The keyboard: / searches, j and k go through what is listed, Enter opens it, p and n turn pages,
// [ and ] go a version back and forth.
// The bar of moments: the last versions and all tags are fetched when somebody turns to it.
// A conversation that is followed live: its page is fetched each second, and new turns are appended.
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

  const bar = document.querySelector(".asof");
  const tell = (words) => (document.querySelector("#told").textContent = words);

  const move = async (where, otherwise) => {
    if (!bar?.dataset.beside) return;
    const answer = await fetch(bar.dataset.beside);
    const to = answer.ok ? (await answer.json())[where] : null;
    if (to === null) return tell(otherwise);
    bar.querySelector("#as-of").value = to;
    bar.requestSubmit();
  };

  const turn = (rel) => document.querySelector(`a[rel="${rel}"]`)?.click();

  const keys = {
    "/": () => document.querySelector('[data-key="/"]')?.focus(),
    j: () => go(1),
    k: () => go(-1),
    p: () => turn("prev"),
    n: () => turn("next"),
    "[": () => move("earlier", "There is no earlier version."),
    "]": () => move("later", "This is now: there is no later version."),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") return document.activeElement?.blur();
    if (isTyping(event.target) || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });

  // Not by scrollIntoView: Tab would then go on from there, and not begin with the page.
  const current = document.querySelector(".menu [aria-current]")?.getBoundingClientRect();
  for (const box of current ? document.querySelectorAll(".menu, .menu ul") : []) {
    const shown = box.getBoundingClientRect();
    box.scrollLeft += Math.max(0, current.right - shown.right);
  }

  const live = document.querySelector("[data-live]");

  const follow = async () => {
    const answer = await fetch(live.dataset.live).catch(() => null);
    if (!answer?.ok) return;
    const known = new Set([...live.children].map((one) => one.dataset.key));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const added = [...page.querySelectorAll("[data-live] > [data-key]")].filter((one) => !known.has(one.dataset.key));
    live.append(...added);
    if (added.length) added.at(-1).scrollIntoView({ block: "nearest" });
  };

  if (live) setInterval(follow, 1000);

  let isAsked = false;

  const option = (value, label) => Object.assign(document.createElement("option"), { value, label });

  const fill = (told) => {
    const known = new Map(told.part.items.map((one) => [one.number, one]));
    for (const [tag, number] of Object.entries(told.tags)) {
      known.set(number, { created_at: "", ...known.get(number), number, tag });
    }
    const moments = [...known.values()].sort((one, other) => one.number - other.number);
    bar.querySelector("#moments").append(...moments.map((one) => option(one.tag ?? one.number, one.created_at)));
    bar.querySelector("#branches").append(...told.branches.map((one) => option(one.name, "")));
    const [slide, at, output] = ["#slide", "#as-of", "output"].map((one) => bar.querySelector(one));
    slide.max = moments.length;
    const here = moments.findIndex((one) => at.value === String(one.number) || at.value === one.tag);
    slide.value = here < 0 ? moments.length : here;
    const show = () => {
      const one = moments[slide.value];
      at.value = one ? one.tag ?? one.number : "";
      const when = one?.created_at.slice(0, 16).replace("T", " ");
      output.textContent = one ? [`version ${one.number}`, one.tag, when].filter(Boolean).join(" · ") : "now";
      slide.setAttribute("aria-valuetext", output.textContent);
    };
    slide.addEventListener("input", show);
    slide.addEventListener("change", () => bar.requestSubmit());
    if (here >= 0 || !at.value) show();
    bar.querySelector(".slide").hidden = !moments.length;
  };

  const ask = async () => {
    if (isAsked || !bar.dataset.moments) return;
    isAsked = true;
    const answer = await fetch(bar.dataset.moments);
    if (answer.ok) fill(await answer.json());
  };

  for (const event of ["focusin", "pointerenter"]) bar?.addEventListener(event, ask);
})();
