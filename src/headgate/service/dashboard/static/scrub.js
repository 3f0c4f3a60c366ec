// Scrub: a slider over the turns of a session. It marks the turn's bar and shows the turn's row of the table beside it.

let chosen = 0; // the turn that the reader chose; it stays when the session grows

/** Wire up the slider, wherever it stands on the page now. */
export function scrub() {
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
