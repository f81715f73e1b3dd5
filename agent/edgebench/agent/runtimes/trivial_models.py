"""Minimal models that compute y = x + 1 on a float, to try a runtime and to time a call."""

from __future__ import annotations

import base64
import zlib

TRIVIAL_MODELS = {
    name: zlib.decompress(base64.b85decode(text))
    for name, text in {
        "onnx": (
            "c-rIOaAFeRwesfT<6^AfVoVldtW;ulOi9t=<zN(GbYe{QVqsutuovP;Oi9Ts$;{7-;s+`e;^N}qU=(8E"
            "V&Y&-0t!?j3jhEhhYQI"
        ),
        "tflite": (
            "c-oU-U|<Mw^D*XQ5Mf|p;9%eZ@&%xn8HhoA9UzWiWME)~it_+T79b5$4Uz`|MkE@d24<cB+{_(7ya$L6"
            "K+To_;s7A7!J!@oB%tOpGN1wwzXFe5MyUH?dO>#P=cVGc3t2q~SEBii2}+9qF(1%nFmptZ%n^XPnHz{@"
            "pn4dP%mndSz!1Xbftm*sV*{EA310?y_%eXyL7>5&0RZ5{3!n"
        ),
    }.items()
}
"""Maps each file format to the unpacked content of its model file. A test builds each file field by
field, and compares the results with these contents."""
