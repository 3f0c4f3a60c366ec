"""Lengths: how long everything may be that comes from outside, in one place.

Fields of routes, tools, headers, commands and stored rows take their lengths from here, and each is checked before any
work is done with it. docs/http.md lists them by field. What an operator may want to change is in the settings instead:
`limits.query_chars`, `limits.window_chars` and, for all that is sent at once, `service.body_bytes`.

The figures are far above what honest callers send and far below what costs memory or time.
"""

from typing import Final

# A pattern: a sign that is not blank. Python counts some control characters as blanks that a schema's \S does not.
NOT_BLANK: Final = r"[^\s\x1c-\x1f\x85]"
# A pattern: a name without control characters, which is one line of plain text.
ONE_LINE: Final = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
# Ids are keys of several indexes; longer ones are texts by mistake. Object stores allow keys of 1024 bytes too.
NAME_CHARS: Final = 1_024
NODE_CHARS: Final = 512  # of a name in the graph; a longer one is a text by mistake
# Of a session: agents name theirs by a UUID of 36 characters.
SESSION_CHARS: Final = 200
FOLDER_CHARS: Final = 4_096  # of a path: what Linux takes (PATH_MAX)
LABEL_CHARS: Final = 1_024  # of a category, a tag, a kind of task or a person's name, as of an id
NOTE_CHARS: Final = 1_000  # of feedback or a decision; a hundred are kept with a fact
FACT_CHARS: Final = 10_000  # longer texts are documents
PROVENANCE_CHARS: Final = (
    10_000  # of an edge: where it was said, which may be a quotation as long as a fact
)
TITLE_CHARS: Final = 500  # of a document or a chunk; longer ones are texts by mistake
# Of the metadata of a document or a chunk, as JSON: chosen; more is a text that should be a document.
METADATA_BYTES: Final = 16_384
# A chunk is read at once, so this bounds the memory of a read. Turns of four million characters took too much.
CHUNK_CHARS: Final = 1_000_000
# Of a query, a collection's names or a reason in one row of a list: a line is shown.
SUMMARY_CHARS: Final = 500

MOST_COLLECTIONS: Final = 100  # that one request asks
MOST_LABELS: Final = 1_000  # tags, tools or names that are given
MOST_ROWS: Final = 10_000  # documents, turns or edges in one request
MOST_REASONS: Final = 20  # of what went wrong in one row of a list
