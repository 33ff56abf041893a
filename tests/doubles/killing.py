"""Die by SIGKILL before the n-th call that changes a disk, in a child process."""

import os
import pathlib
import signal
import sys
import traceback


def arm(moment, calls, methods=("replace",)):
    """Have this process killed before the moment-th of these calls of ``os`` and methods of ``Path``."""
    left = [moment]

    def deadly(function):
        def wrapped(*args, **kwargs):
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return function(*args, **kwargs)

        return wrapped

    for owner, names in ((os, calls), (pathlib.Path, methods)):
        for name in names:
            setattr(owner, name, deadly(getattr(owner, name)))


def child(task):
    """Do a task in a child process, and return how that ended: 0, or minus the signal that killed it."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            task()
            os._exit(0)
        except BaseException:  # noqa: BLE001, whatever it was, the parent is told
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
