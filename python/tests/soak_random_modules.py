"""Random modules (random_modules.py) with new seeds in every round of `./dev soak`."""

import unittest

import test_capture_views


class ManyViews(test_capture_views.Views):
    modules_per_round = 200


if __name__ == "__main__":
    unittest.main()
