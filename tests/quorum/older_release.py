"""Starts `pybroker` like an older release, which supports fewer levels of metadata.version. The first argument is the
highest level that it supports."""

from __future__ import annotations

import sys

import msgspec

from pybroker.broker.metadata import feature_levels

feature_levels.METADATA_VERSIONS = msgspec.structs.replace(
    feature_levels.METADATA_VERSIONS, highest=int(sys.argv.pop(1))
)

if __name__ == "__main__":
    from pybroker.__main__ import main

    main()
