// Live: parts marked data-live="SECONDS" are fetched again and again while the page is in view. After a failure the
// waits grow up to half a minute, and the first success brings the old pace back.
import { load } from "./swap.js";

const LONGEST_S = 30;

/** Keep the marked parts of this page up to date. */
export function follow() {
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
