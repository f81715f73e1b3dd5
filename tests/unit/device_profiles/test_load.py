"""Profiles are read strictly: a misspelt expectation must not pass for an absent one."""

from __future__ import annotations

import pytest

from edgebench.device_profiles.load import load_profiles, parse_profile
from edgebench.device_profiles.schema import Match, Profile
from edgebench.protocol.errors import UsageError

GOOD = """\
schema = 1
id = "pi"
name = "A board"
class = "linux-sbc"

[[match]]
machine = "aarch64"
dt_compatible = ["raspberrypi,5-model-b", "raspberrypi,500"]

[soc]
name = "BCM2712"
arch = "aarch64"
isa = ["asimd"]

[[soc.cluster]]
role = "little"
core = "cortex-a55"
cpus = "0-3"
freq_hz_min = 600_000_000
freq_hz_max = 1_800_000_000

[[soc.cluster]]
role = "big"
core = "cortex-a76"
cpus = "4-5,7"

[[thermal.zone]]
role = "soc"
match_type = "cpu-thermal"
throttle_c = 80
hard_c = 85.0
critical_c = 90.0

[[throttle.indicator]]
kind = "vcgencmd"
thermal_now = 0xc
power_now = 0x1

[cooldown]
max_c = 45.0

[limits]
abort_c = 88.0

[runtimes.tflite]
delegates = ["xnnpack"]
threads_max = 4

[[fact]]
key = "thermal.zone.soc.throttle_c"
value = 80
source = "a manual"
grade = "S"

[[fact]]
key = "runtimes.tflite.threads_max"
value = 4
source = "a manual"
grade = "O"
"""


def changed(old: str, new: str, count: int = 1) -> str:
    """The good profile with one thing changed."""
    assert old in GOOD
    return GOOD.replace(old, new, count)


def test_good_profile_is_read_whole() -> None:
    """Otherwise a field of a profile would be lost."""
    profile = parse_profile(GOOD, "pi")
    assert (profile.id, profile.name, profile.device_class) == ("pi", "A board", "linux-sbc")
    assert profile.match == (
        Match(machine="aarch64", dt_compatible=("raspberrypi,5-model-b", "raspberrypi,500")),
    )
    assert profile.match[0].specificity == 2
    assert profile.soc is not None
    assert [cluster.cpus for cluster in profile.soc.cluster] == ["0-3", "4-5,7"]
    assert profile.thermal.zone[0].throttle_c == 80.0
    assert profile.throttle.indicator[0].thermal_now == 0xC
    assert profile.runtimes["tflite"].threads_max == 4
    assert profile.cooldown.timeout_s == 600.0
    assert len(profile.fact) == 2


