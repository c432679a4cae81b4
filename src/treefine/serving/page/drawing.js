// The drawing of one graph. The server sends it as SVG; this file adds keys, marks and animation.

const MILLISECONDS = 450; // duration of an arc's move to its new place

const REACH = 12; // pixels; a click this far from an arc means the arc

const PRINTED = 960; // pixels; a wider drawing is unreadable on paper, so only the table is printed

const isCalm = matchMedia("(prefers-reduced-motion: reduce)");

/** Show one drawing after another in a figure; call `onOpen(word, arc)` when the user chooses an arc. */
export class Drawing {
  constructor(figure, onOpen) {
    this.figure = figure;
    this.onOpen = onOpen;
    this.lines = []; // each arc of the drawing and the points of its line
    figure.addEventListener("click", (event) => this.#open(this.#at(event)));
    figure.addEventListener("pointermove", (event) => this.#showNear(this.#at(event)));
    figure.addEventListener("pointerleave", () => this.#showNear(null));
    figure.addEventListener("keydown", (event) => this.#key(event));
  }

  /**
   * Replace the drawing by this SVG. `marks` are classes by word, `describe(word)` returns an arc in words, and
   * `forbidden` says in words what each word must not have.
   */
  show(svg, { marks, describe, forbidden, moves }) {
    const before = this.figure.querySelector("svg");
    const focused = this.figure.contains(document.activeElement) && document.activeElement.dataset.word;
    const drawn = inert(svg);
    for (const group of drawn.querySelectorAll("g[data-word]")) {
      if (group.classList.contains("old")) continue;
      group.classList.add(...(marks.get(+group.dataset.word) ?? []));
      if (group.querySelector("text")) asButton(group, describe(+group.dataset.word));
    }
    const lines = [...drawn.querySelectorAll("g[data-word] > path:not(.head)")];
    this.lines = lines.map((line) => ({ arc: line.parentNode, points: pointsOf(line.getAttribute("d")) }));
    this.lines.sort((one, other) => priority(other) - priority(one));
    this.figure.replaceChildren(drawn);
    for (const [word, said] of forbidden) cross(drawn.querySelector(`text.form[data-word="${word}"]`), said);
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

  /** Mark the arc that the panel is about, and scroll to it; null removes the mark. */
  choose(word, arc) {
    for (const each of this.figure.querySelectorAll("g.chosen")) each.classList.remove("chosen");
    const ofWord = [...this.figure.querySelectorAll(`g[data-word="${word}"]`)];
    const chosen = ofWord.filter((each) => each.classList.contains("old") === (arc !== null));
    for (const each of chosen) each.classList.add("chosen");
    const shown = chosen.at(-1) ?? this.figure.querySelector(`text.form[data-word="${word}"]`); // the label is last
    if (word !== null) shown?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** Return the word, label or arc at the pointer: what is drawn there, or else the arc with the nearest line. */
  #at({ target, clientX, clientY }) {
    const drawn = this.figure.querySelector("svg");
    if (drawn === null) return null;
    const text = target.closest("text[data-word], g[data-word]:has(text)"); // a line of another arc may be near a label
    if (text !== null) return text;
    const at = new DOMPoint(clientX, clientY).matrixTransform(drawn.getScreenCTM().inverse());
    let [nearest, least] = [null, REACH];
    for (const { arc, points } of this.lines) {
      const distance = distanceTo(points, at);
      if (distance < least) [nearest, least] = [arc, distance];
    }
    return nearest;
  }

  #showNear(chosen) {
    const isNear = (each) => chosen?.matches("g") && sameArc(each, chosen);
    for (const { arc } of this.lines) arc.classList.toggle("near", Boolean(isNear(arc)));
    this.figure.classList.toggle("at-arc", chosen !== null);
  }

  #open(chosen) {
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

function sameArc(one, other) {
  return one.dataset.word === other.dataset.word && one.classList.contains("old") === other.classList.contains("old");
}

/** Arcs of one head share a part of their lines. A click there means a changed arc, which is drawn on top, or the lowest. */
function priority({ arc, points }) {
  const top = Math.min(...points.map(([, y]) => y));
  return top + (arc.classList.contains("changed") ? 1e6 : 0);
}

/** Return the points of a line that consists of straight parts (M, H, V) and bends (q), as the server draws arcs. */
export function pointsOf(d) {
  const points = [];
  let [x, y] = [0, 0];
  for (const [, command, rest] of d.matchAll(/([MHVq])([^MHVq]*)/g)) {
    const numbers = rest.trim().split(/[\s,]+/).map(Number);
    if (command === "q") {
      const [controlX, controlY, endX, endY] = numbers;
      for (const part of [0.25, 0.5, 0.75, 1]) {
        const [first, second] = [2 * part * (1 - part), part * part];
        points.push([x + first * controlX + second * endX, y + first * controlY + second * endY]);
      }
      [x, y] = points.at(-1);
    } else {
      if (command === "M") [x, y] = numbers;
      else if (command === "H") [x] = numbers;
      else [y] = numbers;
      points.push([x, y]);
    }
  }
  return points;
}

/** Return the distance of a point from a line through these points. */
export function distanceTo(points, { x, y }) {
  let least = Infinity;
  for (let index = 1; index < points.length; index++) {
    const [[fromX, fromY], [toX, toY]] = [points[index - 1], points[index]];
    const [alongX, alongY] = [toX - fromX, toY - fromY];
    const length = alongX * alongX + alongY * alongY;
    const part = length ? Math.min(1, Math.max(0, ((x - fromX) * alongX + (y - fromY) * alongY) / length)) : 0;
    least = Math.min(least, Math.hypot(x - fromX - part * alongX, y - fromY - part * alongY));
  }
  return least;
}

/** Put a cross next to a word, with a tooltip. */
function cross(form, said) {
  const { x, width } = form.getBBox();
  const mark = document.createElementNS(form.namespaceURI, "text");
  const title = document.createElementNS(form.namespaceURI, "title");
  title.textContent = said;
  mark.textContent = "✗";
  mark.append(title);
  mark.classList.add("cross");
  mark.dataset.word = form.dataset.word;
  mark.setAttribute("x", x + width + 6);
  mark.setAttribute("y", form.getAttribute("y") - 5);
  form.after(mark);
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
