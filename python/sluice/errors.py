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

#: What has to be set up again before the run can continue; errors of the library say so.
RecoverableError.recovery_action = "FULL_RESET"
