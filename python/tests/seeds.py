"""The seed of tests with random cases; `./dev soak` gives new ones."""

import os


def soak_seed(default):
    """The environment variable SLUICE_SEED, or a number that is always the same."""
    return int(os.environ.get("SLUICE_SEED", default))
