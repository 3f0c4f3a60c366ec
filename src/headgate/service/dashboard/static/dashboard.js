// The entry: every page works without it. Times become the reader's own, and parts marked data-live="SECONDS" are fetched
// again and again while the page is in view. After a failure the waits grow up to half a minute, and the first success
// brings the old pace back.
import { enhance, load } from "./swap.js";
import { scrub } from "./scrub.js";

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

localize(document);
scrub();
document.addEventListener("headgate:shown", (event) => {
  localize(event.target);
  if (event.target.id === "session") scrub();
});
enhance();
follow();
