// The drawing of one graph. The server sends it as SVG; this file adds keys, marks and animation.

const MILLISECONDS = 450; // duration of an arc's move to its new place

const PRINTED = 960; // pixels; a wider drawing is unreadable on paper, so only the table is printed

const isCalm = matchMedia("(prefers-reduced-motion: reduce)");

/** Show one drawing after another in a figure; call `onOpen(word, arc)` when the user chooses an arc. */
export class Drawing {
  constructor(figure, onOpen) {
    this.figure = figure;
    this.onOpen = onOpen;
    figure.addEventListener("click", (event) => this.#open(event.target));
    figure.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Replace the drawing by this SVG; `marks` are classes by word, `describe(word)` returns an arc in words. */
  show(svg, { marks, describe, moves }) {
    const before = this.figure.querySelector("svg");
    const focused = this.figure.contains(document.activeElement) && document.activeElement.dataset.word;
    const drawn = inert(svg);
    for (const group of drawn.querySelectorAll("g[data-word]")) {
      if (group.classList.contains("old")) continue;
      group.classList.add(...(marks.get(+group.dataset.word) ?? []));
      if (group.querySelector("text")) asButton(group, describe(+group.dataset.word));
    }
    for (const line of drawn.querySelectorAll("g[data-word] > path:not(.head)")) {
      const wide = line.cloneNode(); // a thin line is hard to click
      wide.classList.add("hit");
      line.after(wide);
    }
    this.figure.replaceChildren(drawn);
    this.figure.classList.toggle("wide", +drawn.getAttribute("width") > PRINTED);
    if (!before || before.firstElementChild.textContent !== drawn.firstElementChild.textContent) this.#startAtFirstWord();
    if (focused) (this.#arcs().find((each) => each.dataset.word === focused) ?? this.figure).focus();
    if (moves && before && !isCalm.matches) moveFrom(before, drawn);
  }

  #startAtFirstWord() {
    const places = [...this.figure.querySelectorAll("text.form")].map((each) => +each.getAttribute("x"));
    this.figure.scrollLeft = places.at(0) > places.at(-1) ? this.figure.scrollWidth : 0;
  }

  #arcs() {
    const arcs = [...this.figure.querySelectorAll("g[role=button]")];
    return arcs.sort((one, other) => one.dataset.word - other.dataset.word);
  }

  #open(target) {
    const chosen = target.closest("[data-word]");
    if (chosen === null) return;
    const { word, head, label } = chosen.dataset;
    // A click on a word means its current arc.
    const isArc = head !== undefined && chosen.classList.contains("old");
    this.onOpen(+word, isArc ? { head: +head, label } : null);
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const arcs = this.#arcs();
    const here = arcs.indexOf(document.activeElement);
    const places = { ArrowDown: here + 1, ArrowUp: here < 0 ? arcs.length - 1 : here - 1, Home: 0, End: arcs.length - 1 };
    if (event.key in places) {
      const arc = arcs[Math.min(Math.max(places[event.key], 0), arcs.length - 1)];
      arc?.focus();
      arc?.scrollIntoView({ block: "nearest", inline: "center" });
    } else if ((event.key === "Enter" || event.key === " ") && here >= 0) this.#open(arcs[here]);
    else return;
    event.preventDefault();
  }
}

/** Return the elements of an SVG without scripts and styles; the page has the style. */
function inert(svg) {
  const bare = svg.replace(/<style>[^<]*<\/style>/, "");
  const root = new DOMParser().parseFromString(bare, "image/svg+xml").documentElement;
  for (const each of root.querySelectorAll("script, style, foreignObject")) each.remove();
  const drawn = document.importNode(root, true);
  drawn.setAttribute("role", "group"); // an image would hide its arcs from a screen reader
  return drawn;
}

function asButton(group, name) {
  group.setAttribute("role", "button");
  group.setAttribute("tabindex", "-1");
  group.setAttribute("aria-label", name);
}

/** Animate arcs from their old to their new places; fade in new arcs. */
function moveFrom(before, after) {
  const timing = { duration: MILLISECONDS, easing: "ease-in-out" };
  const shape = (d) => d.replace(/[^a-z]/gi, "");
  for (const group of after.querySelectorAll("g[data-word]:not(.old)")) {
    const kind = group.querySelector("text") ? "text" : "path:not(.hit)";
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
