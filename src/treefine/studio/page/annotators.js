// Other annotators: their trees above the sentence, where they differ, and what a person takes from them.

import { arcText, showAgreement } from "./panel.js";
import { $, button, element } from "./dom.js";
import { correct, state } from "./state.js";
import { edit } from "./changes.js";
import { Tree } from "./tree.js";

/** Prepare the page for other annotators, if there are any: sentences with differences come first. */
export function prepareAnnotators({ references, agreement }) {
  document.querySelector("#order [value=difference]").hidden = !references.length;
  if (references.length) $("order").value = "difference";
  showAgreement(agreement);
}

/** Return the words about which the other annotators differ, or the one other differs from the sentence. */
export function disputed({ others = [], words }) {
  if (!others.length || others.some(({ differs }) => differs === null)) return [];
  if (others.length === 1) return differing(others[0]);
  const told = (other, number) => {
    const { head, label } = other.words[number - 1];
    return String([head, label, other.tags.filter(([word]) => word === number)]);
  };
  return words.map(({ number }) => number).filter((number) => told(others[0], number) !== told(others[1], number));
}

/** Return the words whose arc or tags differ from the sentence. */
function differing({ differs, tags }) {
  return [...new Set([...differs, ...tags.map(([word]) => word)])].sort((a, b) => a - b);
}

function tagText([, column, value]) {
  return `${column === "lemma" ? column : column.toUpperCase()} ${value}`;
}

/** Show the trees of the others, and what they have for the selected word. */
export function showOthers(sentence, selected) {
  const others = sentence.others ?? [];
  const cards = others.map((other, index) => cardOf(sentence, other, index));
  $("others").replaceChildren(...cards.map(({ card }) => card));
  for (const { other, host } of cards) {
    if (!host) continue;
    const words = other.words.map((word) => ({ ...word, not_heads: [], not_labels: [] }));
    const marks = new Map((other.differs ?? []).map((word) => [word, ["differs"]]));
    new Tree(host).show({ ...sentence, words, tokens: [], empty: [] }, { cells: [], marks }); // it measures, so the card is on the page
  }
  const differ = others.filter((other) => selected && other.differs && differing(other).includes(selected));
  $("other-arcs").replaceChildren(...differ.map((other) => {
    const index = others.indexOf(other);
    const arc = other.differs.includes(selected) ? [arcText(sentence, other.words[selected - 1])] : [];
    const tags = other.tags.filter(([number]) => number === selected).map(tagText);
    return button("take", `${other.name}: ${[...arc, ...tags].join(", ")}`, () => takeWord(index), "ab"[index]);
  }));
}

function cardOf(sentence, other, index) {
  const card = element("article", "card other");
  const letter = "AB"[index] ?? String(index + 1);
  const head = element("p", "other-head");
  head.append(element("b", "", letter), ` ${other.name} `);
  card.append(head);
  if (other.words === null) {
    head.append(element("span", "hint", "does not have this sentence"));
    return { other, card };
  }
  const hasOtherWords = other.differs === null;
  const n = hasOtherWords ? 0 : differing(other).length;
  head.append(element("span", "hint", hasOtherWords ? "has other words" : n ? `${n} word${n > 1 ? "s differ" : " differs"}` : "as below"));
  if (n || hasOtherWords) head.append(" ", button("", "Take all", () => takeTree(index), letter));
  for (const tag of other.tags ?? []) card.append(element("p", "other-tag", `${tag[0]} ${sentence.words[tag[0] - 1].form}: ${tagText(tag)}`));
  if (!hasOtherWords && !n && !disputed(sentence).length) return { other, card };
  const host = element("div", "small");
  card.append(host);
  return { other, card, host };
}

/** Take the arc and the tags of another annotator for the selected word. */
export function takeWord(index) {
  const { selected: word } = state;
  const other = state.sentence.others?.[index];
  const { head, label } = other?.words?.[word - 1] ?? { head: null };
  const tags = (other?.tags ?? []).filter(([number]) => number === word);
  if (head !== null) correct(() => edit({ do: "arc", word, head, label, is_new: true, tags }));
  else if (tags.length) correct(() => edit({ do: "tree", arcs: [], tags }));
}

/** Take the whole tree and all tags of another annotator. */
export function takeTree(index) {
  const other = state.sentence.others?.[index];
  if (!other?.words) return;
  const arcs = other.words.map(({ number, head, label }) => [number, head, label]);
  correct(() => edit(other.differs === null ? { do: "source", lines: other.lines } : { do: "tree", arcs, tags: other.tags }));
}
