"""The task that every agent gets: four commands of the shell, of which the last writes `result.txt`; and its user."""

TASK = "Write one, two and three into result.txt, each in a line of its own. Go step by step."
# Each may run twice or not at all: agents forget a part of their work, or count a call that broke off as done.
COMMANDS = (
    "mkdir -p notes && echo one > notes/list.txt",
    "printf 'one\\ntwo\\n' > notes/list.txt",
    "printf 'one\\ntwo\\nthree\\n' > notes/list.txt && cat notes/list.txt",
    "printf 'one\\ntwo\\nthree\\n' > result.txt && wc -l < result.txt",
)
SAID = (
    "I will begin the list with its first word.",
    "Now the second word.",
    "The third word, and a look at the whole list.",
    "The list is complete, so I write it to its place.",
)
DONE = "The file result.txt has the three words, each in a line of its own."
RESULT = "one\ntwo\nthree\n"
STRAY = 2  # the results after which the model strays
ACCOUNT = "account-of-nobody"  # of those who log in
