"""Take Ctrl-C, SIGTERM and SIGHUP from the first moment to the last, each as one sentence and its own exit code.

Before anything has begun there is nothing to keep: the process says so and leaves at once, for an exception would
surface anywhere inside the imports. While a command runs, all three raise, so that whatever is under way is closed
properly. A signal that came is remembered: code that was interrupted may turn the exception into one of its own.

Only an import is not interrupted: a library in C++ that calls Python while it is loaded may end the whole process when
an exception comes back. The signal waits for the end of the import, but not for long.
"""

import _thread
import os
import signal
import sys
import time
from types import FrameType

__all__ = ["Stopped", "came", "ignore", "leave_at_once", "raise_stopped", "restore"]

_WORDS = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Terminated", signal.SIGHUP: "Hung up"}
_SOON = 0.01
"""Seconds after which a signal is sent again."""
_LONGEST = 5.0
"""Seconds that a signal waits for imports to end."""
_received: list[int] = []
_waiting_since: dict[int, float] = {}
_before: dict[int, object] = {}


class Stopped(KeyboardInterrupt):
    """A signal that asks the process to stop."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = number

    @property
    def word(self) -> str:
        """Return what happened, as a sentence begins."""
        return _WORDS.get(signal.Signals(self.number), "Stopped")

    @property
    def exit_code(self) -> int:
        """Return the exit code that shells give to a process that a signal ended."""
        return 128 + self.number


def leave_at_once() -> None:
    """From now on, a signal ends the process at once with a sentence: nothing has begun."""
    _install(_leave)


def raise_stopped() -> None:
    """From now on, a signal raises ``Stopped``."""
    _received.clear()
    _waiting_since.clear()
    sys.unraisablehook = _send_again
    _install(_raise)


def came() -> Stopped | None:
    """Return the signal that came while a command ran, if any did."""
    return Stopped(_received[0]) if _received else None


def ignore() -> None:
    """From now on, further signals change nothing: the first one is being answered."""
    _install(signal.SIG_IGN)


def restore() -> None:
    """Give the signals back to whoever had them before."""
    sys.unraisablehook = sys.__unraisablehook__
    for number, handler in _before.items():
        signal.signal(number, handler)  # type: ignore[arg-type]
    _before.clear()


def _send_again(lost: "sys.UnraisableHookArgs") -> None:
    """Send a signal again whose exception was lost, for Python drops what is raised in a callback of its own."""
    if isinstance(lost.exc_value, Stopped):
        _send_soon(lost.exc_value.number)
    else:
        sys.__unraisablehook__(lost)


def _install(handler: object) -> None:
    """Set the handler of every signal that nobody else has taken; only the main thread may."""
    try:
        for number in _WORDS:
            if number not in _before:
                if signal.getsignal(number) not in {signal.SIG_DFL, signal.default_int_handler}:
                    continue  # such as one that nohup ignores
                _before[number] = signal.getsignal(number)
            signal.signal(number, handler)  # type: ignore[arg-type]
    except ValueError:  # another thread than the main one
        return


def _leave(number: int, _frame: FrameType | None) -> None:
    stopped = Stopped(number)
    try:
        os.write(2, f"{stopped.word} before anything began.\n".encode())
    finally:
        os._exit(stopped.exit_code)


def _raise(number: int, frame: FrameType | None) -> None:
    since = _waiting_since.setdefault(number, time.monotonic())
    if _is_importing(frame) and time.monotonic() - since < _LONGEST:
        _send_soon(number)
        return
    del _waiting_since[number]
    _received.append(number)
    raise Stopped(number)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame, or one that it was called from, is part of Python's import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _send_soon(number: int) -> None:
    """Send a signal in a moment; not by ``threading``, whose locks may be held by whom the first one interrupted."""

    def send() -> None:
        time.sleep(_SOON)
        os.kill(os.getpid(), number)

    _thread.start_new_thread(send, ())
