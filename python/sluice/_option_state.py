"""What options are besides setters: a record of calls that can be copied, pickled and printed."""

from __future__ import annotations

import copy
import os
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _values
from ._option_base import Settings, shown
from ._option_lines import Call, python_call
from ._option_words import in_core_words, json_in_core_words
from .strategy import Strategy


class RecordedOptions(Settings):
    """The core's options, and the calls that made them what they are."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        from . import _core

        if args or settings:
            name, value = next(iter(settings.items()), ("deviceIterations", "4"))
            raise TypeError(
                f"{type(self).__name__}() takes no arguments; settings are calls of its methods: "
                f"{type(self).__name__}().{name}({value!r})"
            )
        self._raw = _core.Options()
        self._calls: List[Tuple[str, List[Any]]] = []
        self._strategy_text: Optional[str] = None
        self._make_groups()

    def _make_groups(self) -> None:
        raise NotImplementedError

    def loadFromFile(self, filepath: str) -> Any:
        """Applies one setter call per line, ``deviceIterations(8)``; # begins a comment.

        Raises ConfigFileError with the file, the line and its text, and then changes nothing.
        """
        path = os.fspath(filepath)
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError):
            self._raw.load_file(path)  # raises the error of files that cannot be read
            raise
        calls = [*self._calls, ("loadFromFile", [text, path])]
        self._load_text(text, path)
        self._calls = calls
        return self

    def _load_text(self, text: str, path: str) -> None:
        lines = text.splitlines()
        found = [(i, call) for i, call in enumerate(map(python_call, lines)) if call is not None]
        if not found:
            self._load_core_lines(text, path)
            return
        self._load_core_lines("", path)  # an error if they are frozen
        changed, begin = self.clone(), 0
        for i, call in found:
            changed._load_core_lines("\n" * begin + "\n".join(lines[begin:i]), path)
            changed._load_python_line(call, f"{path}, line {i + 1}: '{lines[i].strip()}'")
            begin = i + 1
        changed._load_core_lines("\n" * begin + "\n".join(lines[begin:]), path)
        self._raw, self._strategy_text = changed._raw, changed._strategy_text

    def _load_python_line(self, call: Call, where: str) -> None:
        from . import _core

        try:
            call.apply(self)
        except (AttributeError, TypeError, ValueError) as error:
            raise _core.ConfigFileError(f"{where}: {error}") from None

    def _load_core_lines(self, text: str, path: str) -> None:
        from . import _core

        translated = in_core_words(text)
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "options")
            with open(name, "w", encoding="utf-8") as file:
                file.write(translated)
            try:
                self._raw.load_file(name)
            except _core.ConfigFileError as error:
                message = str(error).replace(name, path)
                for ours, line in zip(translated.splitlines(), text.splitlines()):
                    if ours != line:
                        message = message.replace(ours.strip(), line.strip())
                error.args, error.message = (message,), message
                raise

    def from_json(self, string: str) -> Any:
        """Applies a JSON object of setters and arguments: ``{"outputMode": ["EveryN", 4]}``."""
        self._raw.load_json(json_in_core_words(string), "from_json")
        self._calls.append(("from_json", [string]))
        return self

    # Values as a whole.

    def toDict(self) -> Dict[str, Any]:
        """All values by the names of their setters."""
        return {name: self.value(name) for name in self._core.settings() if self._readable(name)}

    def text(self, name: str) -> str:
        """The printed value of a setter of the core, such as "training.gradientAccumulation"."""
        return self._core.text(name)

    def clone(self) -> Any:
        """A copy that can be changed."""
        other = type(self).__new__(type(self))
        other._raw = self._core.clone()
        other._calls = copy.deepcopy(self._calls)
        other._strategy_text = self._strategy_text
        other._make_groups()
        return other

    def freeze(self) -> None:
        """Setters raise an error from now on. Models and loaders call it."""
        self._core.freeze()

    @property
    def frozen(self) -> bool:
        """Whether a model or a loader uses the options."""
        return bool(self._raw.frozen)

    def __copy__(self) -> Any:
        return self.clone()

    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        return self.clone()

    def __getstate__(self) -> Dict[str, Any]:
        return {"calls": self._calls}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        RecordedOptions.__init__(self)
        for name, values in state["calls"]:
            if name == "loadFromFile":
                self._load_text(*values)
            elif name == "from_json":
                self._raw.load_json(json_in_core_words(values[0]), "from_json")
            else:
                self._raw.apply(name, *map(_values.to_core, values))
        self._calls = list(state["calls"])
        self._strategy_text = self._last_strategy_text()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordedOptions) and self._core.str() == other._core.str()

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self._core.str()

    def __repr__(self) -> str:
        return f"Options({shown(self._changes())})"

    # For Settings.

    def _owner(self) -> Any:
        return self

    @property
    def _core(self) -> Any:
        """The core's options, with the strategy as it is now."""
        if self._strategy_text is not None and not self._raw.frozen:
            strategy = self._last_strategy()
            if strategy is not None and repr(strategy) != self._strategy_text:
                self._raw.apply("setExecutionStrategy", strategy.to_core())
                self._strategy_text = repr(strategy)
        return self._raw

    def _last_strategy(self) -> Optional[Strategy]:
        given = [values for name, values in self._calls if name == "setExecutionStrategy"]
        return given[-1][0] if given and isinstance(given[-1][0], Strategy) else None

    def _last_strategy_text(self) -> Optional[str]:
        strategy = self._last_strategy()
        return None if strategy is None else repr(strategy)

    def _record(self, name: str, values: Sequence[Any]) -> None:
        self._raw.apply(name, *map(_values.to_core, values))
        # Only a strategy may change later; see _core.
        kept = [v if isinstance(v, Strategy) else copy.deepcopy(v) for v in values]
        self._calls.append((name, kept))

    def _readable(self, name: str) -> bool:
        """Whether the setting prints a value; a second setter of another one does not."""
        return self._raw.text(name) is not None

    def _changes(self) -> Dict[str, str]:
        """The printed values that are not the defaults, by the names of their setters."""
        from . import _core

        core, defaults = self._core, _core.Options.defaults()
        texts = {name: core.text(name) for name in core.settings()}
        return {name: text for name, text in texts.items() if text != defaults.text(name)}
