// Checkpoint files and folders: what is read again, what is refused, what is kept.
#include "sluice/api/checkpoint.h"

#include <atomic>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sluice/api/session.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using sluice::testing::messageOf;
using sluice::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Learns w of y = w x; the buffer counts micro-batches.
struct CheckpointedNet : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{2}}, ir::Initializer::constant(1));
  nn::Parameter& count = addBuffer("count", {DType::F32, Shape{}}, ir::Initializer::constant(0));
  nn::Tensor forward(const nn::Tensor& x) {
    count += 1.0;
    return nn::mean(x * w * w);
  }
};

HostTensor input() {
  return HostTensor::of<float>(Shape{1, 2}, {1, -2});
}

std::string contentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::vector<std::string> namesIn(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

TEST(Checkpoint, IsReadAsItWasWritten) {
  const TempFolder folder;
  CheckpointedNet net;
  auto model = trainingModel(net, Options().randomSeed(5), optim::Adam(0.1));
  model(input());
  model(input());
  const CheckpointFolder checkpoints(folder.path());
  const fs::path path = checkpoints.save(model, "{\"epoch\":3}");
  EXPECT_EQ(path.filename(),
            fmt::format("checkpoint-000000000002-{}-1.safetensors", model.runId()));
  const Checkpoint read = readCheckpoint(path);
  EXPECT_EQ(read.updates, 2);
  EXPECT_EQ(read.loader, "{\"epoch\":3}");
  EXPECT_EQ(read.state.rng, (RngState{5, 2}));
  EXPECT_EQ(read.state.run, model.runId());
  EXPECT_EQ(read.state.rule, "Adam");
  EXPECT_EQ(read.state.model.at("count").at(0), 2);
  const TrainingState now = model.trainingState();
  for (const auto& [name, tensor] : flattened(now.optimizer)) {
    EXPECT_TRUE(tensor.sameBits(flattened(read.state.optimizer).at(name))) << name;
  }
  // It is a safetensors file with PyTorch's names for weights and buffers.
  const SafeTensors file = readSafeTensors(path);
  EXPECT_TRUE(file.tensors.at("w").sameBits(now.model.at("w")));
  EXPECT_EQ(file.tensors.count("optimizer/ipu_state/w.exp_avg"), 1U);
  EXPECT_EQ(file.metadata.at("seed"), "5");
}

TEST(Checkpoint, ThatIsDamagedAnywhereIsRefused) {
  const TempFolder folder;
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  const fs::path path = CheckpointFolder(folder.path()).save(model, "start");
  const std::string good = contentOf(path);
  EXPECT_NO_THROW(readCheckpoint(path));
  for (std::size_t i = 0; i < good.size(); i += 3) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    write(path, bad);
    EXPECT_THROW(readCheckpoint(path), FileError) << "byte " << i;
  }
  for (std::size_t length = 0; length < good.size(); length += 7) {
    write(path, good.substr(0, length));
    EXPECT_THROW(readCheckpoint(path), FileError) << length << " bytes";
  }
  EXPECT_THROW(readCheckpoint(folder / "missing"), FileError);
}

TEST(Checkpoint, OfAnotherKindOrVersionIsRefused) {
  const TempFolder folder;
  const fs::path path = folder / "file";
  writeSafeTensors(path, {.tensors = {{"w", HostTensor::scalar(1.0F)}}});
  EXPECT_THAT(messageOf<FileError>([&] { readCheckpoint(path); }), HasSubstr("is no checkpoint"));
  writeSafeTensors(
      path, {.tensors = {}, .metadata = {{"format", "sluice.checkpoint"}, {"version", "7"}}});
  EXPECT_THAT(messageOf<FileError>([&] { readCheckpoint(path); }), HasSubstr("version '7'"));
  EXPECT_THAT(messageOf([&] {
                writeCheckpoint(path,
                                {.state = {.model = {{"optimizer/w", HostTensor::scalar(1.0F)}},
                                           .optimizer = {},
                                           .rng = {}}});
              }),
              HasSubstr("cannot begin with"));
}

