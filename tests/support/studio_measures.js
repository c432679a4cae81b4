// Measurements of the studio's page, for browser tests: places in the drawing, and the names of controls.
({
  /** Return the places on the label and on the line of each arc that are farthest from other arcs, in window pixels. */
  places() {
    const { left, top } = document.querySelector("#tree svg").getBoundingClientRect();
    const arcs = [...document.querySelectorAll("#tree svg .arc")].map((arc) => {
      const line = arc.querySelector(".line");
      const { x, y, width, height } = arc.querySelector(".behind").getBBox();
      const onLine = Array.from({ length: 99 }, (_, i) => line.getPointAtLength((line.getTotalLength() * (i + 1)) / 100));
      const isBehind = (place) => place.x >= x && place.x <= x + width && place.y >= y && place.y <= y + height;
      const onLabel = Array.from({ length: 19 }, (_, i) => ({ x: x + (width * (i + 1)) / 20, y: y + height / 2 }));
      return { word: +arc.dataset.word, line: onLine.filter((place) => !isBehind(place)), label: onLabel };
    });
    const clearest = (arc, kind) => {
      const others = arcs.filter((each) => each !== arc).flatMap(({ line, label }) => [...line, ...label]);
      const room = ({ x, y }) => Math.min(...others.map((each) => Math.hypot(each.x - x, each.y - y)));
      const { x, y } = arc[kind].map((place) => [room(place), place]).sort(([a], [b]) => b - a)[0][1];
      return { word: arc.word, kind, place: [left + x, top + y] };
    };
    return arcs.flatMap((arc) => [clearest(arc, "label"), clearest(arc, "line")]);
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
