"""Checks whether a recording can be true, made for every source before computing any energy.

texture.py   how successive values differ; stored with each part of a recording
repeats.py   values that are stuck, or clipped at the end of a range, in a source that has noise
bounds.py    powers that a board can draw
loop.py      parts of a timed loop in which a source with noise is stuck at a value
idle.py      samples of a run far below its idle power, and sources whose value never changes
screen.py    all checks of a recording, and removal of samples that cannot be true
"""