TEST(Checkpoint, WithNamesThatMeanNothingIsRefusedAlthoughItsChecksumIsRight) {
  const TempFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  const fs::path path = folder / "checkpoint-000000000001.safetensors";
  for (const std::string name : {"optimizer/lr", "replica/mean", "replica/0/mean"}) {
    writeCheckpoint(path, {});
    SafeTensors content = readSafeTensors(path);
    content.tensors.emplace(name, HostTensor::scalar(1.0F));
    content.metadata["checksum"] = detail::checkpointChecksum(content);
    writeSafeTensors(path, content);
    EXPECT_THAT(
        messageOf<FileError>([&] { readCheckpoint(path); }),
        ::testing::AllOf(HasSubstr(path.string()), HasSubstr(name.substr(name.find('/') + 1))));
    EXPECT_FALSE(checkpoints.latest());  // left out, as one that is not whole
  }
}

TEST(CheckpointFolder, KeepsTheNewest) {
  const TempFolder folder;
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  const CheckpointFolder checkpoints(folder / "deep" / "er", 2);
  EXPECT_EQ(checkpoints.latest(), std::nullopt);
  write(checkpoints.folder() / "notes.txt", "mine");
  // Left by a process that is gone: nobody holds its lock.
  write(checkpoints.folder() / "checkpoint-000000000001.safetensors.sluice-99-0.part", "half");
  for (int i = 0; i < 4; ++i) {
    model(input());
    const fs::path saved = checkpoints.save(model);
    EXPECT_EQ(checkpoints.latest(), saved);
  }
  EXPECT_THAT(namesIn(checkpoints.folder()),
              ElementsAre(fmt::format("checkpoint-000000000003-{}-3.safetensors", model.runId()),
                          fmt::format("checkpoint-000000000004-{}-4.safetensors", model.runId()),
                          "notes.txt"));
  EXPECT_THAT(messageOf([&] { CheckpointFolder(folder.path(), 0); }), HasSubstr("at least 1"));
  EXPECT_THAT(messageOf<FileError>([&] { CheckpointFolder(checkpoints.folder() / "notes.txt"); }),
              HasSubstr("notes.txt"));
}

TEST(CheckpointFolder, ThatIsGoneIsAFileError) {
  const TempFolder folder;
  const CheckpointFolder checkpoints(folder / "inner");
  fs::remove_all(checkpoints.folder());
  EXPECT_THAT(messageOf<FileError>([&] { checkpoints.files(); }),
              HasSubstr(checkpoints.folder().string()));
  EXPECT_THROW(checkpoints.latest(), FileError);
}

TEST(CheckpointFolder, ResumesFromTheNewestThatIsWhole) {
  const TempFolder folder;
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  const CheckpointFolder checkpoints(folder.path(), 5);
  EXPECT_FALSE(checkpoints.resume(model));
  model(input());
  checkpoints.save(model, "first");
  model(input());
  const fs::path second = checkpoints.save(model, "second");
  write(second, contentOf(second).substr(0, 300));
  write(folder / fmt::format("checkpoint-000000000009-{}-9.safetensors", model.runId()), "");
  const fs::path fifo =
      folder / fmt::format("checkpoint-000000000010-{}-10.safetensors", model.runId());
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  CheckpointedNet freshNet;
  auto fresh = trainingModel(freshNet, Options(), optim::Adam(0.1));
  ::testing::internal::CaptureStderr();
  const std::optional<Resumed> resumed = checkpoints.resume(fresh);
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(warnings, HasSubstr(second.string()));
  EXPECT_THAT(warnings, HasSubstr("checkpoint-000000000009"));
  EXPECT_THAT(warnings, HasSubstr(fifo.string() + "': it is a FIFO"));
  EXPECT_THAT(warnings, HasSubstr("1 updates of run " + model.runId()));
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->loader, "first");
  EXPECT_EQ(resumed->updates, 1);
  EXPECT_EQ(resumed->run, model.runId());
  EXPECT_EQ(fresh.runId(), model.runId());
  fresh(input());
  EXPECT_TRUE(freshNet.w.value().sameBits(net.w.value()));
  // The damaged one that was further does not push the good ones out.
  const CheckpointFolder one(folder.path(), 1);
  model(input());
  one.save(model, "third");
  EXPECT_EQ(one.resume(fresh)->loader, "third");
}

TEST(CheckpointFolder, RefusesAModelThatDoesNotFitAndLeavesItAsItWas) {
  const TempFolder folder;
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  model(input());
  const CheckpointFolder checkpoints(folder.path());
  const fs::path path = checkpoints.save(model);
  CheckpointedNet otherNet;
  auto other = trainingModel(otherNet, Options(), optim::SGD(0.1));
  const std::string message = messageOf([&] { checkpoints.resume(other); });
  EXPECT_THAT(message, HasSubstr(path.string()));
  EXPECT_THAT(message, HasSubstr("saved by Adam, this model's optimizer is SGD"));
  EXPECT_NE(other.runId(), model.runId());
  EXPECT_EQ(otherNet.w.value().at(0), 1);
  EXPECT_EQ(other.updates(), 0);
}

