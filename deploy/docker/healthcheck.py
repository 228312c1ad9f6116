#!/usr/bin/env python3
"""Exit code 0 if the broker in this container serves clients. PYBROKER_READY_URL: where it says so."""

import os
import sys
import urllib.error
import urllib.request

URL = os.environ.get("PYBROKER_READY_URL", "http://127.0.0.1:9308/readyz")

try:
    with urllib.request.urlopen(URL, timeout=4) as answer:
        sys.exit(0 if answer.status == 200 else 1)
except (urllib.error.URLError, OSError) as problem:
    sys.exit(f"{URL}: {problem}")
