// The entry: every page works without it. Each module adds one thing to what is already there.
import { follow } from "./live.js";
import { enhance } from "./swap.js";
import { localize } from "./times.js";

localize(document);
document.addEventListener("headgate:shown", (event) => localize(event.target));
enhance();
follow();
