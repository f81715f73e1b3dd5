"""Instructions of CMSIS-NN's operators on QEMU's boards, which limit those of the firmware.

They are facts, measured once; CMSIS-NN is not part of this project.
"""

from __future__ import annotations

_COUNTS = {
    "mps2-an386": {
        "kws01": """
            1100170 560970 1069020 560970 1069020 560970 1069020 560970 1069020 50750 2180
            4460
        """,
        "vww01": """
            3082270 1469170 1954950 700530 1168730 1351990 1589590 338210 801270 653570
            1226750 163480 635450 311240 1079350 311240 1079350 311240 1079350 311240
            1079350 311240 1079350 77850 635190 142680 1164600 17490 1200 1190
        """,
        "ic01": """
            2124990 5533130 5533130 1337540 2530660 4566030 563620 669350 2194530 4170150
            421390 334880 26420 1840 3860
        """,
        "ad01": """
            160080 37220 37240 37230 2460 8340 37230 37210 37220 185740
        """,
    },
    "mps3-an547": {
        "kws01": """
            306219 168695 202914 168695 202914 168695 202914 168695 202914 13094 672 4805
        """,
        "vww01": """
            1050180 897328 641828 296562 314945 454969 365641 114078 181391 193078 232078
            48516 115742 97438 166430 97438 166430 97438 166430 97438 166430 97438 166430
            26203 91164 49438 146461 6867 633 1273
        """,
        "ic01": """
            626578 941961 941961 225383 394656 603984 141523 112742 281367 487273 81414
            56422 6812 719 4164
        """,
        "ad01": """
            40164 9445 9445 9445 742 2727 9445 9445 9445 46562
        """,
    },
}
CMSIS_NN = {
    board: {model: [int(word) for word in text.split()] for model, text in models.items()}
    for board, models in _COUNTS.items()
}
"""Instructions of each operator, in the order of the model, by board and model.

Source: CMSIS-NN at 99f736a6, arm-none-eabi-gcc 12.2 with -O2, QEMU 7.2 with -icount shift=0, mean
of a window of 4 inferences.
"""
SUM_LIMITS = {"mps3-an547": 1.2, "mps2-an386": 1.05}
"""Instructions of a model in the firmware, as a multiple of CMSIS-NN's."""
OPERATOR_LIMITS = {"mps3-an547": 1.5}
"""Instructions of each operator in the firmware, as a multiple of CMSIS-NN's."""
