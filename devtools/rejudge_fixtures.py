"""Recompute the stored runs of the unreleased schema version in tests/fixtures/runs.

A new rule, key or member of an enumeration changes the content of runs of this version. The stored
runs have to be recomputed then, because `edgebench verify` compares runs of a version key by key.
Findings that did not change keep their stored sentences, so that a diff shows only the changes.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from edgebench.host.bench.verify import rejudge
from edgebench.host.result.run import SCHEMA_VERSION
from edgebench.host.result.verdict import Finding, Verdict
from edgebench.host.show.sentences import described
from edgebench.host.store.files import write_run
from edgebench.host.store.layout import RUN_FILE, Store

FIXTURES = Path(__file__).parents[1] / f"tests/fixtures/runs/v{SCHEMA_VERSION}"


def main() -> None:
    """Rewrite run.json of every stored run of the version."""
    for path in sorted(FIXTURES.glob(f"*/{RUN_FILE}")):
        with TemporaryDirectory() as folder:
            store = Store(Path(folder))
            copy = store.runs / path.parent.name
            shutil.copytree(path.parent, copy)
            stored, computed = store.run(path.parent.name), rejudge(store, path.parent.name)
            verdict = _with_stored_sentences(described(computed.verdict), stored.verdict)
            write_run(copy, replace(computed, verdict=verdict, files=stored.files))
            shutil.copyfile(copy / RUN_FILE, path)
        print(path)


def _with_stored_sentences(verdict: Verdict, stored: Verdict) -> Verdict:
    before = {rule.id: rule for rule in stored.rules}

    def kept(finding: Finding) -> Finding:
        old = before.get(finding.id)
        return finding if old is None or replace(old, detail=finding.detail) != finding else old

    return replace(verdict, rules=tuple(map(kept, verdict.rules)))


if __name__ == "__main__":
    main()
