#!/bin/sh
# Holds the instructions that a model takes on an emulated board against those of a base run.
#
#   instruction-gate.sh keep  MODEL FOLDER             makes the base run, and keeps it as FOLDER/base
#   instruction-gate.sh check MODEL FOLDER [OPTION...] measures again, into the store FOLDER/candidate,
#                                                      and compares; options of `edgebench compare`
#
# Exit code of `check`: that of `edgebench compare`; 0 no regression, 4 regression, 2 not comparable.
# BOARD in the environment names another board than the Cortex-M4 below. See docs/ci-gate.md.
set -eu

action=$1
model=$2
folder=$3
shift 3
base=$folder/base
store=$folder/candidate

rm -rf "$store"
mkdir -p "$store"
edgebench bench "$model" --on "${BOARD:-qemu:mps2-an386}" --store "$store" --json >"$folder/bench.json"
case $action in
keep)
    rm -rf "$base"
    mv "$store"/runs/* "$base"
    ;;
check)
    edgebench compare "$base" --against last --store "$store" "$@"
    ;;
*)
    echo "expected keep or check, got $action" >&2
    exit 2
    ;;
esac
