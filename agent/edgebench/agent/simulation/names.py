"""Names of the simulated boards, for a help text: an agent of a real board imports none of them."""

BOARD_NAMES = (
    "raspberry-pi-5-bare",
    "raspberry-pi-5-cooled",
    "raspberry-pi-5-unprotected",
    "raspberry-pi-4-undervoltage",
    "raspberry-pi-3b-plus",
    "rock-5b",
    "imx8mp-evk",
    "jetson-orin-nano",
    "intel-n100-laptop",
)
