#!/bin/sh
# Holds the instructions that a model takes on an emulated board against those of a base run.
#
#   instruction-gate.sh keep  MODEL FOLDER             makes the base run, and keeps it as FOLDER/base
#   instruction-gate.sh check MODEL FOLDER [OPTION...] measures again, into the store FOLDER/candidate,
#                                                      and compares; options of `edgebench compare`
#
# Exit code: 0 base kept, or no regression; 4 regression; 2 wrong arguments, or the runs are not comparable;
# 3 no valid count; 1 not measured. BOARD in the environment names another board than the Cortex-M4 below.
# See docs/ci-gate.md.
set -eu

if [ $# -lt 3 ] || { [ "$1" != keep ] && [ "$1" != check ]; }; then
    echo "usage: instruction-gate.sh keep|check MODEL FOLDER [OPTION...]" >&2
    exit 2
fi
action=$1
model=$2
folder=$3
shift 3
base=$folder/base
store=$folder/candidate
if [ "$action" = check ] && [ ! -d "$base" ]; then
    echo "no base run in $base; make one: instruction-gate.sh keep $model $folder" >&2
    exit 2
fi

rm -rf "$store"
mkdir -p "$store"
edgebench bench "$model" --on "${BOARD:-qemu:mps2-an386}" --store "$store" --json >"$folder/bench.json"
if [ "$action" = keep ]; then
    rm -rf "$base"
    mv "$store"/runs/* "$base"
else
    edgebench compare "$base" --against last --store "$store" "$@"
fi
