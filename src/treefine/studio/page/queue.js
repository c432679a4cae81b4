// The list of sentences. Only the rows in view exist, so that a file of any size scrolls smoothly.

import { get } from "./api.js";

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
    this.inner = document.createElement("div");
    this.inner.className = "rows-inner";
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
    const row = document.createElement("div");
    const found = this.rows.get(key);
    row.className = ["row", found?.status, key === this.current ? "current" : ""].filter(Boolean).join(" ");
    row.dataset.key = key;
    row.style.top = `${place * HEIGHT}px`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(key === this.current));
    row.setAttribute("aria-posinset", place + 1);
    row.setAttribute("aria-setsize", this.keys.length);
    const text = document.createElement("span");
    text.className = "row-text";
    text.dir = "auto";
    text.textContent = found ? found.text : "…";
    const note = document.createElement("span");
    note.className = "row-note";
    note.textContent = found ? noted(found) : "";
    row.append(text, note);
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

function noted({ number, sent_id: id, status, is_changed: isChanged, doubt, n_different: different }) {
  const marks = { done: "✓ done", doubtful: "? doubtful", open: isChanged ? "✎ changed" : "" };
  const doubts = status !== "done" && doubt !== null && doubt >= 0.05 ? `${doubt.toFixed(1)} doubts` : "";
  const differs = different ? `${different} differ` : "";
  return [`${number}`, id, marks[status], doubts, differs].filter(Boolean).join(" · ");
}
