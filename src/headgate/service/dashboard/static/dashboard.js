// The entry: every page works without it. Each module adds one thing to what is already there.
import { follow } from "./live.js";
import { enhance } from "./swap.js";
import { scrub } from "./scrub.js";
import { localize } from "./times.js";

localize(document);
scrub();
document.addEventListener("headgate:shown", (event) => {
  localize(event.target);
  if (event.target.id === "session") scrub();
});
enhance();
follow();
