// The keys of the page. The help lists them from here, so that it is always complete.

import { element } from "./dom.js";

export const KEYS = [
  ["Words", [
    ["ArrowLeft ArrowRight", "← →", "previous, next word", "move"],
    ["ArrowUp", "↑", "the head of the word", "up"],
    ["ArrowDown", "↓", "its first dependent", "down"],
    ["Home End", "Home End", "first, last word", "edge"],
    [".", ".", "next doubtful word", "nextDoubt"],
    ["Escape", "Esc", "do not choose a head, select nothing", "escape"],
  ]],
  ["Arcs", [
    ["h", "h", "choose the head: click it, or arrows or its number, then Enter", "head"],
    ["r", "r", "make the word the root", "root"],
    ["l", "l", "type the label", "label"],
    ["1 2 3 4 5 6 7 8 9 0", "1 … 9 0", "one of the ten most frequent labels", "digit"],
    ["c", "c", "confirm the arc, or take that back", "confirm"],
    ["C", "C", "confirm all arcs", "confirmAll"],
    ["-", "-", "not this head", "forbidHead"],
    ["_", "_", "not this label", "forbidLabel"],
  ]],
  ["The parser", [
    ["Backspace Delete", "⌫", "refuse what the parser changed", "refuse"],
    ["t", "t", "take the suggestion for the word, or the first one", "take"],
    ["p", "p", "parse again; confirmed arcs stay", "parse"],
  ]],
  ["Columns and tokens", [
    ["u", "u", "UPOS", "upos"],
    ["x", "x", "XPOS", "xpos"],
    ["m", "m", "lemma", "lemma"],
    ["f", "f", "features", "feats"],
    ["w", "w", "form", "form"],
    ["s", "s", "split the word", "split"],
    ["g", "g", "join with the next word, or the selected words", "join"],
    ["G", "G", "make a multiword token of them, or remove it", "multiword"],
    ["S", "S", "start a sentence at this word", "splitSentence"],
    ["J", "J", "join with the next sentence", "joinSentence"],
    ["#", "#", "comments", "comments"],
    ["e", "e", "edit the lines in CoNLL-U", "lines"],
  ]],
  ["Sentences", [
    ["Enter", "Enter", "done, next", "done"],
    ["d", "d", "doubtful, next", "doubtful"],
    ["o", "o", "open again", "open"],
    ["n PageDown", "n PageDown", "next sentence", "next"],
    ["N PageUp", "N PageUp", "previous sentence", "previous"],
    ["/", "/", "search", "search"],
    ["q", "q", "to the list of sentences", "queue"],
    ["Control+z", "Ctrl+Z", "undo", "undo"],
    ["Control+Z Control+y", "Ctrl+Shift+Z", "redo", "redo"],
  ]],
  ["Two annotators", [
    ["a", "a", "take the arc and tags of A", "takeA"],
    ["b", "b", "take the arc and tags of B", "takeB"],
    ["A", "A", "take the whole tree and all tags of A", "treeA"],
    ["B", "B", "take the whole tree and all tags of B", "treeB"],
  ]],
  ["View", [
    ["z", "z", "wrap, fit or scroll", "wrap"],
    ["< >", "< >", "smaller, larger", "zoom"],
    ["?", "?", "this help", "help"],
  ]],
];

const COMMANDS = new Map(KEYS.flatMap(([, keys]) => keys.flatMap(([names, , , command]) => names.split(" ").map((name) => [name, command]))));

/** Return the command of a key press, or undefined. */
export function commandOf(event) {
  if (event.altKey) return undefined;
  const name = event.ctrlKey || event.metaKey ? `Control+${event.key}` : event.key;
  return COMMANDS.get(name);
}

/** Return the help: what the mouse does, and all keys. */
export function helpOf() {
  const mouse = ["Mouse", [
    ["", "drag", "a word onto its head, or onto ROOT"],
    ["", "click", "select a word; click it again, then its head or ROOT, to attach it"],
    ["", "click an arc", "select it, then type its label"],
    ["", "click a tag", "edit it in its place"],
    ["", "Shift+click", "select several words"],
  ]];
  return [mouse, ...KEYS].map(([title, keys]) => {
    const section = element("section");
    const list = element("dl");
    for (const [, name, meaning] of keys) {
      const term = element("dt");
      term.append(element("kbd", "", name));
      list.append(term, element("dd", "", meaning));
    }
    section.append(element("h3", "", title), list);
    return section;
  });
}
