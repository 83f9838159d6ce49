// A small line chart of what was seen lately: two series over the same time, the highest value written at its place.

import { short, svg } from "./draw.js";

const WIDTH = 320, HEIGHT = 84, TOP = 16;

export class Chart {
  constructor(root, seconds) {
    this.root = root;
    this.seconds = seconds;
    this.points = [];
    root.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    root.setAttribute("preserveAspectRatio", "none");
  }

  add(at, one, two) {
    this.points.push([at, one, two]);
    while (this.points.length && this.points[0][0] < at - this.seconds) this.points.shift();
    this.draw(at);
  }

  draw(now) {
    const most = Math.max(1e-9, ...this.points.flatMap(([, one, two]) => [one ?? 0, two ?? 0]));
    const x = at => WIDTH * (1 - (now - at) / this.seconds);
    const y = value => HEIGHT - 3 - (HEIGHT - TOP - 3) * value / most;
    const line = index => this.points.filter(point => point[index] !== null)
      .map(point => `${x(point[0]).toFixed(1)},${y(point[index]).toFixed(1)}`).join(" ");
    this.root.replaceChildren(
      svg("polyline", { class: "two", points: line(2), "vector-effect": "non-scaling-stroke" }),
      svg("polyline", { class: "one", points: line(1), "vector-effect": "non-scaling-stroke" }),
    );
    const said = this.root.parentElement.querySelector(".most") ?? this.root.parentElement.firstElementChild.appendChild(document.createElement("span"));
    said.className = "most";
    said.textContent = `; highest ${short(most)}`;
  }
}
