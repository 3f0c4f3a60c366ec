// The entry: every page works without it. Times become the reader's own, and parts marked data-live="SECONDS" are fetched
// again and again while the page is in view. After a failure the waits grow up to half a minute, and the first success
// brings the old pace back.
import { enhance, load } from "./swap.js";

const SHOWN = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
const LONGEST_S = 30;

/** Show every time below a node in the reader's time zone. */
function localize(node) {
  for (const time of node.querySelectorAll("time[datetime]")) {
    const when = new Date(time.dateTime);
    if (!Number.isNaN(when.getTime())) {
      time.title = time.dateTime;
      time.textContent = SHOWN.format(when);
    }
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
    const box = bars.getBoundingClientRect();
    const turn = Math.floor(((event.clientX - box.left) / box.width) * Number(slider.max)) + 1;
    slider.value = String(Math.max(1, Math.min(Number(slider.max), turn)));
    slider.dispatchEvent(new Event("input"));
  });
  show(slider, bars);
}

function show(slider, bars) {
  const turn = Number(slider.value);
  const marker = document.getElementById("marker");
  marker.setAttribute("x", String((turn - 1) * Number(bars.dataset.column)));
  marker.setAttribute("visibility", "visible");
  document.getElementById("turn-number").textContent = String(turn);
  const row = document.querySelector(`#turns tr[data-turn="${turn}"]`);
  const heads = [...document.querySelectorAll("#turns thead th")];
  const facts = document.createElement("dl");
  facts.className = "facts";
  heads.forEach((head, at) => {
    const cell = row?.cells[at];
    if (at === 0 || !cell?.textContent.trim()) return;
    const name = document.createElement("dt");
    name.textContent = head.textContent;
    const value = document.createElement("dd");
    value.append(...[...cell.childNodes].map((node) => node.cloneNode(true)));
    facts.append(name, value);
  });
  document.getElementById("turn-facts").replaceChildren(facts);
  for (const other of document.querySelectorAll("#turns tr[aria-current]")) other.removeAttribute("aria-current");
  row?.setAttribute("aria-current", "true");
}

localize(document);
scrub();
document.addEventListener("headgate:shown", (event) => {
  localize(event.target);
  if (event.target.id === "session") scrub();
});
enhance();
follow();
