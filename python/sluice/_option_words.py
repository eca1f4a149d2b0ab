"""PopTorch's words in options files and JSON, translated to those of the core."""

from __future__ import annotations

import json
import re
from typing import Any

_WORDS = {
    "useIpuId": "useDeviceId",
    "autoRoundNumIPUs": "autoRoundNumDevices",
    "useOfflineIpuTarget": "useOfflineTarget",
    "HalfFloatCastingBehavior": "HalfFloatCasting",
    "SameAsIpu": "SameAsDevice",
    "ipu": "device",
    "ipus": "devices",
    "poptorch.": "",
    "sluice.": "",
}
_QUOTED_OR_WORD = re.compile(
    r""" ("(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | \#.*)"""
    r"""| \b(poptorch\.|sluice\.|(?:%s)\b)""" % "|".join(w for w in _WORDS if "." not in w),
    re.VERBOSE,
)


def in_core_words(text: str) -> str:
    """Replaces PopTorch's words outside of quoted text and comments."""
    return _QUOTED_OR_WORD.sub(lambda found: found[1] or _WORDS[found[2]], text)


def json_in_core_words(text: str) -> str:
    """Translates the keys and enumerators; text that is no JSON is left for the core to refuse."""
    try:
        values = json.loads(text)
    except ValueError:
        return text
    return json.dumps(_translated(values))


def _translated(value: Any) -> Any:
    if isinstance(value, dict):
        return {in_core_words(key): _translated(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_translated(item) for item in value]
    # Enumerators and calls are text in JSON; other text is the user's own.
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_]+(\.[A-Za-z_]+)+|\w+\(.*\).*", value):
        return in_core_words(value)
    return value
