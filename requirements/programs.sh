#!/bin/sh
# Programs that tests drive: a browser for the dashboard, Node.js for a JavaScript client, nginx. They come from apt-get if it
# asks for no password; otherwise their tests are skipped and say how to get them.
missing=
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
  missing="chromium fonts-dejavu-core"
command -v npm >/dev/null || missing="$missing nodejs npm"
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing="$missing nginx-light"
[ -n "$missing" ] && command -v apt-get >/dev/null || exit 0
if [ "$(id -u)" = 0 ]; then as_root=
elif sudo -n true 2>/dev/null; then as_root="sudo -n"
else exit 0; fi
echo "== installing what tests drive with apt-get (once): $missing"
# shellcheck disable=SC2086  # words, not one argument
{ $as_root apt-get update -qq &&
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >/dev/null ||
  echo "== apt-get could not; the tests that need it are skipped"
