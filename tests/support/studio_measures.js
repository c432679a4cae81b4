// Measurements of the studio's page, for browser tests: places in the drawing, and the names of controls.
({
  /** Return the parts of each arc as they are drawn, in pixels of the drawing; a label is a box. */
  parts() {
    return [...document.querySelectorAll("#tree svg .arc")].flatMap((arc) => {
      const word = +arc.dataset.word;
      const pairs = arc.querySelector(".line").getAttribute("d").match(/-?[0-9.]+,-?[0-9.]+/g);
      // A rounded corner has three points, and the second is the corner itself.
      const isCorner = (index) => index === 0 || index === pairs.length - 1 || index % 3 === 2;
      const points = pairs.filter((_, index) => isCorner(index)).map((pair) => pair.split(",").map(Number));
      const lines = points.slice(1).map((point, index) => {
        const kind = point[0] === points[index][0] ? "upright" : "flat";
        return { word, kind, box: [...points[index], ...point] };
      });
      const { x, y, width, height } = arc.querySelector(".behind").getBBox();
      return [...lines, { word, kind: "label", box: [x + 2, y, x + width - 2, y + height] }];
    });
  },

  /** Bring a place of the drawing into view, and return it in pixels of the window. */
  inView([x, y]) {
    const tree = document.querySelector("#tree");
    if (x < tree.scrollLeft + 5 || x > tree.scrollLeft + tree.clientWidth - 5) tree.scrollLeft = x - 100;
    const { left, top } = tree.querySelector("svg").getBoundingClientRect();
    return [left + x, top + y];
  },

  /** Return the selected word and the id of the element that has the focus. */
  chosen() {
    return [+document.querySelector("#tree .word.selected")?.dataset.word, document.activeElement.id];
  },

  /** Return everything in the drawing that is wider than it. */
  tooWide() {
    const view = document.querySelector("#tree").getBoundingClientRect();
    return [...document.querySelectorAll("#tree .word, #tree svg *")]
      .filter((each) => {
        const { left, right } = each.getBoundingClientRect();
        return left < view.left - 1 || right > view.right + 1;
      })
      .map((each) => each.outerHTML);
  },

  /** Return the pairs of labels that overlap. */
  overlaps() {
    const labels = [...document.querySelectorAll("#tree svg text")];
    const boxes = labels.map((each) => each.getBoundingClientRect());
    const meet = (a, b) =>
      a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
    return labels.flatMap((one, i) =>
      labels.filter((_, j) => i < j && meet(boxes[i], boxes[j])).map((two) => `${one.textContent} ${two.textContent}`),
    );
  },

  /** Return the name and the height of each visible control; a small one is inside of its label. */
  controls() {
    const all = document.querySelectorAll("button, input, select, textarea, a, summary, [role=listbox], [role=option]");
    return [...all].filter((each) => each.checkVisibility()).map((each) => {
      const label = [...(each.labels ?? [])].map((one) => one.textContent).join(" ");
      const name = each.getAttribute("aria-label") || label || each.textContent || each.title;
      const target = each.matches("[type=checkbox], [type=radio], [type=range]") ? each.labels[0] : each;
      return { html: each.outerHTML, name: name.trim(), height: target.getBoundingClientRect().height };
    });
  },
})
