"""The errors of Sluice. Each is also the error of Python that comes closest."""

from ._core import (
    Cancelled,
    ConfigFileError,
    DeviceError,
    Error,
    FileError,
    InternalError,
    InvalidArgument,
    OutOfMemory,
    RecoverableError,
    Unsupported,
    UnrecoverableError,
)

__all__ = [
    "Cancelled",
    "ConfigFileError",
    "DeviceError",
    "Error",
    "FileError",
    "InternalError",
    "InvalidArgument",
    "OutOfMemory",
    "RecoverableError",
    "Unsupported",
    "UnrecoverableError",
]
