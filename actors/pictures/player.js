"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, given = {}, text) => {
    const found = document.createElement(name);
    for (const [key, value] of Object.entries(given)) found.setAttribute(key, value);
    if (text !== undefined) found.textContent = text;
    return found;
  };
  const draw = (name, given = {}, text) => {
    const found = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(given)) found.setAttribute(key, value);
    if (text !== undefined) found.textContent = text;
    return found;
  };
  const bit = (kind) => 1 << data.kinds.indexOf(kind);
  const QUIET = bit("tick") | bit("heartbeat") | bit("idle");
  const POINT = "-2";
  const APART = 200;
  const seconds = (micro, digits = 4) => `${(micro / 1e6).toFixed(digits)} s`;
  const counted = (many, word) => `${many} ${word}${many === 1 ? "" : "s"}`;
  const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

  // The part of the plane in which the brokers of a frame are.
  function around(frame) {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [key, value] of frame) {
      if (key[0] !== "p") continue;
      [left, right, top, bottom] = [Math.min(left, value[0]), Math.max(right, value[0]), Math.min(top, value[1]), Math.max(bottom, value[1])];
    }
    const wide = Math.max(260, right - left + 64), high = Math.max(150, bottom - top + 84);
    return [(left + right - wide) / 2, (top + bottom - high) / 2 + 4, wide, high];
  }

  // A run: its moments as differences, and some whole frames.
  class Run {
    constructor(given, place) {
      this.name = given.name;
      this.note = given.note;
      this.moments = given.moments;
      this.place = place;
      this.whole = [];
      const frame = new Map();
      [this.wide, this.high] = [0, 0];
      this.moments.forEach((moment, number) => {
        this.change(frame, moment);
        if (number % APART === 0) this.whole.push(new Map(frame));
        if (Object.keys(moment[4]).some((key) => key[0] === "p")) {
          const [, , wide, high] = around(frame);
          [this.wide, this.high] = [Math.max(this.wide, wide), Math.max(this.high, high)];
        }
      });
      this.chosen = null;
    }
    change(frame, moment) {
      for (const [key, value] of Object.entries(moment[4])) {
        if (value === null) frame.delete(key); else frame.set(key, value);
      }
    }
    frame(number) {
      const base = Math.floor(number / APART), found = new Map(this.whole[base]);
      for (let place = base * APART + 1; place <= number; place++) this.change(found, this.moments[place]);
      return found;
    }
  }
  const runs = data.runs.map((each, place) => new Run(each, place));
  const order = [];
  runs.forEach((run, place) => run.moments.forEach((moment, number) => order.push([moment[0], place, number])));
  order.sort((one, other) => one[0] - other[0] || one[1] - other[1] || one[2] - other[2]);
  const moment = (place) => runs[order[place][1]].moments[order[place][2]];
  const quiet = (place) => (moment(place)[1] & ~QUIET) === 0;
  let here = data.here, time = order[here][0], timer = null;

  // The parts of a run on the page.
  const parts = runs.map((run) => {
    const box = make("div", { class: "run" });
    const left = make("div"), right = make("div");
    const picture = make("section", { class: "sheet", "aria-label": `picture of ${run.name}` });
    if (runs.length > 1) picture.append(make("h2", {}, run.name));
    const inside = make("div", { class: "picture" });
    const least = Math.max(300, Math.round(run.wide * 0.62)), most = Math.round(run.wide * 2.1);
    const svg = draw("svg", { role: "group", "aria-label": `the network of ${run.name}` });
    svg.style.cssText = `width:100%;min-width:${least}px;max-width:${most}px;max-height:600px;aspect-ratio:${run.wide}/${run.high}`;
    inside.append(svg);
    picture.append(inside, make("p", { class: "legend" }));
    if (run.note) picture.append(make("p", { class: "note" }, `Not all is shown: ${run.note}.`));
    left.append(picture);
    const sheet = (name, where) => {
      const found = make("section", { class: "sheet" }), head = make("h3", {}, name), body = make("div", { class: "box", tabindex: "0" });
      found.append(head, body);
      where.append(found);
      return { head, body };
    };
    const near = sheet("Moments", right), broker = sheet("Broker", right);
    const clients = sheet("Clients", runs.length > 1 ? right : left), flights = sheet("Under way", right);
    box.append(left, right);
    find("runs").append(box);
    const legend = picture.querySelector(".legend");
    return { box, svg, legend, near, broker, clients, flights, nodes: new Map(), layers: null };
  });
  find("runs").classList.add(runs.length > 1 ? "two" : "one");

  const numberAt = (run) => {
    for (let place = here; place >= 0; place--) if (order[place][1] === run) return order[place][2];
    return 0;
  };
  const alive = (value) => value && value[0] !== "dead" && value[0] !== "gone";

  function where(frame, process, view) {
    if (process === null || process === undefined) return null;
    if (process === Number(POINT)) return [view[0] + 22, view[1] + 16];
    if (typeof process === "number") return frame.get(`p${process}`) || null;
    const client = frame.get(`c${process}`);
    const home = client && frame.get(`p${client[0]}`);
    return home ? [home[0], home[1] + 22] : null;
  }

  function line(from, to, name, back = 0) {
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]], long = Math.hypot(dx, dy) || 1;
    const given = { class: name, x1: from[0], y1: from[1], x2: to[0] - (dx / long) * back, y2: to[1] - (dy / long) * back };
    return draw("line", given);
  }

  function links(frame, view) {
    const found = [], brokers = [...frame].filter(([key]) => key[0] === "b");
    const dense = brokers.length > 6 && brokers.every(([, value]) => !alive(value) || value[2] !== "node" || value[5].length > 5);
    for (const [key, value] of brokers) {
      const me = Number(key.slice(1)), from = frame.get(`p${me}`);
      if (!from || !alive(value)) continue;
      if (value[2] === "node") {
        for (const other of value[5]) {
          const there = frame.get(`b${other}`), to = frame.get(`p${other}`);
          const both = alive(there) && there[5].includes(me);
          if (to && (!both || me < other)) found.push(line(from, to, `link ${dense ? "mesh" : "cube"}${both ? "" : " half"}`));
        }
      } else if (value[4] !== null && frame.get(`p${value[4]}`)) {
        const there = frame.get(`b${value[4]}`), member = value[2] === "member";
        const both = alive(there) && (member ? there[2] !== "member" : there[5].includes(me));
        found.push(line(from, frame.get(`p${value[4]}`), `link ${member ? "group" : "tree"}${both ? "" : " half"}`));
      }
    }
    for (const [key] of frame) {
      if (key[0] !== "x") continue;
      const [from, to] = key.slice(1).split(":").map((each) => where(frame, Number(each), view));
      if (from && to) found.push(line(from, to, "cutlink"));
    }
    return found;
  }

  function flightsOf(frame) {
    const found = new Map();
    for (const [key, value] of frame) {
      if (key[0] !== "f" || (value[5] && !find("all").checked)) continue;
      const way = JSON.stringify([value[0], value[1]]);
      if (!found.has(way)) found.set(way, []);
      found.get(way).push([key, value]);
    }
    return found;
  }

  // When a message left: the moment at which it was first seen under way.
  function left(run, key, number) {
    for (let place = number; place >= 0; place--) if (key in run.moments[place][4]) return run.moments[place][0];
    return run.moments[0][0];
  }

  function drawRun(run, part, frame, number, mine) {
    const { svg } = part, now = run.moments[number], way = mine && now[3] ? now[3] : [null, null];
    if (!part.layers) {
      part.layers = ["links", "ways", "nodes", "above"].map((name) => draw("g", { class: name }));
      svg.append(...part.layers);
    }
    const [back, ways, front, above] = part.layers;
    run.view = around(frame);
    svg.setAttribute("viewBox", run.view.join(" "));
    back.replaceChildren(...links(frame, run.view));
    ways.replaceChildren();
    above.replaceChildren();
    const from = where(frame, way[0], run.view), to = where(frame, way[1], run.view);
    if (from && to) {
      const arrow = line(from, to, "way", typeof way[1] === "number" ? 15 : 4), ends = ["x1", "y1", "x2", "y2"].map((each) => Number(arrow.getAttribute(each)));
      const turn = (Math.atan2(ends[3] - ends[1], ends[2] - ends[0]) * 180) / Math.PI;
      ways.append(arrow, draw("path", { class: "head", d: "M-8 -5L2 0L-8 5z", transform: `translate(${ends[2]} ${ends[3]}) rotate(${turn})` }));
    }
    const groups = flightsOf(frame);
    let labels = 0;
    for (const [ends, flights] of groups) {
      const [source, target] = JSON.parse(ends), one = where(frame, source, run.view), other = where(frame, target, run.view);
      if (!one || !other) continue;
      const [key, flight] = flights[0], begins = left(run, key, number);
      const apart = Math.hypot(other[0] - one[0], other[1] - one[1]), least = Math.min(0.45, 19 / Math.max(1, apart));
      const share = Math.min(1 - least, Math.max(least, (time - begins) / Math.max(1, flight[4] - begins)));
      const x = one[0] + share * (other[0] - one[0]), y = one[1] + share * (other[1] - one[1]);
      const group = draw("g", { class: `flight${flight[5] ? " beat" : ""}` });
      const words = flights.map(([, each]) => data.texts[each[2]]);
      group.append(draw("title", {}, `${words.join(", ")}: ${name(source)} to ${name(target)}`), draw("circle", { cx: x, cy: y, r: flight[5] ? 2.5 : 4 }));
      const label = short(words[0], 14) + (flights.length > 1 ? ` ×${flights.length}` : "");
      if (groups.size <= 5 && apart > 60 && !flight[5]) group.append(draw("text", { x: x + 6, y: y + (labels++ % 2 ? 12 : -5) }, label));
      const under = draw("g", { class: group.getAttribute("class") });
      under.append(line(one, other, ""));
      ways.append(under);
      above.append(group);
    }
    drawNodes(run, part, frame, front, way);
    drawLegend(part, frame);
  }

  const name = (process) => (process === Number(POINT) ? "the rendezvous point" : typeof process === "number" ? `broker ${process}` : process);

  function drawNodes(run, part, frame, front, way) {
    const homes = new Map();
    for (const [key, value] of frame) {
      if (key[0] !== "c" || value[1] === "left") continue;
      if (!homes.has(value[0])) homes.set(value[0], []);
      homes.get(value[0]).push(key.slice(1));
    }
    const seen = new Set();
    for (const [key, value] of frame) {
      if (key[0] !== "b") continue;
      const broker = key.slice(1), place = where(frame, Number(broker), run.view);
      if (!place) continue;
      seen.add(broker);
      let node = part.nodes.get(broker);
      if (!node) {
        node = draw("g", { tabindex: "0", role: "button", "data-broker": broker });
        const point = broker === POINT, size = 13;
        const body = point ? { x: -16, y: -10, width: 32, height: 20, rx: 5 } : { r: size };
        node.append(draw("title"), draw(point ? "rect" : "circle", { class: "body", ...body }));
        node.append(draw("circle", { class: "ring", r: size + 3 }), draw("text", { "text-anchor": "middle", y: 4 }));
        node.append(draw("text", { class: "below", "text-anchor": "middle", y: size + 13 }));
        const choose = () => { run.chosen = run.chosen === broker ? null : broker; show(); };
        node.addEventListener("click", choose);
        node.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); choose(); } });
        part.nodes.set(broker, node);
        front.append(node);
      }
      const names = homes.get(Number(broker)) || [], shown = names.includes(way[1]) ? way[1] : names.includes(way[0]) ? way[0] : names[0];
      const lit = names.includes(way[1]) || names.includes(way[0]);
      const said = broker === POINT ? "the rendezvous point" : `broker ${broker}, ${value[2]}`;
      node.setAttribute("class", `broker ${value[2]} ${value[0]}${way[1] === Number(broker) ? " now" : ""}${run.chosen === broker ? " chosen" : ""}`);
      node.setAttribute("transform", `translate(${place[0]} ${place[1]})`);
      node.setAttribute("aria-label", `${said}, ${value[0]}`);
      node.setAttribute("aria-pressed", run.chosen === broker);
      node.querySelector("title").textContent = `${said}, ${value[0]}${value[6] ? `, ${value[6]}` : ""}`;
      const texts = node.querySelectorAll("text");
      texts[0].textContent = alive(value) ? value[1] : `${value[1]}†`;
      const state = ["paused", "slow", "leaving"].includes(value[0]) ? value[0] : "";
      texts[1].textContent = state || (names.length ? short(shown, names.length > 1 && !lit ? 4 : 6) + (names.length > 1 ? ` +${names.length - 1}` : "") : "");
      texts[1].setAttribute("class", `below${lit ? " now" : ""}`);
    }
    for (const [broker, node] of part.nodes) node.style.display = seen.has(broker) ? "" : "none";
  }

  function drawLegend(part, frame) {
    const states = [...frame].filter(([key]) => key[0] === "b").map(([, value]) => value);
    const said = [];
    const count = (test) => states.filter(test).length;
    const root = count((each) => each[2] === "root"), heads = count((each) => each[2] === "designated");
    const members = count((each) => each[2] === "member"), nodes = count((each) => each[2] === "node");
    const dead = count((each) => !alive(each));
    if (root) said.push(["root", counted(root, "root")]);
    if (heads) said.push(["designated", `${heads} designated`]);
    if (members) said.push(["member", counted(members, "member")]);
    if (nodes) said.push(["node", counted(nodes, "broker")]);
    if (dead) said.push(["dead", `${dead} dead`]);
    const entries = said.map(([role, words]) => {
      const entry = make("span"), sign = draw("svg", { viewBox: "-7 -7 14 14", width: 12, height: 12, "aria-hidden": "true" }), dot = draw("g", { class: `broker ${role}` });
      dot.append(draw("circle", { class: "body", r: 6 }));
      sign.append(dot);
      entry.append(sign, ` ${words}`);
      return entry;
    });
    part.legend.replaceChildren(...entries, make("span", {}, "dashed link: only one end says so"));
  }

  const row = (cells, kind = "td") => {
    const found = make("tr");
    found.append(...cells.map((cell) => make(kind, {}, cell)));
    return found;
  };

  function table(heads, rows) {
    const found = make("table"), body = make("tbody");
    body.append(row(heads, "th"), ...rows);
    found.append(body);
    return found;
  }

  function showBroker(run, part, frame, way) {
    const home = (process) => (typeof process === "string" ? (frame.get(`c${process}`) || [null])[0] : process); // a client's is its broker
    const target = home(way[1]) ?? home(way[0]);
    if (run.chosen === null && target !== null) run.last = String(target);
    const broker = run.chosen ?? run.last ?? "0", value = frame.get(`b${broker}`);
    if (!value) { part.broker.head.textContent = "Broker"; part.broker.body.replaceChildren(); return; }
    const pinned = run.chosen === null ? "" : " (chosen; press it again to follow the moments)";
    part.broker.head.textContent = (broker === POINT ? "The rendezvous point" : `Broker ${broker}`) + pinned;
    const [size, entries] = frame.get(`t${broker}`) || [0, []], rows = [];
    const said = [value[0], value[2], value[3] >= 0 ? `cluster ${value[3]}` : "", value[4] === null ? "" : `below ${value[4]}`, value[6]];
    if (value[5].length) said.push((value[2] === "node" ? "beside " : "above ") + value[5].join(", "));
    if (value[7]) said.push(`incarnation ${value[7]}`);
    if (value[8]) said.push(`${value[8]} inputs wait`);
    const sizes = (frame.get(`s${broker}`) || []).map(([name, many]) => `${data.texts[name].replaceAll("_", " ")} ${many}`);
    for (const [item, link] of entries) rows.push(row([data.texts[item], link === -1 ? "its group" : name(link)]));
    const box = [make("p", { class: "note" }, said.filter(Boolean).join(", "))];
    if (rows.length) box.push(table(["wants", "over the link to"], rows));
    if (size > entries.length) box.push(make("p", { class: "note" }, `and ${size - entries.length} more`));
    if (sizes.length) box.push(make("p", { class: "note" }, sizes.join(", ")));
    part.broker.body.replaceChildren(...box);
  }

  function showClients(part, frame, way) {
    const rows = [];
    for (const [key, value] of frame) {
      if (key[0] !== "c") continue;
      const client = key.slice(1), wants = value[2].map(([number, text, confirmed]) => data.texts[text] + (confirmed ? "" : " (asked for)"));
      const had = value[3].map(([publisher, number]) => `${publisher}:${number}`);
      const done = [had.length ? `given ${had.join(", ")}` : "", value[4] ? `published ${value[4]}` : ""].filter(Boolean);
      const found = row([client, `${value[0]}${value[1] === "there" ? "" : ` (${value[1]})`}`, wants.join("; "), done.join("; ")]);
      if (way.includes(client)) found.className = "now";
      rows.push(found);
    }
    const box = rows.length ? [table(["client", "broker", "wants", "has"], rows)] : [make("p", { class: "note" }, "nobody yet")];
    if (frame.get("more")) box.push(make("p", { class: "note" }, `and ${frame.get("more")} more`));
    part.clients.body.replaceChildren(...box);
  }

  function showFlights(part, frame) {
    const flights = [...frame].filter(([key, value]) => key[0] === "f" && (!value[5] || find("all").checked)).map(([, value]) => value);
    flights.sort((one, other) => one[4] - other[4]);
    const list = make("ul", { class: "list" });
    for (const [source, target, kind, detail, arrives] of flights.slice(0, 60)) {
      const item = make("li"), about = data.texts[detail];
      item.append(make("time", {}, seconds(arrives)), `${data.texts[kind]}${about ? ` (${about})` : ""}: ${name(source)} to ${name(target)}`);
      list.append(item);
    }
    for (const [key, many] of frame) if (key[0] === "h") list.append(make("li", {}, `${many} held by the cut link ${key.slice(1).split(":").map((each) => name(Number(each))).join(" to ")}`));
    const beats = [...frame].filter(([key, value]) => key[0] === "f" && value[5]).length;
    part.flights.head.textContent = `Under way: ${counted(flights.length, "message")}` + (beats && !find("all").checked ? `, and ${counted(beats, "heartbeat")}` : "");
    part.flights.body.replaceChildren(list);
  }

  function showNear(run, part, number) {
    const list = make("ul", { class: "list" });
    const near = (from, way, most) => {
      const found = [];
      for (let place = from; place >= 0 && place < run.moments.length && found.length < most; place += way) {
        if (find("all").checked || place === 0 || (run.moments[place][1] & ~QUIET) !== 0) found.push(place);
      }
      return found;
    };
    for (const place of [...near(number - 1, -1, 3).reverse(), number, ...near(number + 1, 1, 6)]) {
      const item = make("li", place === number ? { class: "now", "aria-current": "step" } : {}), jump = make("button", { type: "button" });
      jump.append(make("time", {}, seconds(run.moments[place][0])), data.texts[run.moments[place][2]]);
      jump.onclick = () => go(order.findIndex(([, whose, other]) => whose === run.place && other === place));
      item.append(jump);
      list.append(item);
    }
    part.near.body.replaceChildren(list);
  }

  function show() {
    const mine = order[here][1], now = moment(here);
    runs.forEach((run, place) => {
      const part = parts[place], number = numberAt(place), frame = run.frame(number);
      const way = place === mine && run.moments[number][3] ? run.moments[number][3] : [null, null];
      drawRun(run, part, frame, number, place === mine);
      showBroker(run, part, frame, way);
      showClients(part, frame, way);
      showFlights(part, frame);
      showNear(run, part, number);
    });
    const kinds = data.kinds.filter((kind) => now[1] & bit(kind));
    find("says").replaceChildren(make("b", {}, `${runs.length > 1 ? `${runs[mine].name}, ` : ""}${seconds(now[0])} `), data.texts[now[2]]);
    find("clock").textContent = seconds(time, 3);
    slider.value = time;
    slider.setAttribute("aria-valuetext", `${seconds(time, 3)}: ${data.texts[now[2]]}`);
    document.body.dataset.here = here;
    document.body.dataset.kinds = kinds.join(" ");
    find("back").disabled = find("first").disabled = here === 0;
    find("forward").disabled = find("last").disabled = here === order.length - 1;
    for (const button of find("kinds").querySelectorAll("button")) button.disabled = next(button.dataset.kind, 1) === null;
  }

  function go(place, at) {
    here = Math.min(order.length - 1, Math.max(0, place));
    time = at === undefined ? order[here][0] : at;
    show();
  }

  function walk(way) {
    let place = here + way;
    while (place > 0 && place < order.length - 1 && !find("all").checked && quiet(place)) place += way;
    go(place);
  }

  function next(kind, way) {
    const wanted = bit(kind);
    for (let place = here + way; place >= 0 && place < order.length; place += way) if (moment(place)[1] & wanted) return place;
    return null;
  }

  function play(on) {
    clearInterval(timer);
    timer = on ? setInterval(() => { if (here === order.length - 1) play(false); else walk(1); }, 650) : null;
    find("play").textContent = on ? "⏸ pause" : "▶ play";
    find("play").setAttribute("aria-label", on ? "pause" : "play");
  }

  const slider = find("slider");
  slider.min = order[0][0];
  slider.max = order[order.length - 1][0];
  slider.step = Math.max(1, Math.round((slider.max - slider.min) / 20000));
  slider.oninput = () => {
    const at = Number(slider.value);
    let [low, high] = [0, order.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (order[middle][0] <= at) low = middle; else high = middle - 1;
    }
    go(low, at);
  };
  find("first").onclick = () => go(0);
  find("last").onclick = () => go(order.length - 1);
  find("back").onclick = () => walk(-1);
  find("forward").onclick = () => walk(1);
  find("play").onclick = () => play(timer === null);
  find("all").onchange = show;
  find("all").checked = order.every(([, , number], place) => number === 0 || quiet(place)); // else there was nothing to see
  data.kinds.forEach((kind) => {
    const many = order.reduce((sum, _, place) => sum + ((moment(place)[1] & bit(kind)) !== 0 && order[place][2] > 0), 0);
    if (!many || kind === "other" || kind === "idle") return;
    const button = make("button", { type: "button", "data-kind": kind, "aria-label": `to the next ${kind}, of ${many}` }, `${kind} `);
    button.append(make("span", {}, many.toLocaleString("en")));
    button.onclick = (event) => { const place = next(kind, event.shiftKey ? -1 : 1); if (place !== null) go(place); };
    find("kinds").append(button);
  });
  const keys = { m: "message", t: "tick", d: "death", e: "election" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const kind = keys[event.key.toLowerCase()];
    if (event.key === "ArrowRight") walk(1);
    else if (event.key === "ArrowLeft") walk(-1);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(order.length - 1);
    else if (event.key === " " && !event.target.closest("button, input, [role=button]")) play(timer === null);
    else if (kind) { const place = next(kind, event.shiftKey ? -1 : 1); if (place !== null) go(place); }
    else return;
    event.preventDefault();
  });
  show();
})();