LINES = {
    "misspelt key": (changed('arch = "aarch64"', 'arcj = "aarch64"'), 12, "soc.arcj: no such key"),
    "unknown table": (GOOD + "\n[colour]\nred = 1\n", 61, "colour: no such key"),
    "unknown key in a list": (
        changed('cpus = "4-5,7"', 'cpuss = "4-5,7"'),
        25,
        "soc.cluster[1].cpuss: no such key",
    ),
    "wrong type": (changed("= 80\n", '= "80"\n'), 30, "thermal.zone[0].throttle_c: expected a num"),
    "text for a list": (changed('["asimd"]', '"asimd"'), 13, "soc.isa: expected a list, got str"),
    "number in a list of texts": (changed('["asimd"]', "[5]"), 13, "soc.isa[0]: expected str"),
    "unknown class": (changed('"linux-sbc"', '"linux-sbcc"'), 4, "class: expected one of linux-"),
    "unknown role": (changed('"little"', '"small"'), 16, "soc.cluster[0].role: expected one of"),
    "missing name": (changed('name = "A board"\n', ""), 1, "name: is missing"),
    "missing core": (changed('core = "cortex-a76"\n', ""), 22, "soc.cluster[1].core: is missing"),
    "newer schema": (changed("schema = 1", "schema = 2"), 1, "schema: schema is 2, expected 1"),
    "other file name": (changed('"pi"', '"pii"'), 2, "id: is 'pii', but the file is pi.toml"),
    "match for everything": (
        GOOD + "\n[[match]]\n",
        61,
        "match[1]: has no condition and would match every device",
    ),
    "cpulist": (changed('"0-3"', '"3-0"'), 18, "soc.cluster[0].cpus: '3-0' is not a list of CPUs"),
    "CPU twice": (changed('"4-5,7"', '"3-5"'), 25, "soc.cluster[1].cpus: CPU 3 is also in another"),
    "kHz for Hz": (
        changed("1_800_000_000", "1_800_000").replace("600_000_000", "600_000"),
        19,
        "soc.cluster[0].freq_hz_min: 600000 is below 1 MHz; the unit is Hz",
    ),
    "minimum above maximum": (
        changed("600_000_000", "1_900_000_000"),
        19,
        "soc.cluster[0].freq_hz_min: 1900000000 is above",
    ),
    "falling thresholds": (changed("90.0", "70.0"), 27, "thermal.zone[0]: throttle_c, hard_c and "),
    "cooler than it throttles": (changed("45.0", "80.0"), 40, "cooldown.max_c: 80.0 is not below"),
    "abort below throttling": (changed("88.0", "79.0"), 43, "limits.abort_c: 79.0 is not above"),
    "zone that is not there": (
        changed("max_c = 45.0", 'zone = "gpu"'),
        40,
        "cooldown.zone: 'gpu' is not a zone of this profile",
    ),
    "bits with two meanings": (changed("0x1", "0x4"), 34, "throttle.indicator[0]: bits 0x4 cannot"),
    "fact about nothing": (
        changed("zone.soc.throttle_c", "zone.soc.trottle_c"),
        50,
        "fact[0].key: 'thermal.zone.soc.trottle_c': there is no trottle_c",
    ),
    "fact about no zone": (
        changed("zone.soc.throttle_c", "zone.gpu.throttle_c"),
        50,
        "fact[0].key: 'thermal.zone.gpu.throttle_c': there is no gpu",
    ),
    "fact of another value": (
        changed("value = 80", "value = 81"),
        51,
        "fact[0].value: is 81, but thermal.zone.soc.throttle_c is 80.0",
    ),
    **{
        f"abort_c = {value}": (changed("88.0", value), 43, f"limits.abort_c: must be {must}")
        for value, must in [
            ("nan", "a finite number, is nan"),
            ("inf", "a finite number, is inf"),
            ("1e308", "30 to 150, is 1e+308"),
            ("-5", "30 to 150, is -5"),
        ]
    },
    **{
        line: (
            changed("max_c = 45.0", line),
            40,
            f"cooldown.{line.split()[0]}: must be ",
        )
        for line in (
            *("timeout_s = nan", "timeout_s = inf", "timeout_s = -1", "stable_s = -1"),
            *("stable_s = nan", "poll_s = 0", "delta_c = -1", "max_c = 1e9"),
        )
    },
    **{
        line: (
            changed('kind = "vcgencmd"', f'kind = "vcgencmd"\n{line}'),
            36,
            f"throttle.indicator[0].{line.split()[0]}: must be ",
        )
        for line in ("rate_hz_max = 0", "rate_hz_max = -1", "rate_hz_max = nan")
    },
    "policy below 0": (
        changed('cpus = "0-3"', 'cpus = "0-3"\npolicy = -1'),
        19,
        "soc.cluster[0].policy: must be 0 to 1023, is -1",
    ),
    "no threads": (
        changed("threads_max = 4", "threads_max = -1"),
        47,
        "runtimes.tflite.threads_max: must be 1 to 1024, is -1",
    ),
    "value of a sensor that is no number": (
        changed("hard_c = 85.0", "hard_c = 85.0\nignore_values_c = [0.0, nan]"),
        32,
        "thermal.zone[0].ignore_values_c[1]: must be a finite number, is nan",
    ),
    "integer that is no float": (
        changed("88.0", "1" + "0" * 400),
        43,
        "limits.abort_c: a number",
    ),
    "unknown source of the clock": (
        changed("[cooldown]", '[freq]\ntruth = ["a"]\n[cooldown]'),
        40,
        "freq.truth[0]: expected one of vcgencmd:arm, ",
    ),
    "unknown source of a zone": (
        changed('role = "soc"', 'role = "soc"\nsource = "sysf"'),
        29,
        "thermal.zone[0].source: expected one of sysfs, hwmon, ",
    ),
    **{
        f"extends {value}": (
            changed("[[match]]", f"extends = {value}\n[[match]]"),
            6,
            f"extends: expected str, got {kind}",
        )
        for value, kind in (("true", "bool"), ('["a"]', "list"), ("{}", "dict"))
    },
    "unknown grade": (changed('"S"', '"A"'), 53, "fact[0].grade: expected one of S, V, O, M, R"),
}


@pytest.mark.parametrize("what", LINES)
def test_error_names_file_line_and_key(what: str) -> None:
    """Otherwise a misspelt key would be ignored, or searched for in a file of a hundred lines."""
    text, line, expected = LINES[what]
    with pytest.raises(UsageError) as caught:
        parse_profile(text, "pi")
    assert str(caught.value).startswith(f"pi.toml:{line}: {expected}"), str(caught.value)


