"""The application: imports every module, calls each module's entry, and checks that every function was visited.

Prints one JSON object: libraries, functions, and seconds of import and visit. Status 1 when a function was missed.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path

APPLICATION = Path(__file__).resolve().parent


def main() -> int:
    configuration = json.loads((APPLICATION / "configuration.json").read_text())
    sys.path.insert(0, str(APPLICATION / "modules"))
    began = time.monotonic()
    first, *others = configuration["modules"]
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | os.RTLD_GLOBAL)
    modules = [importlib.import_module(first)]
    sys.setdlopenflags(flags)
    modules += [importlib.import_module(name) for name in others]
    imported = time.monotonic()
    visited = sum(module.entry() for module in modules)
    ended = time.monotonic()
    found = {
        "libraries": configuration["libraries"],
        "functions": visited,
        "import_seconds": round(imported - began, 3),
        "visit_seconds": round(ended - imported, 3),
    }
    print(json.dumps(found))
    return 0 if visited == configuration["functions"] else 1


if __name__ == "__main__":
    sys.exit(main())
