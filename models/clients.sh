#!/usr/bin/env bash
# Installs the libraries of the example clients in tests/clients into models/cache/clients (or VIC_MODELS_DIR/clients): grpcio
# for Python, grpc-js for JavaScript. Without python3, npm or the network it names what is missing, and the tests skip that
# client.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=${VIC_MODELS_DIR:-$here/cache}/clients
mkdir -p "$home/javascript"

if ! PYTHONPATH=$home/python python3 -c 'import grpc, grpc_tools' 2>/dev/null; then
  python3 -m pip install --quiet --upgrade --target "$home/python" grpcio==1.74.0 grpcio-tools==1.74.0 2>/dev/null \
    || printf 'grpcio is missing: the Python client is not tested\nhint: install python3 and pip\n' >&2
fi
if [ ! -d "$home/javascript/node_modules/@grpc/grpc-js" ]; then
  (cd "$home/javascript" && npm install --silent --no-audit --no-fund @grpc/grpc-js@1.13 @grpc/proto-loader@0.8) \
    >/dev/null 2>&1 || printf 'grpc-js is missing: the JavaScript client is not tested\nhint: install node and npm\n' >&2
fi
exit 0
