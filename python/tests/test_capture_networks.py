"""Small versions of the usual networks are trained as by eager torch; slow_networks.py has the large
ones, and network_comparison.py says what is compared."""

import unittest

import network_comparison
from captured_networks import SMALL, torchvision

NEED_TORCHVISION = "resnet mobilenet squeezenet densenet efficientnet".split()
NEED_TORCHVISION.append("vision transformer")


class Networks(unittest.TestCase):
    maxDiff = None

    def _check(self, name):
        if name in NEED_TORCHVISION and torchvision is None:
            self.skipTest("torchvision is missing")
        self.assertEqual("", network_comparison.problems(SMALL[name]))


for _name in sorted({*SMALL, *NEED_TORCHVISION}):
    setattr(
        Networks,
        f"test_{_name.replace(' ', '_').replace('-', '_')}_trains_as_with_torch",
        lambda self, name=_name: self._check(name),
    )

if __name__ == "__main__":
    unittest.main()
