// The drawing of one sentence: words in lines that wrap, and arcs above them. All places are measured, so that any
// script, direction, zoom and width works.

import { element } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const STEP = 25; // height of a level of arcs
const REACH = 10; // pixels around an arc in which it can be hit
const SMALLEST = 6; // pixels of a letter in a sentence that is made to fit
const DRAG = 6; // pixels that a pointer moves before it drags
const CELLS = ["upos", "xpos", "lemma", "feats"];

/** Draw a sentence into an element. The listeners are functions of the page; see `studio.js`. */
export class Tree {
  constructor(host, listeners = {}) {
    this.host = host;
    this.listeners = listeners;
    this.arcs = [];
    host.classList.add("tree");
    this.root = element("div", "root-bar");
    this.root.setAttribute("aria-hidden", "true");
    this.words = element("div", "words");
    this.svg = svg("svg");
    this.svg.setAttribute("aria-hidden", "true");
    host.replaceChildren(this.root, this.svg, this.words);
    if (listeners.onWord) this.#listen();
    let width = 0;
    new ResizeObserver(() => {
      if (host.clientWidth !== width) {
        width = host.clientWidth;
        this.layout();
      }
    }).observe(host);
  }

  /** Show a sentence: `selected` is a word, `last` the end of a range, `target` its new head, `marks` are classes by word. */
  show(sentence, { selected = 0, last = 0, target = null, marks = new Map(), advice = null, cells = CELLS } = {}) {
    const isNew = this.sentence?.key !== sentence.key || this.sentence?.file !== sentence.file;
    this.sentence = sentence;
    this.state = { selected, last, target, marks, advice, cells };
    const isChoosing = target !== null;
    this.host.classList.toggle("choosing", isChoosing);
    this.root.classList.toggle("target", target === 0);
    this.root.textContent = isChoosing ? `Choose the head of ${sentence.words[selected - 1].form}: click a word, or here for ROOT. Esc cancels.` : "ROOT: drop a word here to make it the root";
    this.words.dir = sentence.direction ?? "ltr";
    this.words.replaceChildren(...(sentence.words ?? []).map((word) => this.#word(word)));
    this.layout();
    if (isNew) this.host.scrollTop = 0;
  }

  /** Return the box of a word. */
  box(number) {
    return this.words.querySelector(`.word[data-word="${number}"]`);
  }

  /** Measure the words, and draw the arcs. */
  layout() {
    if (!this.sentence?.words || !this.host.isConnected) return;
    const words = [...this.words.children];
    for (const word of words) word.style.marginTop = "";
    this.#fit();
    const lines = this.#lines(words);
    const zoom = parseFloat(getComputedStyle(this.words).fontSize) / 16;
    const step = STEP * zoom;
    const placed = this.#levels(lines);
    lines.forEach((line, number) => {
      const height = Math.max(1, ...placed.filter((each) => each.line === number).map((each) => each.level));
      line.height = (height + 0.9) * step;
      for (const word of line.words) word.element.style.marginTop = `${line.height}px`;
    });
    this.#measure(lines);
    this.#draw(lines, placed, step);
  }

  /** Return the dependent of the arc that is nearest to a point of the window, or null. */
  arcAt(x, y) {
    const box = this.svg.getBoundingClientRect();
    let best = null;
    for (const arc of this.arcs) {
      const away = arc.distance(x - box.left, y - box.top);
      if (away <= REACH && (best === null || away < best.away)) best = { away, arc };
    }
    return best?.arc ?? null;
  }

  /** Make the letters smaller until the sentence fits into the width, if that is wanted. */
  #fit() {
    const { style } = this.words;
    this.svg.style.fontSize = style.fontSize = "";
    if (!this.host.classList.contains("fits")) return;
    const size = parseFloat(getComputedStyle(this.words).fontSize);
    const share = (this.host.clientWidth - 4) / this.words.scrollWidth;
    if (share < 1) this.svg.style.fontSize = style.fontSize = `${Math.max(SMALLEST, Math.floor(size * share * 10) / 10)}px`;
  }

  #word(word) {
    const { selected, last, target, marks, advice, cells } = this.state;
    const confidence = advice?.confidence[word.number - 1];
    const classes = ["word", ...(marks.get(word.number) ?? [])];
    const [low, high] = [Math.min(selected, last || selected), Math.max(selected, last || selected)];
    if (selected && word.number >= low && word.number <= high) classes.push("selected");
    if (word.number === target) classes.push("target");
    if (word.keeps_head || word.keeps_label) classes.push("kept");
    const box = element("div", classes.join(" "));
    box.dataset.word = word.number;
    box.style.minWidth = `${widthOf(word.label, 1) / 16 + 0.9}em`;
    const form = element("span", "form", word.form);
    box.append(form);
    if (this.listeners.onWord) {
      box.id = `word-${word.number}`;
      box.setAttribute("role", "option");
      box.setAttribute("aria-selected", String(word.number === selected));
      box.setAttribute("aria-label", this.#described(word, confidence));
    }
    const token = this.sentence.tokens.find(({ first, last }) => first <= word.number && word.number <= last);
    if (token) {
      box.classList.add("in-token");
      box.append(element("span", "token", token.first === word.number ? token.form : "\u00a0"));
    } else if (this.sentence.tokens.length) box.append(element("span", "token", "\u00a0"));
    for (const name of cells) {
      const cell = element("span", `cell ${name}`);
      cell.dataset.column = name;
      const value = word[name];
      cell.title = `${name.toUpperCase()}: ${value === "_" ? "none" : value.replaceAll("|", ", ")}`;
      // Of the features, only the values are shown: "Number=Sing|Person=3" is "Sing 3".
      const shown = name === "feats" ? value.split("|").map((each) => each.replace(/^[^=]*=/, "")).join(" ") : value;
      cell.textContent = value === "_" ? "·" : shown;
      box.append(cell);
    }
    const forbidden = [...word.not_heads.map((head) => `not ${head}`), ...word.not_labels.map((label) => `not ${label}`)];
    for (const each of forbidden) box.append(element("span", "forbidden", `✗ ${each}`));
    for (const empty of this.sentence.empty.filter(({ after }) => after === word.number)) {
      box.append(element("span", "empty-node", `${empty.id} ${empty.form}`));
    }
    return box;
  }

  #described(word, confidence) {
    const head = word.head === null ? "no head" : `${word.label} of ${word.head ? this.sentence.words[word.head - 1].form : "ROOT"}`;
    const parts = [`${word.number} ${word.form}`, word.upos === "_" ? "" : word.upos, head];
    if (word.keeps_head || word.keeps_label) parts.push("decided");
    if (confidence !== undefined && confidence !== null) parts.push(`${Math.round(100 * confidence)}% sure`);
    return parts.filter(Boolean).join(", ");
  }

