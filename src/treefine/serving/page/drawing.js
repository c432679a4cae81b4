// The drawing of one graph. The server sends it as SVG; this file shows it and moves its arcs.

const MILLISECONDS = 450; // duration of an arc's move to its new place
const PRINTED = 960; // pixels; a wider drawing is unreadable on paper, so only the table is printed

const isCalm = matchMedia("(prefers-reduced-motion: reduce)");

/** Replace the drawing in a figure by this SVG; `moves` says whether arcs move from their old places. */
export function showDrawing(figure, svg, { moves }) {
  const before = figure.querySelector("svg");
  const drawn = inert(svg);
  figure.replaceChildren(drawn);
  figure.classList.toggle("wide", +drawn.getAttribute("width") > PRINTED);
  if (before?.firstElementChild.textContent !== drawn.firstElementChild.textContent) {
    const places = [...figure.querySelectorAll("text.form")].map((each) => +each.getAttribute("x"));
    figure.scrollLeft = places.at(0) > places.at(-1) ? figure.scrollWidth : 0; // where the first word is
  } else if (moves && !isCalm.matches) moveFrom(before, drawn);
}

/** Return the elements of an SVG without scripts and styles; the page has the style. */
function inert(svg) {
  const bare = svg.replace(/<style>[^<]*<\/style>/, "");
  const root = new DOMParser().parseFromString(bare, "image/svg+xml").documentElement;
  for (const each of root.querySelectorAll("script, style, foreignObject")) each.remove();
  return document.importNode(root, true);
}

/** Animate arcs from their old to their new places; fade in new arcs. */
function moveFrom(before, after) {
  const timing = { duration: MILLISECONDS, easing: "ease-in-out" };
  const shape = (d) => d.replace(/[^a-z]/gi, "");
  for (const group of after.querySelectorAll("g[data-word]:not(.old)")) {
    const kind = group.querySelector("text") ? "text" : "path";
    const old = before.querySelector(`g[data-word="${group.dataset.word}"]:not(.old) > ${kind}`)?.parentNode;
    const pairs = [...group.querySelectorAll(kind)].map((each, index) => [each, old?.querySelectorAll(kind)[index]]);
    for (const [line, was] of pairs) {
      const [d, oldD] = [line.getAttribute("d"), was?.getAttribute("d")];
      if (!was || (d && shape(d) !== shape(oldD))) group.animate([{ opacity: 0 }, { opacity: 1 }], timing);
      else if (d && d !== oldD) line.animate([{ d: `path("${oldD}")` }, { d: `path("${d}")` }], timing);
      else if (!d) {
        const [x, y] = ["x", "y"].map((side) => was.getAttribute(side) - line.getAttribute(side));
        if (x || y) group.animate([{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }], timing);
      }
    }
  }
  for (const group of after.querySelectorAll("g.old")) group.animate([{ opacity: 0 }, { opacity: 1 }], timing);
}

/** Return an SVG without confidences. */
export function withoutConfidence(svg) {
  return svg.replace(/<tspan class="sure[^"]*">[^<]*<\/tspan>/g, "");
}
