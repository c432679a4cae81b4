// What a person decided about arcs. A decision is of one word: it keeps an arc, a head or a label, or forbids one.

const SPELLED = /^([1-9]\d{0,5}) ([1-9]\d{0,5}) (?:(arc) (\d{1,6}) (.{1,100})|(head|not-head) (\d{1,6})|(label|not-label) (.{1,100}))$/u;

/** A decision as one line: "1 4 arc 3 obj", "1 4 not-head 3", "1 4 label obj"; sentence and word come first. */
export function spelled({ sentence, word, kind, head, label }) {
  return [sentence, word, kind, head, label].filter((part) => part !== null).join(" ");
}

/** The decision of such a line; null where it is none. */
export function decisionOf(line) {
  const found = SPELLED.exec(line);
  if (found === null) return null;
  const [, sentence, word, arc, arcHead, arcLabel, headKind, head, labelKind, label] = found;
  return decision(+sentence, +word, arc ?? headKind ?? labelKind, arcHead ?? head, arcLabel ?? label);
}

/** A decision of this kind, with the head and the label as far as they matter for it. */
export function decision(sentence, word, kind, head, label) {
  const speaksOf = (what) => kind === "arc" || kind === what || kind === `not-${what}`;
  return { sentence, word, kind, head: speaksOf("head") ? +head : null, label: speaksOf("label") ? label : null };
}

/** The decisions with one more; those that it contradicts are gone, and an arc may lose its head or its label. */
export function withDecision(decisions, added) {
  const others = decisions.map((each) => (isOfWord(each, added.sentence, added.word) ? whatIsLeft(each, added) : each));
  return [...others.filter((each) => each !== null), added];
}

/** Whether a decision is of this word. */
export function isOfWord(each, sentence, word) {
  return each.sentence === sentence && each.word === word;
}

function whatIsLeft(old, added) {
  if (spelled(old) === spelled(added)) return null;
  const keeps = (each, what) => each.kind === "arc" || each.kind === what;
  const takesHead = keeps(added, "head") || (added.kind === "not-head" && old.head === added.head);
  const takesLabel = keeps(added, "label") || (added.kind === "not-label" && old.label === added.label);
  if (old.kind === "arc") {
    if (takesHead) return null; // its label was that of the arc
    return takesLabel ? { ...old, kind: "head", label: null } : old;
  }
  if (old.kind === "head") return takesHead ? null : old;
  if (old.kind === "label") return takesLabel ? null : old;
  if (old.kind === "not-head") return keeps(added, "head") && old.head === added.head ? null : old;
  return keeps(added, "label") && old.label === added.label ? null : old;
}

/** The decisions as the server takes them. */
export function constraintsOf(decisions) {
  const bySentence = new Map();
  for (const { sentence, word, kind, head, label } of decisions) {
    if (!bySentence.has(sentence)) {
      bySentence.set(sentence, { sentence, heads: {}, labels: {}, not_heads: {}, not_labels: {} });
    }
    const decided = bySentence.get(sentence);
    if (kind === "not-head") (decided.not_heads[word] ??= []).push(head);
    else if (kind === "not-label") (decided.not_labels[word] ??= []).push(label);
    else {
      if (head !== null) decided.heads[word] = head;
      if (label !== null) decided.labels[word] = label;
    }
  }
  return [...bySentence.values()];
}

/** The word of this number, so that whatever it is written in, what stands around it keeps its order. */
export function named(words, number) {
  const [start, end] = ["\u2068", "\u2069"]; // they set apart what may run from the right
  return number === 0 ? "ROOT" : `${start}${words[number - 1]?.form ?? `word ${number}`}${end}`;
}

/** A decision in words. */
export function told({ word, kind, head, label }, words) {
  const says = {
    arc: () => `${named(words, head)}, ${label}`,
    head: () => `head ${named(words, head)}`,
    label: () => `label ${label}`,
    "not-head": () => `not the head ${named(words, head)}`,
    "not-label": () => `not the label ${label}`,
  };
  return `${word} ${named(words, word)}: ${says[kind]()}`;
}
