// What the page shows and what `--format json` prints: facts as JSON, times as bytes in base 64.
#include "sluice/profile/report_data.h"

#include <algorithm>

#include "sluice/base/byte_code.h"
#include "sluice/profile/common_clock.h"
#include "sluice/profile/trace_file.h"

namespace sluice::profile {
namespace {

using Json = nlohmann::json;
using runtime::TaskTime;

constexpr std::size_t kMostPoints = 3000;  // of the memory of a device
constexpr std::size_t kMostKernels = 1000;
constexpr std::size_t kMostTensors = 24;         // at the peak
constexpr std::size_t kMostStretches = 200'000;  // with their causes

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(bytes.size() - i, 3);
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8U | (k < count ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= count ? kDigits[group >> (18U - 6U * static_cast<unsigned>(k)) & 63U] : '=';
    }
  }
  return text;
}

Json causeNames() {
  Json names = Json::array();
  for (std::size_t c = 0; c < kCauses; ++c) {
    names.push_back(name(static_cast<Cause>(c)));
  }
  return names;
}

Json deviceFacts(const RunFacts& facts) {
  Json devices = Json::array();
  for (std::size_t d = 0; d < facts.why.devices.size(); ++d) {
    const DeviceIdle& device = facts.why.devices[d];
    devices.push_back({{"name", facts.trace->deviceName(d)},
                       {"span", device.span},
                       {"busy", device.busy},
                       {"idle", device.idle()},
                       {"causes", device.causes}});
  }
  return devices;
}

Json stageFacts(const RunFacts& facts) {
  Json stages = Json::array();
  for (const StageTime& stage : facts.why.stages) {
    stages.push_back({{"stage", stage.stage},
                      {"device", stage.device},
                      {"forward", stage.forward},
                      {"backward", stage.backward}});
  }
  return stages;
}

Json subjectFacts(const RunFacts& facts) {
  Json subjects = Json::array();
  for (const TracedSubject& subject : facts.trace->subjects) {
    subjects.push_back({{"name", subject.name},
                        {"category", subject.category},
                        {"stage", subject.stage},
                        {"bytes", subject.bytes},
                        {"once", subject.oncePerRound},
                        {"runs", 0},
                        {"total", 0},
                        {"longest", 0}});
  }
  for (const SubjectTime& time : facts.why.subjects) {
    Json& subject = subjects[static_cast<std::size_t>(time.subject)];
    subject["runs"] = time.count;
    subject["total"] = time.total;
    subject["longest"] = time.longest;
  }
  return subjects;
}

Json pathFacts(const RunFacts& facts) {
  Json path = Json::array();
  for (const PathPart& part : facts.why.criticalPath) {
    path.push_back({{"subject", part.subject},
                    {"waiting", part.waiting},
                    {"cause", static_cast<int>(part.cause)},
                    {"time", part.time}});
  }
  return path;
}

Json latencyFacts(const Latencies& all) {
  const auto of = [](const Latency& latency) -> Json {
    return {{"min", latency.min}, {"avg", latency.avg}, {"max", latency.max}};
  };
  return {{"hostDevice", of(all.hostDevice)},
          {"compute", of(all.compute)},
          {"deviceHost", of(all.deviceHost)},
          {"roundTrip", of(all.roundTrip)}};
}

Json memoryFacts(const RunFacts& facts, std::int64_t origin) {
  Json devices = Json::array();
  for (std::size_t d = 0; d < facts.peaks.size(); ++d) {
    const MemoryUse& peak = facts.peaks[d];
    Json tensors = Json::array();
    for (std::size_t i = 0; i < std::min(peak.atPeak.size(), kMostTensors); ++i) {
      tensors.push_back({peak.atPeak[i].name, peak.atPeak[i].bytes, peak.atPeak[i].state});
    }
    std::vector<MemoryPoint> points;
    for (const std::vector<MemoryUse>& step : facts.memory) {
      points.insert(points.end(), step[d].points.begin(), step[d].points.end());
    }
    Json curve = Json::array();
    for (const MemoryPoint& point : thinned(points, kMostPoints)) {
      curve.push_back({point.time - origin, point.bytes});
    }
    devices.push_back({{"state", peak.stateBytes},
                       {"planned", peak.planned},
                       {"peak", peak.peak},
                       {"peakTime", peak.peakTime - origin},
                       {"tensors", std::move(tensors)},
                       {"points", std::move(curve)}});
  }
  return devices;
}

Json remoteFacts(const RunFacts& facts) {
  Json remote = Json::array();
  for (const RemoteUse& use : facts.remote) {
    remote.push_back({{"fetched", use.fetched},
                      {"flushed", use.flushed},
                      {"copying", use.copying},
                      {"waited", use.waited}});
  }
  return remote;
}

/// The longest ones, if there are very many.
Json kernelFacts(const RunFacts& facts) {
  Json kernels = Json::array();
  for (std::size_t i = 0; i < std::min(facts.kernels.size(), kMostKernels); ++i) {
    const KernelUse& use = facts.kernels[i];
    kernels.push_back({{"kernel", use.kernel},
                       {"task", use.task},
                       {"runs", use.count},
                       {"total", use.total},
                       {"longest", use.longest},
                       {"gigaflopsPerSecond", use.gigaflopsPerSecond()},
                       {"gigabytesPerSecond", use.gigabytesPerSecond()},
                       {"limitShare", use.limitShare()}});
  }
  return kernels;
}

