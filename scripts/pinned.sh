#!/usr/bin/env bash
# Measures the speed-up by a second node with equal means per node: each node has one core, and the same
# threads on one core without a server (`--technique single`) are the unit. docs/performance.md has the
# table.
#
# Usage: scripts/pinned.sh [--runs N] [--only TASK] [--data-dir DIR] [--write] [--no-build]
# Needs two cores that are otherwise idle, and taskset (util-linux).
exec cargo xtask measure --pinned "$@"
