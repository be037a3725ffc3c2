#!/usr/bin/env bash
# The judgements, rules and records of `sparseshim learn`, by unit tests of its Python.
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo "1..0 # SKIP no python3 of version 3.9 or later"
    exit
fi
exec python3 tests/py/learn_rules.py shim/cli