/// A run of its own that saves after each of its updates.
std::string runInto(const CheckpointFolder& checkpoints, int updates) {
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  for (int i = 0; i < updates; ++i) {
    model(input());
    checkpoints.save(model, "of " + model.runId());
  }
  return model.runId();
}

TEST(CheckpointFolder, KeepsTheRunsOfAFolderApart) {
  const TempFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 2);
  const std::string longer = runInto(checkpoints, 5);
  const std::string later = runInto(checkpoints, 3);  // fewer updates, written last
  ASSERT_NE(longer, later);
  // Each kept its own newest two, also where both had the same number of updates.
  EXPECT_EQ(checkpoints.files().size(), 4U);
  EXPECT_EQ(readCheckpoint(checkpoints.files()[1]).state.run, longer);
  EXPECT_EQ(readCheckpoint(checkpoints.files()[1]).updates, 5);
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  ::testing::internal::CaptureStderr();
  std::optional<Resumed> resumed = checkpoints.resume(model);
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->run, later);
  EXPECT_EQ(resumed->updates, 3);
  EXPECT_EQ(resumed->loader, "of " + later);
  EXPECT_THAT(log, HasSubstr("holds checkpoints of 2 runs"));
  EXPECT_THAT(log, HasSubstr(longer));
  // Of a run whose newest file is damaged an older one is taken before those of another run.
  write(checkpoints.files().back(), "cut off");
  resumed = checkpoints.resume(model);
  EXPECT_EQ(resumed->run, later);
  EXPECT_EQ(resumed->updates, 2);
  // It goes on as the same run.
  model(input());
  EXPECT_EQ(readCheckpoint(checkpoints.save(model)).state.run, later);
  EXPECT_EQ(checkpoints.files().size(), 4U);
}

TEST(CheckpointFolder, GoesOnWithAnotherRunOnlyWhenTheDamagedOneIsTakenAway) {
  const TempFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 2);
  const std::string longer = runInto(checkpoints, 5);
  const std::string later = runInto(checkpoints, 2);
  std::vector<fs::path> files = checkpoints.files();
  write(files[2], "cut off");
  write(files[3], "cut off");
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  for (const auto& refused : {messageOf<FileError>([&] { checkpoints.resume(model); }),
                              messageOf<FileError>([&] { checkpoints.latest(); })}) {
    EXPECT_THAT(refused, HasSubstr("no whole checkpoint of run " + later));
    EXPECT_THAT(refused, HasSubstr("is of run " + longer));
    EXPECT_THAT(refused, HasSubstr(files[3].filename().string()));
  }
  EXPECT_EQ(model.updates(), 0);
  fs::remove(files[2]);
  fs::remove(files[3]);
  const std::optional<Resumed> resumed = checkpoints.resume(model);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->run, longer);
  EXPECT_EQ(resumed->updates, 5);
}

TEST(CheckpointFolder, SavesWhatBelongsTogetherWhileOtherThreadsTrain) {
  const TempFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 1);
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  model(input());
  std::atomic<bool> stop{false};
  std::vector<std::thread> trainers;
  for (int i = 0; i < 2; ++i) {
    trainers.emplace_back([&] {
      while (!stop.load()) {
        model(input());
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    {
      const auto scope = model.exclusive();  // both trainers wait, so the next call is theirs
      while (model.session().turn()->waiting() < 2) {
        std::this_thread::yield();
      }
    }
    const Checkpoint saved = readCheckpoint(checkpoints.save(model));
    EXPECT_EQ(saved.state.optimizer.at("ipu_param").at("updates").at(0), saved.updates);
    EXPECT_EQ(saved.state.rng.microBatch, saved.updates);
  }
  stop.store(true);
  for (std::thread& trainer : trainers) {
    trainer.join();
  }
}

TEST(CheckpointFolder, ReadsFilesOfEarlierVersions) {
  const TempFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 1);
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  model(input());
  for (const int updates : {1, 10, 9}) {  // by their numbers, not as they were written
    Checkpoint old{model.trainingState(), updates, "old"};
    old.state.run.clear();
    old.state.rule.clear();
    writeCheckpoint(folder / fmt::format("checkpoint-{:012}.safetensors", updates), old);
  }
  CheckpointedNet freshNet;
  auto fresh = trainingModel(freshNet, Options(), optim::Adam(0.1));
  const std::string own = fresh.runId();
  const std::optional<Resumed> resumed = checkpoints.resume(fresh);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->updates, 10);
  EXPECT_EQ(resumed->run, "");
  EXPECT_EQ(fresh.runId(), own);
  checkpoints.save(fresh, "new");
  EXPECT_EQ(checkpoints.files().size(), 4U);
  EXPECT_EQ(checkpoints.resume(fresh)->loader, "new");
}

