#!/bin/sh
# Launches every job of this folder; the answer goes to $OUT/hangs.json.
cd "$(dirname "$0")" || exit 1
exec python3 launcher.py "${OUT:?the folder of the answer}"
