// The parts of the page around the drawing. Text from a server or a link is never used as markup.

import { describeDecision } from "./decisions.js";

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const MARKS = [
  ["changed", "changed in this step"],
  ["old", "as it was before"],
  ["kept", "you decided this"],
  ["moved", "changed because of what you decided"],
  ["unsure", "0.50? – the parser is not sure"],
];

/** Create an element with a text and other properties. */
export function element(name, text, properties = {}) {
  return Object.assign(document.createElement(name), { textContent: text }, properties);
}

/** Return the name of a graph: G⁰, G¹ …, or tree if the tree differs from the last step. */
export function graphName({ t, title }) {
  return title.startsWith("best tree") ? "tree" : "G" + [...String(t)].map((digit) => RAISED[digit]).join("");
}

/** Return the name of a graph with its title. */
export function fullName(graph) {
  return graphName(graph) === "tree" ? graph.title : `${graphName(graph)}, ${graph.title}`;
}

/** Show one button per graph. */
export function showTimeline(list, graphs, chosen, onChoose) {
  const hasFocus = list.contains(document.activeElement);
  const items = graphs.map((graph, t) => {
    const button = element("button", graphName(graph), { type: "button", className: graph.changed.length ? "changes" : "" });
    button.setAttribute("aria-label", fullName(graph));
    if (t === chosen) button.setAttribute("aria-current", "step");
    button.addEventListener("click", () => onChoose(t));
    const item = element("li", "");
    item.append(button);
    return item;
  });
  list.replaceChildren(...items);
  if (hasFocus) items[chosen].firstChild.focus();
}

/** Explain the marks that the drawing contains, and list what is forbidden. */
export function showLegend(list, figure, forbidden) {
  const shown = MARKS.filter(([mark]) => [...figure.querySelectorAll(`.${mark}`)].some((each) => each.checkVisibility()));
  const items = [...shown, ...forbidden.map((text) => ["forbidden", `✗ ${text}`])];
  list.replaceChildren(...items.map(([mark, meaning]) => element("li", meaning, { className: `mark ${mark}` })));
}

/** Return the lemma, tags and features of a word as text, without those that are blank. */
export function analysis({ lemma, upos, xpos, feats }) {
  return [lemma, upos, xpos, feats.replaceAll("|", ", ")].filter((each) => each !== "_").join(" · ");
}

/** Show the words and their arcs as a table, for readers who do not see the drawing. */
export function showTable(body, words, graph, onOpen) {
  const focused = body.contains(document.activeElement) ? document.activeElement.dataset.word : null;
  const rows = words.map((word) => {
    const head = graph.heads[word.number - 1];
    const headText = head === null ? "none" : head === 0 ? "0 ROOT" : `${head} ${words[head - 1].form}`;
    const sure = graph.confidence?.[word.number - 1];
    const button = element("button", "Decide", { type: "button" });
    button.setAttribute("aria-label", `Decide about ${word.form}`);
    button.dataset.word = word.number;
    button.addEventListener("click", () => onOpen(word.number));
    const row = element("tr", "");
    row.append(
      element("td", word.number, { className: "number" }),
      element("th", word.form, { scope: "row", dir: "auto" }),
      element("td", word.lemma, { dir: "auto" }),
      element("td", word.upos, { dir: "auto" }),
      element("td", word.feats, { dir: "auto" }),
      element("td", headText, { dir: "auto" }),
      element("td", head === null ? "" : graph.labels[word.number - 1], { dir: "auto" }),
      element("td", sure === undefined ? "" : sure.toFixed(2), { className: "number" }),
      element("td", ""),
    );
    row.lastChild.append(button);
    return row;
  });
  body.replaceChildren(...rows);
  if (focused) body.querySelector(`button[data-word="${focused}"]`)?.focus();
}

/** List the decisions, each with a button that removes it. */
export function showDecisions(list, decisions, sentences, onRemove) {
  const items = decisions.map((each) => {
    const text = describeDecision(each, sentences[each.sentence - 1].words);
    const said = sentences.length > 1 ? `Sentence ${each.sentence}, ${text}` : text;
    const button = element("button", "Remove", { type: "button" });
    button.setAttribute("aria-label", `Remove: ${said}`);
    button.addEventListener("click", () => onRemove(each));
    const item = element("li", "");
    item.append(element("span", said), button);
    return item;
  });
  list.replaceChildren(...items);
}

/** Download a file. */
export function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", "", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
