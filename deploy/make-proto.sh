#!/usr/bin/env bash
# The Python code of proto/vms/v1, made by protoc in an environment of its own: vms/ring/wire.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'grpcio-tools==1.66.2'
"$work/venv/bin/python" -m grpc_tools.protoc -I proto --python_out="$work" --pyi_out="$work" vms/v1/links.proto vms/v1/control.proto
mkdir -p vms/ring/wire
cp "$work"/vms/v1/*_pb2.py "$work"/vms/v1/*_pb2.pyi vms/ring/wire/
