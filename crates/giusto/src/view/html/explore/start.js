/* The page */

const bench = make(
  "div", { class: "bench" },
  make(
    "aside", { class: "sheet knobs", "aria-label": "Controls" },
    make("div", { class: "tools", role: "toolbar", "aria-label": "Tools" }, ...Object.values(tools)),
    make("h2", { class: "hidden" }, "Controls"), parts.status, parts.problems, parts.compare, parts.controls,
  ),
  parts.results,
);
document.body.classList.add("exploring");
main.querySelector("header").after(parts.gallery, learning.place, bench);
state = fromLink() ?? state;
addEventListener("hashchange", () => {
  const found = fromLink();
  if (found) show(found);
});
showCompare();
if (location.hash.startsWith("#q=")) show(state); else if (about.start) ask(); else showGallery();
