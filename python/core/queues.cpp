// Infeed queues over Python iterators, outfeed queues, and benchmarks of datasets.
#include "python/core/queues.h"

#include "python/core/bindings.h"
#include "python/core/choice.h"
#include "python/core/interruptible.h"
#include "python/core/python_dataset.h"
#include "sluice/data/queues.h"

namespace sluice::python {
namespace {

using data::InfeedQueue;
using data::OutfeedQueue;

constexpr std::chrono::milliseconds kPatience{50};  // between two looks for signals

/// Calls `isDone`, which waits a little, until it returns true. Ctrl-C ends that.
template <class IsDone>
void awaitInterruptibly(const IsDone& isDone) {
  while (true) {
    {
      const Unlocked release;
      if (isDone()) {
        return;
      }
    }
    if (PyErr_CheckSignals() != 0) {
      throw py::error_already_set();
    }
  }
}

/// The queue's thread may be in a call of Python, and the queue's end waits for it.
void endInfeed(InfeedQueue* queue) {
  if (interpreterEnds()) {
    return;  // that call may never end
  }
  endOutsideOfReaders([queue] { delete queue; });
}

std::shared_ptr<InfeedQueue> makeInfeed(const py::function& open,
                                        std::int64_t prefetchDepth,
                                        std::vector<std::string> names) {
  auto dataset = std::make_shared<PythonDataset>(open);
  return {new InfeedQueue(std::move(dataset), prefetchDepth, std::move(names)), &endInfeed};
}

std::vector<HostTensor> dequeueInfeed(InfeedQueue& queue) {
  std::vector<HostTensor> element;
  queue.resume();
  runInterruptibly([&] { element = queue.dequeue(); }, [&] { queue.interrupt(); });
  return element;
}

std::vector<py::tuple> typesOf(InfeedQueue& queue) {
  awaitTypes(queue);
  data::Types types;
  {
    const Unlocked release;  // who dequeues has the queue's lock while it waits
    types = queue.types();
  }
  std::vector<py::tuple> result;
  for (const TensorType& type : types) {
    result.push_back(py::make_tuple(shapeTuple(type.shape), dtypeName(type.dtype)));
  }
  return result;
}

bool awaitOutfeed(OutfeedQueue& queue, std::int64_t iterations) {
  bool arrived = false;
  awaitInterruptibly([&] {
    arrived = queue.awaitFor(kPatience, iterations);
    return arrived || queue.isClosed();
  });
  return arrived;
}

data::OutfeedMode modeOf(const std::string& name) {
  return choice<data::OutfeedMode>(
      "outfeed_mode", name, {{"all", data::OutfeedMode::All}, {"last", data::OutfeedMode::Last}});
}

std::string benchmarkDataset(const py::function& open,
                             std::int64_t epochs,
                             std::int64_t elements,
                             bool printStats,
                             bool doMemcpy) {
  PythonDataset dataset(open);
  std::string report;
  {
    const Unlocked release;
    report = data::datasetBenchmark(dataset, epochs, elements, {printStats, doMemcpy});
  }
  return report;
}

std::string benchmarkInfeed(InfeedQueue& queue,
                            std::int64_t epochs,
                            std::int64_t elements,
                            bool printStats,
                            bool doMemcpy) {
  std::string report;
  queue.resume();
  runInterruptibly(
      [&] {
        report = data::infeedBenchmark(queue, epochs, elements, {printStats, doMemcpy});
      },
      [&] { queue.interrupt(); });
  return report;
}

}  // namespace

void awaitTypes(InfeedQueue& queue) {
  queue.resume();
  awaitInterruptibly([&] { return queue.awaitTypes(kPatience); });
}

void bindQueues(py::module_& m) {
  using Release = py::call_guard<Unlocked>;
  py::class_<InfeedQueue, std::shared_ptr<InfeedQueue>>(
      m, "InfeedQueue", "Passes the elements of an iterator to a running model.")
      .def(py::init(&makeInfeed),
           py::arg("open"),
           py::arg("prefetch_depth") = 3,
           py::arg("names") = std::vector<std::string>())
      .def("types", &typesOf, "(shape, dtype) of each tensor; waits for the first element.")
      .def_property_readonly("names", &InfeedQueue::names)
      .def("dequeue", &dequeueInfeed)
      .def_property_readonly("dequeued", py::cpp_function(&InfeedQueue::dequeued, Release()))
      .def("close", &InfeedQueue::close, Release());
  py::class_<OutfeedQueue, std::shared_ptr<OutfeedQueue>>(
      m, "OutfeedQueue", "Passes the results of a running model to the host.")
      .def(py::init([](const std::string& mode, std::int64_t capacity) {
             return std::make_shared<OutfeedQueue>(modeOf(mode), capacity);
           }),
           py::arg("mode") = "all",
           py::arg("capacity") = 0)
      .def("dequeue", &OutfeedQueue::dequeue, Release())
      .def("dequeue_named", &OutfeedQueue::dequeueNamed, Release())
      .def("wait", &awaitOutfeed, py::arg("iterations") = 1)
      .def("__len__", &OutfeedQueue::size)
      .def("close", &OutfeedQueue::close, Release());
  m.def("dataset_benchmark",
        &benchmarkDataset,
        py::arg("open"),
        py::arg("epochs"),
        py::arg("elements"),
        py::arg("print_stats") = true,
        py::arg("do_memcpy") = true);
  m.def("infeed_benchmark",
        &benchmarkInfeed,
        py::arg("queue"),
        py::arg("epochs"),
        py::arg("elements"),
        py::arg("print_stats") = true,
        py::arg("do_memcpy") = true);
  endCallsAtExit();
}

}  // namespace sluice::python