TEST(CheckpointFolder, RefusesARunThatIsNoName) {
  const TempFolder folder;
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  EXPECT_TRUE(isRunId(model.runId())) << model.runId();
  for (const std::string& run :
       std::vector<std::string>{"../elsewhere", "a b", std::string(65, 'x')}) {
    Checkpoint checkpoint{model.trainingState(), 0, ""};
    checkpoint.state.run = run;
    writeCheckpoint(folder / "file", checkpoint);
    EXPECT_THAT(messageOf<FileError>([&] { readCheckpoint(folder / "file"); }),
                HasSubstr("cannot be the name of a run"));
  }
}

DataLoader loader() {
  HostTensor x(DType::F32, Shape{5, 2});
  for (std::int64_t i = 0; i < 10; ++i) {
    x.set(i, static_cast<double>(i) / 10);
  }
  return {Options(), data::tensorDataset({x}), 1, {.shuffle = data::Shuffle::Yes, .seed = 3}};
}

TEST(Fit, GoesOnFromACheckpointOfItsCallback) {
  const TempFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 100);
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  DataLoader batches = loader();
  fit(model, batches, {.epochs = 3, .callbacks = {checkpointing(model, batches, checkpoints, 2)}});
  // 15 steps: after 2, 4 ... 14, and at the end.
  EXPECT_EQ(checkpoints.files().size(), 8U);
  for (const fs::path& path : checkpoints.files()) {
    const TempFolder one;
    fs::copy(path, one / path.filename());
    CheckpointedNet again;
    auto resumedModel = trainingModel(again, Options(), optim::Adam(0.1));
    DataLoader rest = loader();
    ASSERT_TRUE(CheckpointFolder(one.path()).resume(resumedModel, rest));
    fit(resumedModel, rest, {.epochs = 3, .firstEpoch = rest.epoch()});
    EXPECT_TRUE(again.w.value().sameBits(net.w.value())) << path;
    EXPECT_EQ(resumedModel.updates(), 15);
    EXPECT_EQ(again.count.value().at(0), 15);
  }
}

TEST(Fit, SavesByTheClockAndKeepsTheNewest) {
  const TempFolder folder;
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  DataLoader batches = loader();
  // A step takes 10 seconds: 15 steps, of which every third is saved, and the last one.
  double now = 1000;
  struct Watch : Callback {
    explicit Watch(double& time) : now(time) {}
    void onStep(const Progress&) override { now += 10; }
    double& now;
  };
  const FitResult result = fit(
      model,
      batches,
      {.epochs = 3,
       .callbacks = {std::make_shared<Watch>(now)},
       .progress = false,
       .checkpoints = {
           .folder = folder / "new", .everySeconds = 25, .keep = 3, .clock = [&] { return now; }}});
  EXPECT_TRUE(result.resumed.empty());
  std::vector<std::int64_t> updates;
  for (const fs::path& path : CheckpointFolder(folder / "new").files()) {
    updates.push_back(readCheckpoint(path).updates);
  }
  EXPECT_THAT(updates, ElementsAre(9, 12, 15));
}

TEST(Fit, SavesByStepsOrByTimeWhicheverComesFirst) {
  const TempFolder folder;
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  DataLoader batches = loader();
  double now = 0;
  struct Watch : Callback {
    explicit Watch(double& time) : now(time) {}
    void onStep(const Progress& p) override { now += p.updates == 3 ? 100 : 1; }
    double& now;
  };
  fit(model,
      batches,
      {.epochs = 3,
       .callbacks = {std::make_shared<Watch>(now)},
       .progress = false,
       .checkpoints = {
           .folder = folder.path(), .everySteps = 5, .everySeconds = 50, .keep = 100, .clock = [&] {
             return now;
           }}});
  std::vector<std::int64_t> updates;
  for (const fs::path& path : CheckpointFolder(folder.path()).files()) {
    updates.push_back(readCheckpoint(path).updates);
  }
  EXPECT_THAT(updates, ElementsAre(3, 8, 13, 15));
}

