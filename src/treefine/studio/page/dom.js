// Elements of the page.

export const $ = (id) => document.getElementById(id);

/** Return a new element. */
export function element(name, classes = "", text = "") {
  const made = document.createElement(name);
  if (classes) made.className = classes;
  if (text) made.textContent = text;
  if (name === "button") made.type = "button";
  return made;
}

/** Return a new button with a text, a key beside it, and what it does. */
export function button(classes, text, onClick, key = "") {
  const made = element("button", classes, text);
  if (key) made.append(" ", element("kbd", "", key));
  made.addEventListener("click", onClick);
  return made;
}
