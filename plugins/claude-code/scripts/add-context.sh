#!/bin/sh
# Add context to a prompt: pass the hook's input to a running `headgate serve`, and its answer back to Claude Code.
# It fails open: whatever goes wrong, the prompt goes on unchanged within a second.
#
#   HEADGATE_URL       where the service is (http://127.0.0.1:8642)
#   HEADGATE_KEY       an API key, if the service wants one
#   HEADGATE_HOOK=off  no context with prompts
#   HEADGATE_HOOK_S    seconds to wait for context (0.9)

[ "${HEADGATE_HOOK:-on}" = "off" ] && exit 0
command -v curl >/dev/null 2>&1 || exit 0

# The key goes through a file descriptor, since arguments can be read by every user of the machine.
curl --silent --fail --noproxy '*' --max-time "${HEADGATE_HOOK_S:-0.9}" --max-filesize 1000000 \
  --header 'content-type: application/json' --data-binary @- --config /dev/fd/3 \
  "${HEADGATE_URL:-http://127.0.0.1:8642}/v1/hooks/prompt" 2>/dev/null 3<<EOF
header = "${HEADGATE_KEY:+x-headgate-key: $HEADGATE_KEY}"
EOF
exit 0
