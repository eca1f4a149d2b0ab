// sluice._core: what Python sees of the library. The package in python/sluice is made of it.
#include "python/core/bindings.h"

PYBIND11_MODULE(_core, m) {
  using namespace sluice::python;
  m.doc() = "The compiled part of sluice. Use the package 'sluice' instead.";
  bindErrors(m);
  bindTensors(m);
  bindTrace(m);
  bindFunctions(m);
  bindModules(m);
  bindOptions(m);
  bindOptimizers(m);
  bindModels(m);
  bindDeviceTensors(m);
  bindQueues(m);
  bindUpdateRules(m);
  bindLoops(m);
  bindRuntime(m);
  bindSchedules(m);
  bindOnnxOps(m);
  bindBuilder(m);
  bindGraphSessions(m);
}
