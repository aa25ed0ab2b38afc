"""Brings the caches of module trees up to date at the end of an EasyBuild session:

    eb --hooks=/usr/libexec/quell/modules/easybuild_hooks.py ...

QUELL_MODULES_SETTINGS names the settings of `refresh`, by default /etc/quell/modules. A failure is a warning: the software is installed.
"""

import os
import subprocess
import sys


def end_hook(*_arguments, **_named):
    """EasyBuild calls this once, after everything is installed."""
    refresh = os.path.join(os.path.dirname(os.path.realpath(__file__)), "refresh")
    settings = os.environ.get("QUELL_MODULES_SETTINGS", "/etc/quell/modules")
    status = subprocess.run([refresh, settings], stdin=subprocess.DEVNULL, check=False).returncode
    if status != 0:
        sys.stderr.write("WARNING: the caches of module trees are not up to date: %s ended with status %d\n" % (refresh, status))
