// The live page: one WebSocket that brings a look at the network each second; nothing is fetched from elsewhere.
//
// What comes is text and is put into the page as text, never as HTML: names and events are whatever clients made them.

import { Chart } from "./chart.js";
import { drawNetwork, short } from "./draw.js";

const MINUTES_SECONDS = 120, SEEN_MAX = 50, AGAIN_MS = 1000, AGAIN_MAX_MS = 15000;
const find = id => document.getElementById(id);
const flow = new Chart(find("flow"), MINUTES_SECONDS), latency = new Chart(find("latency"), MINUTES_SECONDS);

// `rayvous ui` gives a code behind the #, which no server is sent; it is good once, and is exchanged for the token.
let code = null;
if (location.hash.length > 1) {
  code = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
}

let socket = null, again = AGAIN_MS, token = sessionStorage.getItem("rayvous-token"), trying = false, tried = false;
const seen = [];

function connect() {
  const address = new URL("live", document.baseURI);
  address.protocol = address.protocol.replace("http", "ws");
  socket = new WebSocket(address);
  socket.onopen = () => {
    tried = code !== null || token !== null;
    send(code === null ? { token } : { code });
    code = null;
  };
  socket.onmessage = message => take(JSON.parse(message.data));
  socket.onclose = event => {
    trying = false;
    if (event.code === 4401) return signIn(event.reason);
    state("not connected", "broken");
    setTimeout(connect, again);
    again = Math.min(AGAIN_MAX_MS, 2 * again);
  };
}

const send = words => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(words));

function signIn(why) {
  state("signed out", "");
  find("sign-in").hidden = false;
  find("refused").textContent = tried ? why : "";
  find("token").focus();
}

find("sign-in").onsubmit = event => {
  event.preventDefault();
  keep(find("token").value);
  find("sign-in").hidden = true;
  connect();
};

function keep(given) {
  token = given;
  sessionStorage.setItem("rayvous-token", token);
}

function take(words) {
  again = AGAIN_MS;
  if (words.kind === "token") keep(words.token);
  else if (words.kind === "look") show(words);
  else if (words.kind === "events") showEvents(words);
  else if (words.kind === "said") find("try-said").textContent = words.text;
}

function state(text, kind) {
  find("state").textContent = text;
  find("state").className = `pill ${kind}`;
}

function show(look) {
  document.title = `${look.name}: ${look.state}`;
  find("name").textContent = look.name;
  state(look.state, look.state.split(" ")[0]);
  const clusters = new Set(look.brokers.map(one => one.cluster)).size;
  find("about").textContent = `${look.scheme}, ${look.brokers.length} brokers in ${clusters} clusters`;
  fill("problems", look.problems.map(text => element("li", text)));

  const sum = name => look.brokers.reduce((total, one) => total + (one[name] ?? 0), 0);
  find("events").textContent = short(look.events_per_second);
  find("notified").textContent = short(look.notified_per_second);
  const ms = name => look.latency_seconds[name] === null ? null : 1000 * look.latency_seconds[name];
  for (const name of ["p50", "p99"]) find(name).textContent = ms(name) === null ? "–" : `${short(ms(name))} ms`;
  for (const name of ["queued", "lost"]) find(name).textContent = whole(sum(name));
  flow.add(look.at, look.events_per_second, look.notified_per_second);
  latency.add(look.at, ms("p50"), ms("p99"));

  drawNetwork(find("tree"), look.brokers, look.links);
  fill("brokers", look.brokers.map(one => rowOf(one, look.may_kill)));
  fill("timeline", look.timeline.map(entryOf).reverse());
  find("books-part").hidden = look.books.length === 0;
  fill("books", look.books.map(bookOf));
  find("durables-part").hidden = look.durables.length === 0;
  fill("durables", look.durables.map(durableOf));
}

function rowOf(one, mayKill) {
  const row = document.createElement("tr");
  const dead = one.state === "dead";
  row.append(element("td", String(one.broker)), element("td", dead ? "–" : one.role), element("td", one.state, one.state));
  for (const name of ["clients", "filters"]) row.append(element("td", dead ? "–" : whole(one[name]), "n"));
  for (const name of ["in", "out", "notified"]) row.append(element("td", dead ? "–" : short(one[name]), "n"));
  for (const name of ["queued", "lost"]) row.append(element("td", dead ? "–" : whole(one[name]), "n"));
  const last = row.appendChild(document.createElement("td"));
  if (mayKill && !dead) {
    const button = last.appendChild(element("button", "kill", "danger"));
    button.setAttribute("aria-label", `kill broker ${one.broker}`);
    button.onclick = () => kill(one);
  }
  return row;
}

function kill(one) {
  find("sure-text").textContent = `End the process of broker ${one.broker} (${one.role}) as a crash would? The network heals.`;
  find("sure").onclose = () => find("sure").returnValue === "yes" && send({ kill: one.broker });
  find("sure").returnValue = "no";
  find("sure").showModal();
}

function entryOf(entry) {
  const item = element("li", "", entry.mood);
  const when = new Date(1000 * entry.at);
  const time = item.appendChild(element("time", when.toLocaleTimeString()));
  time.dateTime = when.toISOString();
  item.append(entry.text);
  return item;
}

function bookOf(book) {
  const row = document.createElement("tr");
  const meter = document.createElement("meter");
  meter.value = Math.min(1, book.reserved / Math.max(book.limit, 1e-9));
  meter.high = 0.9;
  const share = document.createElement("td");
  share.append(meter);
  row.append(element("td", String(book.broker)), element("td", book.of), element("td", short(book.reserved), "n"),
    element("td", short(book.limit), "n"), share);
  return row;
}

function durableOf(one) {
  const row = document.createElement("tr");
  const away = one.away_seconds === null ? "away" : `away ${whole(Math.round(one.away_seconds))} s`;
  row.append(element("td", one.name), element("td", String(one.broker)),
    element("td", one.attached ? "attached" : away, one.attached ? "alive" : "silent"),
    element("td", whole(one.events), "n"), element("td", whole(Math.round(one.seconds)), "n"));
  return row;
}

find("try").onsubmit = event => {
  event.preventDefault();
  trying = !trying;
  find("try-button").textContent = trying ? "Stop" : "Try";
  if (trying) { seen.length = 0; find("events-seen").textContent = ""; }
  send({ try: trying ? find("selector").value : null });
  find("try-said").textContent = trying ? "subscribing" : "stopped";
};

function showEvents(words) {
  find("try-said").textContent = `${words.count} so far`;
  seen.unshift(...words.events.reverse());
  seen.length = Math.min(seen.length, SEEN_MAX);
  find("events-seen").textContent = seen.join("\n");
}

function element(name, text, style = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (style) made.className = style;
  return made;
}

const whole = number => number < 10_000 ? String(number) : short(number);
const fill = (id, children) => find(id).replaceChildren(...children);

connect();
