#!/usr/bin/env bash
# Builds the page of the dashboard, web/dist, with the packages of package-lock.json. Needs Node.js 20 or
# newer. With --check, it only checks that a build makes the files that are committed.
set -euo pipefail
cd "$(dirname "$0")"
npm ci --no-audit --no-fund --silent
npx tsc --noEmit
if [ "${1:-}" = --check ]; then
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  node build.mjs "$made"
  diff -r dist "$made" || {
    echo "web/dist is not what its sources make: run crates/dashboard/web/build.sh, and commit dist" >&2
    exit 1
  }
  exit 0
fi
rm -rf dist
node build.mjs