TEST(Fit, ResumesFromAFolderOrAFile) {
  const TempFolder folder;
  const FitCheckpoints saved{.folder = folder / "run", .everySteps = 2, .keep = 100};
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  DataLoader batches = loader();
  // The folder is not there yet: a new run.
  const FitOptions first{
      .epochs = 3, .progress = false, .checkpoints = saved, .resume = saved.folder};
  EXPECT_TRUE(fit(model, batches, first).resumed.empty());
  const std::vector<fs::path> files = CheckpointFolder(saved.folder).files();
  ASSERT_EQ(files.size(), 8U);
  for (const fs::path& file : files) {
    const TempFolder one;
    fs::copy(file, one / file.filename());
    for (const fs::path& from : {one.path(), file}) {
      CheckpointedNet again;
      auto resumedModel = trainingModel(again, Options(), optim::Adam(0.1));
      DataLoader rest = loader();
      const FitResult result =
          fit(resumedModel, rest, {.epochs = 3, .progress = false, .resume = from});
      EXPECT_EQ(result.resumed.filename(), file.filename());
      EXPECT_EQ(resumedModel.runId(), model.runId());
      EXPECT_TRUE(again.w.value().sameBits(net.w.value())) << file;
      EXPECT_EQ(resumedModel.updates(), 15);
      EXPECT_EQ(again.count.value().at(0), 15);
    }
  }
}

TEST(Fit, RefusesToResumeFromWhatIsNotThere) {
  const TempFolder folder;
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  DataLoader batches = loader();
  EXPECT_THAT(messageOf<FileError>(
                  [&] { fit(model, batches, {.progress = false, .resume = folder / "absent"}); }),
              HasSubstr("absent"));
  write(folder / "other.safetensors", "no checkpoint");
  EXPECT_THAT(messageOf<FileError>([&] {
                fit(model, batches, {.progress = false, .resume = folder / "other.safetensors"});
              }),
              HasSubstr("other.safetensors"));
  EXPECT_EQ(model.updates(), 0);
}

TEST(Fit, KeepsTheCheckpointsBeforeOneThatIsVetoed) {
  const TempFolder folder;
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::Adam(0.1));
  DataLoader batches = loader();
  int saves = 0;
  const FitOptions options{
      .epochs = 3,
      .progress = false,
      .checkpoints = {.folder = folder.path(), .everySteps = 2, .keep = 1, .beforeSave = [&] {
                        if (++saves == 3) {
                          raise<InvalidArgument>("not this one");
                        }
                      }}};
  EXPECT_THAT(messageOf<InvalidArgument>([&] { fit(model, batches, options); }),
              HasSubstr("not this one"));
  const std::vector<fs::path> files = CheckpointFolder(folder.path()).files();
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(readCheckpoint(files[0]).updates, 4);
}

TEST(Fit, RefusesCheckpointsThatCannotBe) {
  CheckpointedNet net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  DataLoader batches = loader();
  const TempFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  EXPECT_THAT(messageOf([&] { checkpointing(model, batches, checkpoints, 0); }),
              HasSubstr("every 0 steps"));
  const auto refused = [&](const FitCheckpoints& wrong) {
    return messageOf<InvalidArgument>(
        [&] { fit(model, batches, {.progress = false, .checkpoints = wrong}); });
  };
  EXPECT_THAT(refused({.folder = folder.path(), .everySteps = -1}), HasSubstr("every -1 steps"));
  EXPECT_THAT(refused({.folder = folder.path(), .everySeconds = -1}), HasSubstr("-1 seconds"));
  EXPECT_THAT(refused({.folder = folder.path(), .everySeconds = std::nan("")}),
              HasSubstr("nan seconds"));
  EXPECT_THAT(refused({.folder = folder.path(), .keep = 0}), HasSubstr("at least 1"));
  EXPECT_EQ(model.updates(), 0);
  checkpoints.save(model, "no state of a loader");
  EXPECT_THROW(checkpoints.resume(model, batches), InvalidArgument);
}

}  // namespace
}  // namespace sluice
