"""The networks of torchvision in their true width and depth, and others of a useful size, are
trained as by eager torch; network_comparison.py says what is compared."""

import unittest

import network_comparison
from captured_networks import FULL, torchvision

NEED_TORCHVISION = (
    "resnet18 mobilenet_v2 vit_b_16 squeezenet1_1 densenet121 efficientnet_b0".split()
)


class FullNetworks(unittest.TestCase):
    maxDiff = None

    def _check(self, name):
        if name in NEED_TORCHVISION and torchvision is None:
            self.skipTest("torchvision is missing")
        self.assertEqual("", network_comparison.problems(FULL[name]))


for _name in sorted({*FULL, *NEED_TORCHVISION}):
    setattr(
        FullNetworks,
        f"test_{_name.replace('-', '_')}_trains_as_with_torch",
        lambda self, name=_name: self._check(name),
    )

if __name__ == "__main__":
    unittest.main()
