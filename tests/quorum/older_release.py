"""`pybroker` as a release would be that knows fewer levels of metadata.version: the first argument is its highest."""

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
