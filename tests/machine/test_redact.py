import dataclasses
import json

from lanescope.machine.discovery import machine_from_snapshot
from lanescope.machine.snapshot import Snapshot, redacted
from lanescope.machine.sysfs import memory_modules
from tests.machine.test_discovery import RECORDED
from tests.machine.test_dmi import OTHER, module, table

UUID = "GPU-37eed5e3-cb92-ad7b-e2ca-af966c05219d"
SECRETS = (UUID, "c4:ca:05:db:5f:a1", "secret-host", "vendor")
XML = """<topology><object type="Machine"><info name="HostName" value="secret-host"/>
<object type="OSDev"><info name="Address" value="c4:ca:05:db:5f:a1"/></object>
</object></topology>"""


def test_nothing_that_identifies_the_machine_is_left():
    snapshot = Snapshot(
        "secret-host",
        hwloc_xml=XML,
        nvml={"gpus": [{"uuid": UUID}]},
        cuda={"devices": [{"uuid": UUID}]},
        dmi=table(module("DIMM_A1")).hex(),
        visible_devices=UUID,
    )
    left = redacted(snapshot, "example")
    text = json.dumps(dataclasses.asdict(left)) + bytes.fromhex(left.dmi).decode("latin-1")
    assert not [secret for secret in SECRETS if secret in text]
    assert left.nvml["gpus"][0]["uuid"] == left.cuda["devices"][0]["uuid"]
    assert memory_modules(bytes.fromhex(left.dmi)) == memory_modules(bytes.fromhex(snapshot.dmi))
    assert OTHER.hex() not in left.dmi


def test_the_machine_stays_the_same():
    snapshot = Snapshot.load(RECORDED)
    machine = machine_from_snapshot(snapshot)
    assert machine_from_snapshot(redacted(snapshot, machine.name)) == machine
