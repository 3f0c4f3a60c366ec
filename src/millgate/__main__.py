"""`python -m millgate`, for users whose PATH lacks the script."""

from millgate.cli import main

main()
