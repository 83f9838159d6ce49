"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const [diagram, head, axis, body, tip] = ["diagram", "head", "axis", "body", "tip"].map(find);
  const size = [head, axis, body].map((svg) => [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height]);
  let zoom = 1;
  const scale = (to) => {
    zoom = Math.min(6, Math.max(0.2, to));
    [head, axis, body].forEach((svg, place) => {
      svg.setAttribute("width", size[place][0] * zoom);
      svg.setAttribute("height", size[place][1] * zoom);
    });
    diagram.dataset.zoom = zoom.toFixed(3);
  };
  const fit = () => scale(Math.min(1.4, (diagram.clientWidth - 18) / (size[1][0] + size[2][0])));
  find("in").onclick = () => scale(zoom * 1.25);
  find("out").onclick = () => scale(zoom / 1.25);
  find("fit").onclick = fit;
  diagram.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    scale(zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
  }, { passive: false });

  const hiddenKinds = new Set(), hiddenLanes = new Set();
  const drawn = [...body.querySelectorAll("g[data-kind]")];
  const filter = () => {
    for (const each of drawn) {
      const lanes = each.dataset.lanes.split(" ");
      each.classList.toggle("off", hiddenKinds.has(each.dataset.kind) || lanes.some((lane) => hiddenLanes.has(lane)));
    }
  };
  for (const box of find("kinds").querySelectorAll("input")) {
    box.onchange = () => { hiddenKinds[box.checked ? "delete" : "add"](box.dataset.kind); filter(); };
  }
  for (const lane of head.querySelectorAll("g.lane")) {
    const turn = () => {
      const off = lane.classList.toggle("off");
      hiddenLanes[off ? "add" : "delete"](lane.dataset.lane);
      filter();
    };
    lane.addEventListener("click", turn);
    lane.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); turn(); } });
  }

  for (const title of document.querySelectorAll("svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  }
  let lit = null;
  const show = (event) => {
    const over = event.target.closest ? event.target.closest("[data-tip]") : null;
    if (lit) lit.classList.remove("lit");
    lit = over;
    tip.hidden = !over;
    if (!over) return;
    over.classList.add("lit");
    tip.textContent = over.dataset.tip;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 16 + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(8, x)}px`;
    tip.style.top = `${below ? event.clientY + 16 : event.clientY - 12 - tip.offsetHeight}px`;
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  if (size[1][0] + size[2][0] > diagram.clientWidth) scale(Math.max(0.8, (diagram.clientWidth - 18) / (size[1][0] + size[2][0])));
  else scale(1);
})();
