"""Sentences about settings whose effect differs from the request.

Each setting has a sentence for each reason that `analysis.settings` defines. `{requested}`,
`{effective}` and the facts of the setting are filled in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgebench.host.result.run import Run
from edgebench.host.result.settings import Setting, SettingState

SENTENCES: Mapping[str, Mapping[str, str]] = {
    "threads": {
        "fewer": "{requested} threads requested, {effective} used CPU time: the runtime does not "
        "use more for this model",
        "more": "{requested} thread(s) requested, {effective} used CPU time",
        "not_told": "the device does not report how many threads used CPU time",
    },
    "cpus": {
        "quota": "{threads} thread(s) requested, but the quota of a control group allows "
        "{effective:.3g} CPU(s)",
        "fewer": "{threads} threads requested, but only {effective:.3g} CPUs may be used",
        "quota_not_told": "the device reports no control groups, so any CPU quota is unknown",
    },
    "signature": {
        "not_chosen": "signature {effective} was measured; the file also has {others}; to choose: "
        "--signature {example}",
        "unnamed": "the first graph of the file, which has no signature, was measured; the file "
        "also has {others}; to choose: --signature {example}",
        "ignored": "signature {requested} requested, but the device's agent is too old for "
        "signatures and measured the first graph of the file",
    },
    "delegate": {
        "partly": "{requested} requested, it ran {count} of {total} operators",
        "unused": "{requested} requested, but it ran no operators",
        "not_told": "{requested} requested; the runtime does not report what the delegate ran",
    },
}
_RULES: Mapping[str, frozenset[str]] = {
    "cpus": frozenset({"cpu_quota", "scheduling", "cpu_pressure"}),
    "delegate": frozenset({"delegation", "delegated_share"}),
}
"""Rules that report the same difference as a setting; if any of them fails, no note is added."""
_NOTED = (SettingState.DIFFERENT, SettingState.NOT_CHOSEN)
"""States for which a note is printed with the numbers."""


def setting_sentence(name: str, setting: Setting) -> str | None:
    """Sentence about a setting; None if it took effect as requested."""
    template = SENTENCES.get(name, {}).get(setting.reason or "")
    if template is None:
        return None
    words = {**setting.facts, "requested": setting.requested, "effective": setting.effective}
    try:
        return template.format(**words)
    except (LookupError, TypeError, ValueError):  # written by a newer edgebench, or damaged
        return None


def setting_notes(runs: Sequence[Run]) -> list[str]:
    """Sentences about the settings of a set's runs whose effect differs from the request.

    If the number of threads differs between the runs, one sentence without a reason is used for all
    runs. If the runtime alone determined the number of threads, the number would be the same in
    each run; the difference may therefore have another reason.
    """
    noted: dict[str, list[Setting]] = {}
    for run in runs:
        failed = {rule.id for rule in run.verdict.failures}
        by_name = {} if run.conditions.settings is None else run.conditions.settings.by_name
        for name, setting in by_name.items():
            if setting.state in _NOTED and not failed & _RULES.get(name, frozenset()):
                noted.setdefault(name, []).append(setting)
    sentences: list[str | None] = []
    for name, settings in noted.items():
        counts = [used for setting in settings if isinstance(used := setting.effective, int)]
        if name == "threads" and len(set(counts)) > 1:
            requested = settings[0].requested
            sentences.append(
                f"{requested} threads requested, {min(counts)} to {max(counts)} used CPU time"
            )
            continue
        sentences += dict.fromkeys(setting_sentence(name, setting) for setting in settings)
    return [sentence for sentence in sentences if sentence is not None]
