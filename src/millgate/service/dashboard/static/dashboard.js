// The entry: every page works without it. Times become the reader's own, and parts marked data-live="SECONDS" are fetched
// again and again while the page is in view. After a failure the waits grow up to half a minute, and the first success
// brings the old pace back.
import { enhance, load } from "./swap.js";

const format = (options) => new Intl.DateTimeFormat(undefined, options);
const CLOCK = format({ timeStyle: "medium" });
const DATE = format({ dateStyle: "short", timeStyle: "short" });
const SHORT = { clock: format({ hour: "numeric", minute: "2-digit" }), day: format({ month: "short", day: "numeric" }) };
const LONGEST_S = 30;

/** Show every time below a node in the reader's time zone: of today the clock alone. */
function localize(node) {
  const today = new Date().toDateString();
  for (const time of node.querySelectorAll("time[datetime]")) {
    const when = new Date(time.dateTime);
    if (!Number.isNaN(when.getTime())) {
      time.title = time.dateTime;
      const shown = SHORT[time.dataset.short] ?? (when.toDateString() === today ? CLOCK : DATE);
      time.textContent = shown.format(when);
    }
  }
}

/** Give every command below a node a button that copies it; browsers allow that on this machine and over TLS. */
function offerCopies(node) {
  if (!navigator.clipboard) return;
  for (const command of node.querySelectorAll("pre[data-copy]:not(:has(button))")) {
    const text = command.textContent;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    });
    command.append(button);
  }
}

/** Keep the marked parts of this page up to date. */
function follow() {
  const parts = [...document.querySelectorAll("[data-live]")].filter((part) => part.id);
  if (!parts.length) return;
  const pace = Math.min(...parts.map((part) => Number(part.dataset.live)));
  let wait = pace;

  async function again() {
    if (!document.hidden) {
      const worked = await load(location.href, parts.map((part) => part.id));
      wait = worked ? pace : Math.min(LONGEST_S, wait * 2);
    }
    setTimeout(again, wait * 1000);
  }

  setTimeout(again, wait * 1000);
  window.addEventListener("online", () => load(location.href, parts.map((part) => part.id)));
}

let chosen = 0; // the turn that the reader chose; it stays when the session grows

/** Wire up the slider over the turns of a session, wherever it stands on the page now. It marks the turn's bar and shows
 * the turn's row of the table beside it. */
function scrub() {
  const slider = document.getElementById("turn");
  const bars = document.getElementById("bars");
  if (!slider || !bars) return;
  document.getElementById("scrubber").hidden = false;
  if (chosen) slider.value = String(chosen);
  slider.addEventListener("input", () => {
    chosen = Number(slider.value);
    show(slider, bars);
  });
  bars.addEventListener("click", (event) => {
    slider.value = String(columnAt(bars, event) + 1);
    slider.dispatchEvent(new Event("input"));
  });
  show(slider, bars);
}

function show(slider, bars) {
  const turn = Number(slider.value);
  const row = rowOf(bars, turn - 1);
  mark(bars, turn - 1);
  document.getElementById("turn-number").textContent = String(turn);
  document.getElementById("turn-facts").replaceChildren(describe(row, 1));
  for (const other of document.querySelectorAll("#turns tr[aria-current]")) other.removeAttribute("aria-current");
  row?.setAttribute("aria-current", "true");
}

function columnAt(plot, event) {
  const box = plot.getBoundingClientRect();
  const columns = Number(plot.dataset.columns);
  return Math.max(0, Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns)));
}

function rowOf(plot, column) {
  return document.querySelector(`#${plot.dataset.rows} tr[data-at="${column}"]`);
}

function mark(plot, column) {
  const marker = plot.querySelector(".marker");
  marker.setAttribute("x", String(column * Number(marker.getAttribute("width"))));
  marker.setAttribute("visibility", "visible");
}

/** The cells of a row that say something, each with the head of its column; the first ones may be known already. */
function describe(row, known = 0) {
  const facts = document.createElement("dl");
  facts.className = "facts";
  const heads = row?.closest("table").querySelectorAll("thead th") ?? [];
  heads.forEach((head, at) => {
    const cell = row.cells[at];
    if (at < known || !cell.textContent.trim()) return;
    const name = document.createElement("dt");
    name.textContent = head.textContent;
    const value = document.createElement("dd");
    value.append(...[...cell.childNodes].map((node) => node.cloneNode(true)));
    facts.append(name, value);
  });
  return facts;
}

const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;

/** Show the numbers of the column under the pointer. The tables have the same for those who use none. */
function point(event) {
  const plot = event.target.closest?.("svg[data-rows]");
  const row = plot && rowOf(plot, columnAt(plot, event));
  if (!tip.hidden && tip.plot !== plot && tip.plot.id !== "bars") tip.plot.querySelector(".marker").setAttribute("visibility", "hidden");
  tip.hidden = !row;
  if (!row) return;
  tip.plot = plot;
  if (plot.id !== "bars") mark(plot, columnAt(plot, event));
  tip.replaceChildren(describe(row));
  const left = Math.min(event.pageX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${event.pageY + 18}px`;
}

function prepare(node) {
  localize(node);
  offerCopies(node);
}

document.body.append(tip);
document.addEventListener("pointermove", point);
document.addEventListener("pointerdown", point);
document.querySelector(".top [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
prepare(document);
scrub();
document.addEventListener("millgate:shown", (event) => {
  prepare(event.target);
  if (event.target.id === "session") scrub();
});
enhance();
follow();
