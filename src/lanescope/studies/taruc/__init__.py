"""TARUC's suite: parameters, the experiments they stand for, findings and report."""

from lanescope.studies.taruc.axes import Only as Only
from lanescope.studies.taruc.parameters import Benchmark as Benchmark
from lanescope.studies.taruc.parameters import Contention as Contention
from lanescope.studies.taruc.parameters import Nurma as Nurma
from lanescope.studies.taruc.parameters import Parameters as Parameters
from lanescope.studies.taruc.parameters import Sizes as Sizes
