"""`python -m headgate`, for where the script is not on the PATH."""

from headgate.cli import main

main()
