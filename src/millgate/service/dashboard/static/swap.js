// Swap: forms and links marked data-swap="ID ..." load their address in the background and replace the parts of the page
// with those ids by the same parts of what came. A form does so while it is being filled in, or with data-wait="submit"
// only when a slider is moved or it is sent. A banner says when the service cannot be reached, and takes it back when it can.

const SENTENCES = {
  lost: "The connection is lost. Trying again.",
  failing: "The service does not answer as it should. Trying again.",
  "signed out": "You are signed out. Load the page again to sign in.",
};
const WAIT_MS = 150;
const shown = new Map(); // what the server last sent for an id: scripts may have changed what is shown since
let asking = new AbortController(); // what is being loaded for a form or a link: a later one takes its place

/** Replace parts of this page by the parts of another page that have the same ids. Returns whether that worked. */
export async function load(address, ids, { signal } = {}) {
  let response;
  try {
    response = await fetch(address, { credentials: "same-origin", signal });
  } catch (error) {
    if (error.name !== "AbortError") report("lost");
    return false;
  }
  if (response.status === 401) {
    report("signed out");
    return false;
  }
  if (response.status >= 500 || response.status === 429) {
    report("failing");
    return false;
  }
  report("fine");
  const text = await response.text().catch(() => ""); // the rest may be lost, or no longer be wanted
  if (!text || signal?.aborted) return false;
  const other = new DOMParser().parseFromString(text, "text/html");
  const problem = response.ok ? null : other.querySelector(".problem");
  for (const id of ids) put(document.getElementById(id), problem ?? other.getElementById(id));
  return response.ok;
}

function put(here, there) {
  if (!here || !there || shown.get(here.id) === there.innerHTML) return;
  shown.set(here.id, there.innerHTML);
  if (there.id !== here.id) {
    here.replaceChildren(there); // a problem, in the place of what was asked for
    return;
  }
  const focused = here.contains(document.activeElement) ? document.activeElement.id : "";
  const open = [...here.querySelectorAll("details[open]")].map((details) => details.id);
  here.replaceChildren(...there.childNodes);
  for (const id of open) if (id) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  here.dispatchEvent(new CustomEvent("millgate:shown", { bubbles: true }));
}

async function swap(element, address) {
  asking.abort();
  const mine = (asking = new AbortController());
  const ids = element.dataset.swap.split(" ");
  for (const id of ids) document.getElementById(id)?.setAttribute("aria-busy", "true");
  const worked = await load(address, ids, mine);
  if (mine.signal.aborted) return;
  for (const id of ids) document.getElementById(id)?.removeAttribute("aria-busy");
  if (worked && element.dataset.keep !== "off") history.replaceState(null, "", address);
}

function addressOf(form) {
  const address = new URL(form.action);
  for (const [name, value] of new FormData(form)) if (value !== "") address.searchParams.append(name, value);
  return address.href;
}

/** Show beside a slider where it stands. */
function label(input) {
  const output = input.parentElement?.querySelector(".value");
  if (output) output.textContent = input.value;
}

// After a reset the form's fields have their old values only once the event is over.
function afterReset(form) {
  for (const input of form.querySelectorAll("input[type=range]")) {
    label(input);
  }
  swap(form, addressOf(form));
}

/** Listen for marked forms and links. */
export function enhance() {
  let timer;
  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (!form?.dataset.swap || (form.dataset.wait === "submit" && event.target.type !== "range")) return;
    label(event.target);
    clearTimeout(timer);
    timer = setTimeout(() => swap(form, addressOf(form)), WAIT_MS);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.dataset.swap || event.target.method !== "get") return;
    event.preventDefault();
    clearTimeout(timer);
    swap(event.target, addressOf(event.target));
  });
  document.addEventListener("reset", (event) => {
    if (event.target.dataset.swap) setTimeout(() => afterReset(event.target));
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-swap]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    swap(link, link.href);
  });
}

/** Show how the connection is: "fine", or one of the above. */
function report(state) {
  const banner = document.getElementById("connection");
  const sentence = SENTENCES[state] ?? "";
  if (banner.textContent !== sentence) banner.textContent = sentence;
  banner.hidden = !sentence;
}
