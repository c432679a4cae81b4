// The panel of one arc, with the possible decisions.

const find = (id) => document.getElementById(id);

/** The panel. It calls `onDecide(word, kind, head, label)` for a decision and `onUndo(word)` to undo those of a word. */
export class Panel {
  constructor({ onDecide, onUndo }) {
    this.dialog = find("panel");
    for (const button of this.dialog.querySelectorAll("[data-decide]")) {
      button.addEventListener("click", () => this.#decide(onDecide, button.dataset.decide, this.arc.head, this.arc.label));
    }
    find("panel-head").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#decide(onDecide, "head", +find("other-head").value, null);
    });
    find("panel-label").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#decide(onDecide, "label", null, find("other-label").value);
    });
    find("panel-undo").addEventListener("click", () => {
      this.dialog.close();
      onUndo(this.word);
    });
    find("panel-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  /** Open the panel for a word; `arc` is its head and label, or null if it has no head. */
  open({ word, arc, title, analysis, sure, words, labels, isDecided }) {
    this.word = word;
    this.arc = arc;
    find("panel-title").textContent = title;
    find("panel-word").textContent = analysis;
    find("panel-sure").textContent = sure;
    find("panel-arc").hidden = arc === null;
    find("panel-undo").hidden = !isDecided;
    const heads = [["0", "0 ROOT"], ...words.map((each) => [each.number, `${each.number} ${each.form}`])];
    fill(find("other-head"), heads.filter(([number]) => +number !== word), arc?.head);
    fill(find("other-label"), labels.map((label) => [label, label]), arc?.label);
    this.dialog.showModal();
  }

  #decide(onDecide, kind, head, label) {
    this.dialog.close();
    onDecide(this.word, kind, head, label);
  }
}

/** Fill a list with choices and select one. */
export function fill(select, choices, chosen) {
  const options = choices.map(([value, text]) => {
    const option = new Option(text, value);
    option.dir = "auto";
    return option;
  });
  select.replaceChildren(...options);
  if (chosen !== undefined && chosen !== null) select.value = String(chosen);
}
