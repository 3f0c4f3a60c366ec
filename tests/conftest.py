"""For every test: no deadline, since times on a shared machine mean nothing; the same examples on every CI run."""

import os

from hypothesis import settings

settings.register_profile("headgate", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("headgate")
