"""The task that every agent gets: four commands of the shell, of which the last writes `result.txt`."""

TASK = "Write one, two and three into result.txt, each in a line of its own. Go step by step."
# each may run twice: an agent that has forgotten a part of its work does it again
COMMANDS = (
    "mkdir -p notes && echo one > notes/list.txt",
    "printf 'one\\ntwo\\n' > notes/list.txt",
    "printf 'one\\ntwo\\nthree\\n' > notes/list.txt && cat notes/list.txt",
    "cp notes/list.txt result.txt && wc -l < result.txt",
)
SAID = (
    "I will begin the list with its first word.",
    "Now the second word.",
    "The third word, and a look at the whole list.",
    "The list is complete, so I copy it to its place.",
)
DONE = "The file result.txt has the three words, each in a line of its own."
RESULT = "one\ntwo\nthree\n"
STRAY = 2  # the results after which the model strays
