import dataclasses

from lanescope.machine.snapshot import Snapshot


def test_an_older_recording_in_the_folder_does_not_stay(tmp_path):
    first = Snapshot("one", hwloc_xml="<topology/>")
    first.save(tmp_path)
    assert Snapshot.load(tmp_path) == first
    second = dataclasses.replace(first, hostname="two ×", hwloc_xml=None)
    second.save(tmp_path)
    assert Snapshot.load(tmp_path) == second
