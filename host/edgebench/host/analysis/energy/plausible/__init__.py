"""Whether a recording can be true: checks of every source before any energy is computed.

texture.py   how successive values differ; stored with each part of a recording
repeats.py   values that stand still, or that end at a range, in a source that has noise
bounds.py    powers that a board can take
loop.py      parts of a timed loop in which a source with noise stands still
idle.py      samples of a run far below its idle power, and sources that never change
screen.py    all checks of a recording, and the recording without what cannot be true
"""
