"""The default suite stays short, by rule of thumb."""

import dataclasses

from lanescope.machine.files import machine_named
from lanescope.studies.taruc import Parameters
from lanescope.studies.taruc.study import plan_suite, suite_seconds
from tests.studies.taruc import machines


def seconds(machine, parameters=None):
    return suite_seconds(machine, plan_suite(machine, parameters or Parameters()), 0.03)


def test_two_cores_without_a_gpu_take_less_than_three_minutes():
    assert seconds(machines.one_node()) < 120


def test_one_h200_takes_less_than_five_minutes():
    two = machine_named("h200-x2")
    assert seconds(dataclasses.replace(two, gpus=two.gpus[:1])) < 240


def test_more_samples_take_longer():
    machine = machines.one_node()
    assert seconds(machine, Parameters(repeats=1000)) > 10 * seconds(machine)
