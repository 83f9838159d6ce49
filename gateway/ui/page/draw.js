// Draws the network: the tree of clusters where there is one, a ring of clusters where brokers know views instead.
//
// A cluster is a box: who speaks for it above, its members below. Links are as wide as the logarithm of the events that go
// over them in a second, both ways; what is multicast in a cluster thickens the lines to its members.

const SVG = "http://www.w3.org/2000/svg";
const MEMBER = 46, BOX_PAD = 10, LEVEL = 52, SPEAKER_HEIGHT = 40, MEMBER_HEIGHT = 38, GAP = 18, PER_ROW = 6;
const LABELS_MAX = 150;

export function svg(name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

export function short(number) {
  if (number === null || number === undefined) return "–";
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (number >= limit * 0.9995) return `${Number((number / limit).toPrecision(3))}${unit}`;
  return number >= 10 || number === 0 ? number.toFixed(0) : number.toFixed(1);
}

export function drawNetwork(root, brokers, links) {
  const clusters = clustersOf(brokers);
  const sides = brokers.some(one => one.parent !== null && one.state !== "dead");
  const extent = sides ? placeTree(clusters) : placeRing(clusters);
  const rates = ratesOf(links);
  const named = brokers.length <= LABELS_MAX;
  const at = new Map();
  const parts = { boxes: [], links: [], brokers: [] };

  for (const cluster of clusters.values()) {
    parts.boxes.push(svg("rect", {
      class: "cluster", x: cluster.x, y: cluster.y, width: cluster.width, height: cluster.height, rx: 10,
    }));
    placeMembers(cluster, at);
  }
  for (const [one, two, multicast] of pairsOf(clusters, brokers, links, sides))
    if (at.has(one) && at.has(two)) {
      const rate = multicast ? rates.get(key(one, -1)) ?? 0 : (rates.get(key(one, two)) ?? 0);
      parts.links.push(linkOf(at.get(one), at.get(two), rate, named && sides && !multicast));
    }
  for (const one of brokers) if (at.has(one.broker)) parts.brokers.push(brokerOf(one, at.get(one.broker), named, at.get(one.parent)));

  root.setAttribute("viewBox", `0 0 ${extent.width} ${extent.height}`);
  root.setAttribute("width", extent.width);
  root.setAttribute("height", extent.height);
  root.replaceChildren(...parts.boxes, ...parts.links.flat(), ...parts.brokers);
}

function clustersOf(brokers) {
  const clusters = new Map();
  for (const one of brokers) {
    if (!clusters.has(one.cluster)) clusters.set(one.cluster, { id: one.cluster, members: [], speaker: null, below: [] });
    const cluster = clusters.get(one.cluster);
    if (one.role !== "NEB" && one.state !== "dead" && cluster.speaker === null) cluster.speaker = one;
    else cluster.members.push(one);
  }
  for (const cluster of clusters.values()) {
    const columns = Math.max(1, Math.min(PER_ROW, cluster.members.length));
    cluster.rows = Math.ceil(cluster.members.length / PER_ROW);
    cluster.width = Math.max(70, columns * MEMBER + 2 * BOX_PAD);
    cluster.height = (cluster.speaker ? SPEAKER_HEIGHT : 0) + cluster.rows * MEMBER_HEIGHT + 2 * BOX_PAD;
  }
  return clusters;
}

function placeTree(clusters) {
  const home = new Map();
  for (const cluster of clusters.values()) if (cluster.speaker) home.set(cluster.speaker.broker, cluster);
  const tops = [];
  for (const cluster of clusters.values()) {
    const above = cluster.speaker && home.get(cluster.speaker.parent);
    if (above && above !== cluster) above.below.push(cluster);
    else tops.push(cluster);
  }
  const levels = [];
  const seen = new Set();
  const measure = (cluster, depth) => {
    seen.add(cluster);
    cluster.depth = depth;
    levels[depth] = Math.max(levels[depth] ?? 0, cluster.height);
    cluster.below = cluster.below.filter(one => !seen.has(one));
    const wide = cluster.below.map(one => measure(one, depth + 1)).reduce((sum, width) => sum + width + GAP, -GAP);
    return cluster.span = Math.max(cluster.width, wide);
  };
  const place = (cluster, left, rows) => {
    cluster.x = left + (cluster.span - cluster.width) / 2;
    cluster.y = rows[cluster.depth];
    const wide = cluster.below.reduce((sum, one) => sum + one.span + GAP, -GAP);
    let x = left + (cluster.span - wide) / 2;
    for (const one of cluster.below) { place(one, x, rows); x += one.span + GAP; }
  };
  for (const top of tops) if (!seen.has(top)) measure(top, 0);
  for (const rest of clusters.values()) if (!seen.has(rest)) { tops.push(rest); measure(rest, 0); }  // a ring, while it heals
  const rows = [];
  let y = GAP;
  for (const height of levels) { rows.push(y); y += height + LEVEL; }
  let x = GAP;
  for (const top of tops) if (top.depth === 0) { place(top, x, rows); x += top.span + GAP; }
  return { width: x, height: y };
}

function placeRing(clusters) {
  const all = [...clusters.values()];
  const most = Math.max(...all.map(one => Math.max(one.width, one.height)));
  const radius = all.length < 2 ? 0 : Math.max(90, all.length * (most + GAP) / (2 * Math.PI));
  const middle = radius + most / 2 + GAP;
  all.forEach((cluster, index) => {
    const turn = 2 * Math.PI * index / all.length - Math.PI / 2;
    cluster.x = middle + radius * Math.cos(turn) - cluster.width / 2;
    cluster.y = middle + radius * Math.sin(turn) - cluster.height / 2;
  });
  return { width: 2 * middle, height: 2 * middle };
}

function placeMembers(cluster, at) {
  const middle = cluster.x + cluster.width / 2;
  let y = cluster.y + BOX_PAD;
  if (cluster.speaker) { at.set(cluster.speaker.broker, { x: middle, y: y + 14 }); y += SPEAKER_HEIGHT; }
  cluster.members.forEach((one, index) => {
    const row = Math.floor(index / PER_ROW);
    const columns = Math.min(PER_ROW, cluster.members.length - row * PER_ROW);
    at.set(one.broker, { x: middle + ((index % PER_ROW) - (columns - 1) / 2) * MEMBER, y: y + row * MEMBER_HEIGHT + 12 });
  });
}

const key = (one, two) => two < 0 ? `${one}*` : `${Math.min(one, two)}-${Math.max(one, two)}`;

function ratesOf(links) {
  const rates = new Map();
  for (const [from, to, rate] of links) rates.set(key(from, to), (rates.get(key(from, to)) ?? 0) + rate);
  return rates;
}

function pairsOf(clusters, brokers, links, sides) {
  const pairs = [];
  const alive = new Set(brokers.filter(one => one.state !== "dead").map(one => one.broker));
  for (const cluster of clusters.values())
    for (const one of cluster.members) if (cluster.speaker && alive.has(one.broker)) pairs.push([cluster.speaker.broker, one.broker, true]);
  if (sides) {
    for (const one of brokers) if (one.parent !== null && alive.has(one.broker) && alive.has(one.parent)) pairs.push([one.parent, one.broker, false]);
  } else {
    const found = new Set(links.filter(([, to]) => to >= 0).map(([from, to]) => key(from, to)));
    for (const pair of found) pairs.push([...pair.split("-").map(Number), false]);
  }
  return pairs;
}

function linkOf(from, to, rate, numbered) {
  const width = 1 + Math.min(9, 2 * Math.log10(1 + rate));
  const parts = [svg("line", { class: "link", x1: from.x, y1: from.y, x2: to.x, y2: to.y, "stroke-width": width.toFixed(1) })];
  if (numbered && rate >= 0.1)
    parts.push(svg("text", { class: "rate", x: from.x + (to.x - from.x) * 0.6, y: from.y + (to.y - from.y) * 0.6 }, `${short(rate)}/s`));
  return parts;
}

function brokerOf(one, where, named, above) {
  const kind = one.state === "alive" ? one.role.toLowerCase() : one.state;
  const group = svg("g", { class: `broker ${kind}`, transform: `translate(${where.x} ${where.y})` });
  const circle = svg("circle", { r: one.role === "NEB" || one.state === "dead" ? 8 : 11 });
  group.append(circle, svg("title", {}, `broker ${one.broker}, ${one.role}, ${one.state}`));
  if (named) group.append(svg("text", labelAt(one, where, above), one.state === "dead" ? `† ${one.name}` : one.name));
  return group;
}

// Where no link is. Below a broker that speaks for others begin links, and from above comes that of its parent: the label of
// the root stands above it, those of others stand beside them, away from the parent.
function labelAt(one, where, above) {
  if (one.role === "NEB" || one.state === "dead") return { y: 20 };
  if (one.role === "REB") return { y: -15 };
  if (!above) return { y: 24 };
  return above.x > where.x ? { x: -14, y: 2, class: "before" } : { x: 14, y: 2, class: "behind" };
}
