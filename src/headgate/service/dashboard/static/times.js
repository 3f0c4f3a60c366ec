// Times: the server writes UTC; here they become the reader's own.

const SHOWN = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

/** Show every time below a node in the reader's time zone. */
export function localize(node) {
  for (const time of node.querySelectorAll("time[datetime]")) {
    const when = new Date(time.dateTime);
    if (!Number.isNaN(when.getTime())) {
      time.title = time.dateTime;
      time.textContent = SHOWN.format(when);
    }
  }
}
