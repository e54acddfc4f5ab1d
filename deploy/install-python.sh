#!/usr/bin/env bash
# Makes a virtual environment with Python 3.11 or newer; installs Python through apt-get where it is missing.
#   bash deploy/install-python.sh .venv
set -euo pipefail
venv=$1

find_python() {
  local name
  for name in python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$name" >/dev/null && "$name" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  return 1
}

[ -x "$venv/bin/python" ] && "$venv/bin/python" -c 'import pip' 2>/dev/null && exit 0
if ! python=$(find_python); then
  say="VMS needs Python 3.11 or newer with its venv module. Install it (on Debian: apt-get install python3 python3-venv) and run make again."
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "$say" >&2
    exit 1
  fi
  echo "installing python3 and python3-venv through apt-get"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq python3 python3-venv >/dev/null; } || { echo "$say" >&2; exit 1; }
  python=$(find_python) || { echo "$say" >&2; exit 1; }
fi
rm -rf "$venv"
"$python" -m venv "$venv"
