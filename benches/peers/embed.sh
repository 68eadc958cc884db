#!/bin/sh
# The same as `benches/peers/run.py embed`, which see.
exec python3 "$(dirname -- "$0")/run.py" embed "$@"
