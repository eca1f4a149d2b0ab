"""Warnings about what PopART has and Sluice does without: each is given once per process."""

from __future__ import annotations

import difflib
import warnings
from typing import Iterable, Set

_given: Set[str] = set()


def once(text: str) -> None:
    if text not in _given:
        _given.add(text)
        warnings.warn(text, UserWarning, stacklevel=3)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """'; did you mean a or b?', or nothing."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(by_lower[each] for each in near)}?" if near else ""
