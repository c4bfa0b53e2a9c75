"""TARUC's suite: parameters, the experiments they stand for, findings and report."""

from lanescope.studies.taruc.axes import Only as Only
from lanescope.studies.taruc.parameters import Benchmark as Benchmark
from lanescope.studies.taruc.parameters import ContentionParameters as ContentionParameters
from lanescope.studies.taruc.parameters import NurmaParameters as NurmaParameters
from lanescope.studies.taruc.parameters import Parameters as Parameters
from lanescope.studies.taruc.parameters import SizeParameters as SizeParameters
