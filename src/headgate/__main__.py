"""`python -m headgate`, for users whose PATH lacks the script."""

from headgate.cli import main

main()