def test_text_that_is_not_toml_is_an_error_with_its_line() -> None:
    """Otherwise a file that was cut would end in a traceback."""
    with pytest.raises(UsageError, match=r"^pi\.toml: .*line 2"):
        parse_profile("schema = 1\n=", "pi")
    with pytest.raises(UsageError, match=r"^pi\.toml:1: schema: is missing"):
        parse_profile("", "pi")


@pytest.mark.parametrize("line", ["x = " + "[" * 3000, "x = " + "1" * 5000, "x = " + "{a=" * 3000])
def test_text_that_no_parser_likes_is_an_error(line: str) -> None:
    """Otherwise a damaged file would end in a traceback of the parser."""
    with pytest.raises(UsageError, match=r"^pi\.toml: "):
        parse_profile(f"{GOOD}\n{line}\n", "pi")


COMMON = """\
schema = 1
id = "common"
name = "All of them"
class = "linux-sbc"
[soc]
name = "SoC"
arch = "aarch64"
isa = ["asimd"]
[limits]
abort_c = 88.0
[[throttle.indicator]]
kind = "vcgencmd"
[[fact]]
key = "limits.abort_c"
value = 88.0
source = "common"
grade = "S"
[[fact]]
key = "soc.arch"
value = "aarch64"
source = "common"
grade = "S"
"""
CHILD = """\
schema = 1
id = "child"
name = "One of them"
class = "linux-sbc"
extends = "common"
[[match]]
machine = "aarch64"
[soc]
name = "Newer SoC"
[limits]
min_free_bytes = 5
[[throttle.indicator]]
kind = "none"
[[fact]]
key = "soc.arch"
value = "aarch64"
source = "child"
grade = "V"
"""


def child(text: str = CHILD, **others: str) -> Profile:
    """The profile that extends another."""
    return parse_profile(text, "child", ({"common": COMMON} | others).get)


def test_profile_inherits_what_it_does_not_say() -> None:
    """Otherwise a board of a family would have to repeat everything, or lose half of it."""
    found = child()
    assert found.extends == "common"
    assert found.soc is not None
    assert (found.soc.name, found.soc.arch, found.soc.isa) == ("Newer SoC", "aarch64", ("asimd",))
    assert (found.limits.abort_c, found.limits.min_free_bytes) == (88.0, 5)
    assert [one.kind for one in found.throttle.indicator] == ["none"]
    assert {fact.key: fact.source for fact in found.fact} == {
        "limits.abort_c": "common",
        "soc.arch": "child",
    }


def test_match_is_not_inherited() -> None:
    """Otherwise every board of a family would be taken for each of them."""
    text = CHILD.replace('[[match]]\nmachine = "aarch64"\n', "")
    common = COMMON + '[[match]]\nmachine = "armv7l"\n'
    assert child(text, common=common).match == ()


@pytest.mark.parametrize("key", ["{}", "[]", "7"])
def test_fact_with_a_key_that_is_no_text_is_an_error(key: str) -> None:
    """Otherwise inheritance, which looks facts up by their keys, would end in a traceback."""
    text = CHILD.replace('key = "soc.arch"', f"key = {key}")
    with pytest.raises(UsageError, match=r"^child\.toml:\d+: fact\[\d\]\.key: expected str"):
        child(text)
    common = COMMON[: COMMON.index("[[fact]]")]
    with pytest.raises(UsageError, match=r"^child\.toml:\d+: fact"):
        child(common=common.replace('class = "linux-sbc"', 'class = "linux-sbc"\nfact = [1]'))
    with pytest.raises(UsageError, match=r"^common\.toml:5: extends: expected str, got bool"):
        child(common=COMMON.replace("[soc]", "extends = true\n[soc]"))


def test_inheritance_that_does_not_end_is_an_error() -> None:
    """Otherwise two profiles that extend each other would hang the agent."""
    with pytest.raises(UsageError, match=r"^child\.toml:5: extends: .*a circular chain"):
        child(common=COMMON.replace("[soc]", 'extends = "child"\n[soc]', 1), child=CHILD)
    with pytest.raises(UsageError, match=r"^child\.toml:5: extends: .*no such profile"):
        parse_profile(CHILD, "child")


def test_shipped_profiles_are_good_and_named_after_their_files() -> None:
    """Otherwise a profile in the package would break every agent that starts."""
    ids = [profile.id for profile in load_profiles()]
    assert len(set(ids)) == len(ids) >= 20
    assert {"generic-linux", "generic-arm64", "generic-x86_64"} <= set(ids)


def test_shipped_values_of_memory_are_marked() -> None:
    """Otherwise a value from memory would be shipped as a fact."""
    for profile in load_profiles():
        for fact in profile.fact:
            assert fact.source, (profile.id, fact.key)
            if fact.grade == "M":
                assert "check" in fact.note.lower(), (profile.id, fact.key)
