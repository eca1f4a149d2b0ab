"""Schedules of pipelines as objects that draw themselves.

    sluice.schedule("1f1b", stages=4, micro_batches=8)     # a picture in a notebook, text elsewhere
    model.schedule()                                       # that of a compiled model

F is a forward pass, B a backward pass; I and W are the two parts of a backward pass that is split into
the gradients of inputs and of weights. The number is the micro-batch.
"""

from __future__ import annotations

import html
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _core

__all__ = ["Schedule", "Work", "schedule"]

#: Fill colours by kind, dark enough for the text on them.
_COLOURS = {"F": "#2f6db3", "B": "#c0632a", "W": "#5b8f4a"}
_WORDS = {"F": "forward", "B": "backward", "W": "weight gradients"}
_COLUMNS = 100  # of a line of text


class Work(NamedTuple):
    """One pass of one micro-batch through one stage."""

    kind: str
    stage: int
    micro_batch: int
    start: int
    end: int


class Schedule:
    """What every device does and when, with the shortest time that any order could take."""

    def __init__(self, data: Dict[str, Any]) -> None:
        self.kind: str = data["kind"]
        self.devices: List[List[Work]] = [[Work(*w) for w in order] for order in data["devices"]]
        self.makespan: int = data["makespan"]
        self.bound: int = data["bound"]  #: no order of the same work is shorter
        self.stash_depth: List[int] = data["stash_depth"]  #: micro-batches in flight, by stage

    @property
    def busy(self) -> List[int]:
        """The time in which each device computes."""
        return [sum(w.end - w.start for w in order) for order in self.devices]

    @property
    def idle_share(self) -> float:
        """The share of the time in which devices with work wait."""
        used = [busy for busy in self.busy if busy]
        return 1 - sum(used) / (self.makespan * len(used)) if used and self.makespan else 0.0

    def _title(self) -> str:
        above = 0 if self.bound == 0 else 100 * (self.makespan - self.bound) / self.bound
        return (
            f"{self.kind}: {self.makespan} units, no order is below {self.bound} (gap {above:.1f} %), "
            f"devices idle {100 * self.idle_share:.1f} % of the time"
        )

    def __str__(self) -> str:
        scale = min(1.0, _COLUMNS / max(1, self.makespan))
        shortest = min((w.end - w.start for order in self.devices for w in order), default=1)
        widen = max(1, round(3 / max(1e-9, shortest * scale))) if self.makespan * 3 <= _COLUMNS else 1
        lines = [self._title()]
        for device, order in enumerate(self.devices):
            line = ""
            for work in order:
                start, end = (int(at * scale) * widen for at in (work.start, work.end))
                line += "." * (start - len(line))
                line += f"{work.kind}{work.micro_batch}".ljust(end - start, "=")[: end - start]
            line += "." * (int(self.makespan * scale) * widen - len(line))
            lines.append(f"dev{device:<4} {line}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.svg()

    def svg(self, width: int = 900) -> str:
        """The schedule as a picture; each piece of work has a title that a pointer shows."""
        row, left = 26, 60
        scale = (width - left) / max(1, self.makespan)
        height = row * len(self.devices) + 46
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'font-family="sans-serif" font-size="11">',
            f'<text x="0" y="14" font-size="12" fill="currentColor">{html.escape(self._title())}</text>',
        ]
        for device, order in enumerate(self.devices):
            y = 24 + device * row
            parts.append(f'<text x="0" y="{y + 15}" fill="currentColor">device {device}</text>')
            parts.append(
                f'<rect x="{left}" y="{y}" width="{width - left}" height="{row - 4}" '
                'fill="#8884" stroke="none"/>'
            )
            parts += [self._piece(work, left, y, row - 4, scale) for work in order]
        edge = left + self.bound * scale
        bottom = 24 + row * len(self.devices)
        parts.append(
            f'<line x1="{edge:.1f}" y1="20" x2="{edge:.1f}" y2="{bottom}" stroke="#b00020" '
            'stroke-dasharray="4 3"/>'
        )
        parts.append(
            f'<text x="{edge - 4:.1f}" y="{bottom + 14}" text-anchor="end" fill="#b00020">'
            "shortest possible</text></svg>"
        )
        return "".join(parts)

    @staticmethod
    def _piece(work: Work, left: int, y: int, height: int, scale: float) -> str:
        x, wide = left + work.start * scale, (work.end - work.start) * scale
        title = (
            f"{_WORDS[work.kind]} of micro-batch {work.micro_batch}, stage {work.stage}, "
            f"{work.start} to {work.end}"
        )
        text = ""
        if wide > 18:
            text = (
                f'<text x="{x + wide / 2:.1f}" y="{y + 15}" text-anchor="middle" fill="#fff">'
                f"{work.kind}{work.micro_batch}</text>"
            )
        return (
            f'<g><title>{title}</title><rect x="{x:.1f}" y="{y}" width="{max(wide - 0.5, 0.5):.1f}" '
            f'height="{height}" fill="{_COLOURS[work.kind]}"/>{text}</g>'
        )


def schedule(
    kind: str = "1f1b",
    stages: Union[int, Sequence[int]] = 4,
    micro_batches: int = 8,
    training: bool = True,
    costs: Optional[Sequence[Tuple[int, int, int]]] = None,
    transfer: int = 0,
) -> Schedule:
    """The schedule of a pipeline.

    stages   how many, each on a device of its own; or the device of every stage
    costs    the time of every stage's forward pass, input gradients and weight gradients; 1 each if
             not given
    """
    devices = list(range(stages)) if isinstance(stages, int) else list(stages)
    return Schedule(
        _core.schedule(kind, devices, micro_batches, training, list(costs or []), transfer)
    )