  #lines(elements) {
    const lines = [];
    for (const element of elements) {
      const top = element.offsetTop;
      if (!lines.length || Math.abs(lines.at(-1).top - top) > 4) lines.push({ top, words: [] });
      lines.at(-1).words.push({ element, number: +element.dataset.word });
    }
    return lines;
  }

  /** Return each arc, or the two ends of an arc between lines, with its level: arcs over others are higher. */
  #levels(lines) {
    const place = new Map();
    lines.forEach((line, number) => line.words.forEach((word, index) => place.set(word.number, { line: number, index })));
    const items = [];
    for (const word of this.sentence.words) {
      if (word.head === null) continue;
      const here = place.get(word.number);
      const there = word.head ? place.get(word.head) : null;
      const arc = { word, line: here.line, kind: "arc" };
      if (!word.head) items.push({ ...arc, kind: "root", low: here.index, high: here.index });
      else if (there.line === here.line) {
        items.push({ ...arc, low: Math.min(here.index, there.index), high: Math.max(here.index, there.index) });
      } else {
        items.push(this.#stub(arc, "dependent", here, there, lines));
        items.push(this.#stub(arc, "head", there, here, lines));
      }
    }
    items.sort((a, b) => (a.kind === "root") - (b.kind === "root") || a.high - a.low - (b.high - b.low));
    const done = [];
    for (const item of items) {
      const over = done.filter(({ line, low, high }) => line === item.line && low < item.high && item.low < high);
      const touches = done.filter(({ line, low, high }) => line === item.line && low <= item.low && item.low <= high);
      item.level = 1 + Math.max(0, ...(item.kind === "root" ? touches : over).map(({ level }) => level));
      done.push(item);
    }
    return done;
  }

  #stub(arc, end, from, to, lines) {
    const isDown = to.line > from.line; // the other end is on a later line
    const edge = isDown ? lines[from.line].words.length : -1;
    return { ...arc, kind: "stub", end, isDown, line: from.line, low: Math.min(from.index, edge), high: Math.max(from.index, edge) };
  }

  #measure(lines) {
    const origin = this.words.getBoundingClientRect();
    for (const line of lines) {
      for (const word of line.words) {
        const box = word.element.getBoundingClientRect();
        word.x = box.left - origin.left + this.words.offsetLeft + box.width / 2;
        word.top = box.top - origin.top + this.words.offsetTop;
      }
      line.bottom = Math.min(...line.words.map(({ top }) => top));
    }
  }

  #draw(lines, placed, step) {
    const at = new Map(lines.flatMap((line) => line.words.map((word) => [word.number, word])));
    const width = Math.max(this.host.clientWidth, this.words.offsetLeft + this.words.scrollWidth);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", this.words.offsetTop + this.words.offsetHeight);
    const isRight = this.words.dir === "rtl";
    const anchors = anchorsOf(placed, at, step);
    this.arcs = placed.map((item) => {
      const { word, line, level } = item;
      const base = lines[line].bottom - 3;
      const y = base - (level + 0.1) * step;
      const end = anchors.get(`${word.number} ${item.kind === "stub" && item.end === "head" ? "from" : "to"}`);
      if (item.kind === "root") return arcOf(item, [[end, y], [end, base]], [end, y]);
      if (item.kind === "arc") {
        const start = anchors.get(`${word.number} from`);
        return arcOf(item, [[start, base], [start, y], [end, y], [end, base]], [(start + end) / 2, y]);
      }
      const isAtEnd = item.isDown !== isRight;
      const edge = isAtEnd ? width - 2 : 2;
      const path = item.end === "head" ? [[end, base], [end, y], [edge, y]] : [[edge, y], [end, y], [end, base]];
      return arcOf(item, path, [end + (isAtEnd ? 8 : -8), y], isAtEnd ? "start" : "end");
    });
    const { selected, marks, advice } = this.state;
    this.svg.replaceChildren();
    // The arc of the selected word comes last, so that nothing covers it.
    for (const arc of [...this.arcs].sort((a, b) => (a.word.number === selected) - (b.word.number === selected))) {
      this.svg.append(this.#group(arc, selected, marks, advice, step));
    }
  }

  #group(arc, selected, marks, advice, step) {
    const { word, item } = arc;
    const group = svg("g");
    const classes = ["arc", ...(marks.get(word.number) ?? [])];
    if (word.number === selected) classes.push("selected");
    if (word.keeps_head || word.keeps_label) classes.push("kept");
    group.setAttribute("class", classes.join(" "));
    group.dataset.word = word.number;
    const path = svg("path", { d: rounded(arc.points), class: "line" });
    const [x, y] = arc.points.at(-1);
    group.append(path);
    if (item.end !== "head") group.append(svg("path", { d: `M${x - 4},${y - 6}L${x + 4},${y - 6}L${x},${y + 1}Z`, class: "head" }));
    const [middle, top] = arc.place;
    const full = this.svg.width.baseVal.value;
    const own = `${word.label}${classes.includes("doubtful") ? ` ${Math.round(100 * advice.confidence[word.number - 1])}%` : ""}`;
    const room = arc.anchor === "end" ? middle : full - middle;
    const texts = item.kind === "stub" ? [...this.#otherEnd(item).map((each) => `${own} · ${each}`), own] : [own];
    const text = texts.find((each) => widthOf(each, step / STEP) <= room) ?? texts.at(-1);
    const width = widthOf(text, step / STEP);
    const left = { start: middle, middle: middle - width / 2, end: middle - width }[arc.anchor];
    const start = Math.max(2, Math.min(left, full - width - 2)); // the label and its ground are inside of the view
    const label = svg("text", { x: start + width / 2, y: top + step * 0.16, "text-anchor": "middle" });
    label.textContent = text;
    group.append(svg("rect", { x: start - 2, y: top - step * 0.3, width: width + 4, height: step * 0.6, class: "behind" }), label);
    arc.label = { x: start, width, y: top, height: step * 0.6 };
    return group;
  }

  /** Return the word at the other end of an arc between lines, in a long and a short form. */
  #otherEnd({ word, end }) {
    const number = end === "head" ? word.number : word.head;
    return [`${number} ${this.sentence.words[number - 1].form}`, `${number}`];
  }

  // A click on a word selects it; a press, a move and a release on another word attach the first to the second.
  #listen() {
    const { onWord, onArc, onDrop, onCell, onNothing } = this.listeners;
    let from = null;
    let hasDragged = false; // the browser then reports a click on whatever contains both ends
    this.host.addEventListener("pointerdown", (event) => {
      hasDragged = false;
      from = null;
      const word = event.target.closest(".word");
      if (event.button !== 0 || !word || event.target.closest("input, textarea")) return;
      from = { word: +word.dataset.word, x: event.clientX, y: event.clientY, column: event.target.closest(".cell")?.dataset.column };
      this.host.setPointerCapture(event.pointerId); // the word may be drawn again before the release
      if (!from.column) event.preventDefault(); // no text selection
    });
    this.host.addEventListener("pointermove", (event) => {
      const isPressed = from && event.buttons;
      if (isPressed && !hasDragged && Math.hypot(event.clientX - from.x, event.clientY - from.y) < DRAG) return;
      if (isPressed) {
        hasDragged = true;
        this.host.classList.add("dragging");
        this.#showDrag(from.word, event);
      } else this.#highlight(event.target.closest(".word") ? null : this.arcAt(event.clientX, event.clientY));
    });
    const end = (event) => {
      if (!from || !hasDragged) return;
      const head = event.type === "pointerup" ? this.#dropAt(event) : null; // before ROOT is no longer there
      this.host.classList.remove("dragging");
      this.#showDrag(null);
      if (head !== null && head !== from.word) onDrop(from.word, head);
    };
    this.host.addEventListener("pointerup", end);
    this.host.addEventListener("pointercancel", (event) => {
      end(event);
      from = null;
    });
    this.host.addEventListener("click", (event) => {
      const pressed = from;
      from = null;
      if (hasDragged || event.target.closest("input, .root-bar")) return;
      if (!pressed) {
        const arc = this.arcAt(event.clientX, event.clientY);
        if (arc) onArc(arc.word.number);
        else onNothing();
      } else if (pressed.column) onCell(pressed.word, pressed.column);
      else if (event.detail < 2) onWord(pressed.word, event.shiftKey); // the second press of a double-click does nothing
    });
    this.root.addEventListener("click", () => onDrop(null, 0));
  }

  #highlight(arc) {
    for (const group of this.svg.querySelectorAll(".arc")) group.classList.toggle("hover", +group.dataset.word === arc?.word.number);
    this.host.style.cursor = arc ? "pointer" : "";
  }

  #dropAt(event) {
    const under = document.elementFromPoint(event.clientX, event.clientY);
    if (this.root.contains(under)) return 0;
    const word = under?.closest(".word");
    return word && this.words.contains(word) ? +word.dataset.word : null;
  }

  #showDrag(word, event) {
    this.svg.querySelector(".drag")?.remove();
    for (const each of this.words.querySelectorAll(".target")) each.classList.remove("target");
    this.root.classList.remove("target");
    if (word === null) return;
    const head = this.#dropAt(event);
    if (head === 0) this.root.classList.add("target");
    else if (head !== null && head !== word) this.box(head).classList.add("target");
    const box = this.svg.getBoundingClientRect();
    const own = this.box(word).getBoundingClientRect();
    const [x, y] = [own.left + own.width / 2 - box.left, own.top - box.top];
    const [toX, toY] = [event.clientX - box.left, event.clientY - box.top];
    const top = Math.min(y, toY) - 30;
    this.svg.append(svg("path", { d: `M${x},${y}C${x},${top} ${toX},${top} ${toX},${toY}`, class: "drag" }));
  }
}

