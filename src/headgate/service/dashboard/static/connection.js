// Connection: says in one place that the service cannot be reached, and takes it back when it can.

const SENTENCES = {
  lost: "The connection is lost. Trying again.",
  failing: "The service does not answer as it should. Trying again.",
  "signed out": "You are signed out. Load the page again to sign in.",
};

/** Show how the connection is: "fine", or one of the above. */
export function report(state) {
  const banner = document.getElementById("connection");
  const sentence = SENTENCES[state] ?? "";
  if (banner.textContent !== sentence) banner.textContent = sentence;
  banner.hidden = !sentence;
}
