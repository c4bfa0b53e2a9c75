"""The worked example of CONTRIBUTING: its study and the test of it run as they stand there."""

import re
import sys
import types

from tests.docs.narrow_link import ROOT


def test_the_study_and_its_test_run(monkeypatch):
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    study, test = re.findall(r"^```python\n(.+?)^```", page, re.DOTALL | re.MULTILINE)
    module = types.ModuleType("lanescope.studies.duplex")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(study, module.__dict__)
    tests: dict[str, object] = {}
    exec(test, tests)
    functions = [one for name, one in tests.items() if name.startswith("test_")]
    assert functions
    for function in functions:
        function()
