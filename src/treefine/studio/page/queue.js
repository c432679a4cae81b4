// The list of sentences. Only the rows in view exist, so that a file of any size scrolls smoothly.

import { get } from "./api.js";
import { element } from "./dom.js";

const HEIGHT = 50; // pixels of a row, as in studio.css
const MARGIN = 8; // rows above and below the view
const CHUNK = 60; // rows that are asked for together

/** Show the rows of a queue; call `onChoose(key)` when the person chooses one. */
export class Queue {
  constructor(host, onChoose) {
    this.host = host;
    this.keys = [];
    this.rows = new Map();
    this.asked = new Set();
    this.generation = 0;
    this.current = null;
    this.inner = element("div", "rows-inner");
    host.append(this.inner);
    host.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(host);
    this.inner.addEventListener("click", (event) => {
      const row = event.target.closest("[data-key]");
      if (row) onChoose(+row.dataset.key);
    });
  }

  /** Show these sentences of a file. */
  show(file, keys) {
    this.rows.clear();
    this.asked.clear();
    this.generation += 1; // answers to earlier questions are not used
    this.file = file;
    this.keys = keys;
    this.inner.style.height = `${keys.length * HEIGHT}px`;
    this.draw();
  }

  /** Ask for some rows again. */
  forget(keys) {
    for (const key of keys) this.asked.delete(key);
    this.draw();
  }

  /** Mark a sentence as the current one, and scroll to it. */
  choose(key) {
    this.current = key;
    const top = this.keys.indexOf(key) * HEIGHT;
    const { scrollTop, clientHeight } = this.host;
    if (top >= 0 && (top < scrollTop || top + HEIGHT > scrollTop + clientHeight)) {
      this.host.scrollTop = top - clientHeight / 3;
    }
    this.draw();
  }

  /** Return the key of the sentence some places after the current one, or null. */
  neighbour(step) {
    const place = this.keys.indexOf(this.current);
    return this.keys[place < 0 ? 0 : place + step] ?? null;
  }

  draw() {
    const first = Math.max(0, Math.floor(this.host.scrollTop / HEIGHT) - MARGIN);
    const last = Math.min(this.keys.length, Math.ceil((this.host.scrollTop + this.host.clientHeight) / HEIGHT) + MARGIN);
    const shown = this.keys.slice(first, last);
    this.inner.replaceChildren(...shown.map((key, index) => this.#row(key, first + index)));
    this.#ask(shown);
  }

  #row(key, place) {
    const found = this.rows.get(key);
    const isCurrent = key === this.current;
    const row = element("div", ["row", found?.status, isCurrent ? "current" : ""].filter(Boolean).join(" "));
    row.dataset.key = key;
    row.style.top = `${place * HEIGHT}px`;
    Object.assign(row, { role: "option", ariaSelected: String(isCurrent), ariaPosInSet: place + 1, ariaSetSize: this.keys.length });
    row.append(element("span", "row-text", found ? found.text : "…"), element("span", "row-note", found ? noted(found) : ""));
    row.firstChild.dir = "auto";
    return row;
  }

  async #ask(keys) {
    const missing = keys.filter((key) => !this.asked.has(key));
    if (!missing.length) return;
    const { file, generation } = this;
    for (let start = 0; start < missing.length; start += CHUNK) {
      const some = missing.slice(start, start + CHUNK);
      for (const key of some) this.asked.add(key);
      const rows = await get("rows", { file, keys: some.join() }).catch(() => []); // some were joined in the meantime
      if (generation !== this.generation) return;
      for (const row of rows) this.rows.set(row.key, row);
    }
    this.draw();
  }
}

function noted({ number, sent_id: id, status, is_changed: isChanged, expected_errors: errors, n_different: different }) {
  const marks = { done: "✓ done", doubtful: "? doubtful", open: isChanged ? "✎ changed" : "" };
  const doubts = status !== "done" && errors !== null && errors >= 0.05 ? `${errors.toFixed(1)} doubts` : "";
  const differs = different ? `${different} differ` : "";
  return [`${number}`, id, marks[status], doubts, differs].filter(Boolean).join(" · ");
}