function arcOf(item, points, place, anchor = "middle") {
  const arc = { item, word: item.word, points, place, anchor, label: null };
  arc.distance = (x, y) => {
    const { label } = arc;
    const toLines = points.slice(1).map((point, index) => toSegment(x, y, points[index], point));
    const toLabel = toSegment(x, y, [label.x, label.y - label.height / 2], [label.x + label.width, label.y + label.height / 2]);
    return toLabel === 0 ? -1 : Math.min(toLabel, ...toLines); // a label covers the lines under it
  };
  return arc;
}

function toSegment(x, y, [x1, y1], [x2, y2]) {
  const [low, high] = [Math.min(x1, x2), Math.max(x1, x2)];
  const [top, bottom] = [Math.min(y1, y2), Math.max(y1, y2)];
  return Math.hypot(Math.max(low - x, 0, x - high), Math.max(top - y, 0, y - bottom));
}

/** Return where arcs touch their words: the own arc in the middle, outer arcs nearer to it than inner ones. */
function anchorsOf(placed, at, step) {
  const found = new Map();
  const sides = new Map();
  for (const item of placed) {
    const { word } = item;
    if (!(item.kind === "stub" && item.end === "head")) found.set(`${word.number} to`, at.get(word.number).x);
    if (item.kind === "root" || (item.kind === "stub" && item.end !== "head")) continue;
    const head = at.get(word.head);
    const goesRight = item.kind === "stub" ? item.isDown === (getComputedStyle(head.element).direction !== "rtl") : at.get(word.number).x > head.x;
    const side = `${word.head} ${goesRight}`;
    if (!sides.has(side)) sides.set(side, []);
    sides.get(side).push({ item, head, sign: goesRight ? 1 : -1 });
  }
  for (const arcs of sides.values()) {
    arcs.sort((a, b) => b.item.level - a.item.level);
    const room = (arcs[0].head.element.offsetWidth / 2 - 3) / (arcs.length + 0.5);
    const gap = Math.min(8 * (step / STEP), room);
    arcs.forEach(({ item, head, sign }, index) => found.set(`${item.word.number} from`, head.x + sign * gap * (index + 1)));
  }
  return found;
}

const canvas = document.createElement("canvas").getContext("2d");

/** Return the width of a label; it is drawn bold in some states, which is wider. */
function widthOf(text, zoom) {
  canvas.font = `600 ${11.84 * zoom}px ${getComputedStyle(document.body).fontFamily}`;
  return canvas.measureText(text).width;
}

/** Return a path along these points with round corners. */
function rounded(points) {
  let path = `M${points[0]}`;
  for (let index = 1; index < points.length - 1; index += 1) {
    const [x, y] = points[index];
    const [[x1, y1], [x2, y2]] = [points[index - 1], points[index + 1]];
    const radius = Math.min(7, Math.hypot(x - x1, y - y1) / 2, Math.hypot(x - x2, y - y2) / 2);
    const near = (px, py) => [x + Math.sign(px - x) * radius, y + Math.sign(py - y) * radius];
    path += `L${near(x1, y1)}Q${x},${y} ${near(x2, y2)}`;
  }
  return `${path}L${points.at(-1)}`;
}

function svg(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
