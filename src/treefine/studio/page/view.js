// How the page looks: the settings of the View menu, which the browser remembers, and the welcome.

import { $ } from "./dom.js";
import { state } from "./state.js";
import { draw } from "./sentence.js";
import { Tree } from "./tree.js";

const DEFAULTS = { wrap: "wraps", zoom: "100", cells: "upos xpos lemma feats", colours: "auto", confirms: "no", welcomed: "no" };

export const settings = {
  get: (name) => localStorage.getItem(`treefine-${name}`) ?? DEFAULTS[name],
  cells: () => settings.get("cells").split(" ").filter(Boolean),
  choose(name, value) {
    localStorage.setItem(`treefine-${name}`, value);
    settings.load();
    if (state.sentence) draw();
  },
  load() {
    for (const each of ["wraps", "fits", "scrolls"]) $("tree").classList.toggle(each, each === settings.get("wrap"));
    for (const radio of document.querySelectorAll("#view-menu [type=radio]")) radio.checked = radio.value === settings.get(radio.name);
    for (const box of document.querySelectorAll("#cells input")) box.checked = settings.cells().includes(box.value);
    document.documentElement.dataset.colours = settings.get("colours");
    $("zoom").value = settings.get("zoom");
    $("tree").style.fontSize = `${settings.get("zoom") / 100}rem`;
    $("confirms").checked = settings.get("confirms") === "yes";
  },
};

for (const radio of document.querySelectorAll("#view-menu [type=radio]")) radio.addEventListener("change", () => settings.choose(radio.name, radio.value));
for (const box of document.querySelectorAll("#cells input")) {
  box.addEventListener("change", () => settings.choose("cells", [...document.querySelectorAll("#cells input:checked")].map(({ value }) => value).join(" ")));
}
$("zoom").addEventListener("input", () => settings.choose("zoom", $("zoom").value));
$("confirms").addEventListener("change", () => settings.choose("confirms", $("confirms").checked ? "yes" : "no"));
$("close-welcome").addEventListener("click", () => {
  $("welcome").hidden = true;
  settings.choose("welcomed", "yes");
});

/** Show what the page can do, until the person closes it; always with the example. */
export function welcome() {
  $("welcome").hidden = settings.get("welcomed") === "yes" && !state.project.is_example;
  const rows = ["Nobody 2 nsubj PRON", "read 0 root VERB", "the 5 det DET", "last 5 amod ADJ", "page 2 obj NOUN", ". 2 punct PUNCT"];
  const words = rows.map((row, index) => {
    const [form, head, label, upos] = row.split(" ");
    return { number: index + 1, form, head: +head, label, upos, not_heads: [], not_labels: [] };
  });
  new Tree($("welcome-tree")).show({ key: 0, tokens: [], empty: [], words }, { cells: ["upos"] });
}