/// Null if there is none.
Json predictionFacts(const std::optional<Prediction>& prediction) {
  if (!prediction) {
    return nullptr;
  }
  const auto of = [](const PredictedPart& part) -> Json {
    return {{"what", part.what}, {"measured", part.measured}, {"predicted", part.predicted}};
  };
  const auto all = [&](const std::vector<PredictedPart>& parts) {
    Json list = Json::array();
    for (const PredictedPart& part : parts) {
      list.push_back(of(part));
    }
    return list;
  };
  return {{"target", prediction->target},
          {"step", of(prediction->step)},
          {"devices", all(prediction->devices)},
          {"tasks", all(prediction->tasks)}};
}

Json suggestionFacts(const std::vector<SuggestedChange>& changes) {
  Json list = Json::array();
  for (const SuggestedChange& each : changes) {
    list.push_back({{"change", each.change}, {"seconds", each.seconds}, {"faster", each.faster}});
  }
  return list;
}

/// Lanes with their tasks as pairs of subject and micro-batch.
Json laneFacts(const Trace& trace) {
  Json lanes = Json::array();
  for (const TracedLane& lane : trace.lanes) {
    Json tasks = Json::array();
    for (const TracedTask& task : lane.tasks) {
      tasks.push_back(task.subject);
      tasks.push_back(task.microBatch);
    }
    lanes.push_back({{"device", lane.device},
                     {"kind", program::name(lane.kind)},
                     {"name", lane.name},
                     {"tasks", std::move(tasks)}});
  }
  return lanes;
}

std::string timeBytes(const Trace& trace, std::int64_t origin) {
  ByteWriter out;
  for (const Trace::Step& step : trace.steps) {
    writeTimes(out, trace, step, origin);
  }
  return base64(out.bytes());
}

/// The longest ones, if there are very many.
std::string stretchBytes(const RunFacts& facts, std::int64_t origin) {
  std::vector<const IdleStretch*> shown;
  for (const IdleStretch& stretch : facts.why.stretches) {
    shown.push_back(&stretch);
  }
  const auto length = [](const IdleStretch* stretch) { return stretch->end - stretch->begin; };
  if (shown.size() > kMostStretches) {
    std::ranges::nth_element(shown, shown.begin() + kMostStretches, std::ranges::greater{}, length);
    shown.resize(kMostStretches);
  }
  std::ranges::sort(shown, {}, [](const IdleStretch* s) { return std::pair(s->device, s->begin); });
  ByteWriter out;
  out.number(std::uint64_t{shown.size()});
  for (const IdleStretch* stretch : shown) {
    out.number(std::uint64_t{stretch->device});
    out.number(stretch->begin - origin);
    out.number(stretch->end - stretch->begin);
    out.number(stretch->nextLane);
    out.number(stretch->nextTask);
    out.number(std::uint64_t{stretch->parts.size()});
    for (const IdlePart& part : stretch->parts) {
      out.number(static_cast<std::int32_t>(part.cause));
      out.number(part.time);
      out.number(part.lane);
      out.number(part.task);
    }
  }
  return base64(out.bytes());
}

Json factsOfRun(const RunFacts& facts) {
  const Trace& trace = *facts.trace;
  return {{"title", facts.title()},
          {"simulated", trace.simulated},
          {"program", trace.name},
          {"training", trace.training},
          {"steps", trace.numSteps()},
          {"microBatches", trace.microBatchesPerRound},
          {"replicas", trace.replicas},
          {"measured", facts.why.measured},
          {"ideal", facts.why.ideal},
          {"even", facts.why.even},
          {"advice", advice(facts)},
          {"devices", deviceFacts(facts)},
          {"stages", stageFacts(facts)},
          {"subjects", subjectFacts(facts)},
          {"criticalPath", pathFacts(facts)},
          {"latencies", latencyFacts(facts.latencies)},
          {"memory", memoryFacts(facts, firstMoment(trace))},
          {"remote", remoteFacts(facts)},
          {"predicted", predictionFacts(facts.prediction)},
          {"suggestions", suggestionFacts(facts.run->suggestions)},
          {"kernels", kernelFacts(facts)}};
}

}  // namespace

Json reportFacts(std::span<const RunFacts> all) {
  Json runs = Json::array();
  for (const RunFacts& facts : all) {
    runs.push_back(factsOfRun(facts));
  }
  return {{"format", 1}, {"causes", causeNames()}, {"runs", std::move(runs)}};
}

Json pageData(std::span<const RunFacts> all) {
  Json data = reportFacts(all);
  std::vector<const Trace*> traces;
  traces.reserve(all.size());
  for (const RunFacts& facts : all) {
    traces.push_back(facts.trace);
  }
  const std::vector<std::int64_t> shifts = shiftsOf(traces);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Trace& trace = *all[i].trace;
    const std::int64_t origin = firstMoment(trace);
    Json& run = data["runs"][i];
    run["clock"] = origin + shifts[i];
    run["lanes"] = laneFacts(trace);
    run["times"] = timeBytes(trace, origin);
    run["stretches"] = stretchBytes(all[i], origin);
  }
  Json remedies = Json::array();
  for (std::size_t c = 0; c < kCauses; ++c) {
    remedies.push_back(remedyOf(static_cast<Cause>(c)));
  }
  data["remedies"] = std::move(remedies);
  return data;
}

}  // namespace sluice::profile
