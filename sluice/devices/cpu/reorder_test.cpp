// Changes of layout: values move, none changes, and padding is zero.
#include <array>
#include <cstring>

#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "sluice/devices/cpu/kernels/onednn.h"
#include "sluice/devices/cpu/kernels/pack_matrix.h"
#include "tests/support/one_op.h"

namespace sluice::devices::cpu {
namespace {

using device::KernelCall;
using device::Layout;
using testing::Guarded;
using testing::random;

/// A matrix in panels of 64 of its rows.
dnnl::memory::desc panels(const Shape& shape) {
  return {{shape[0], shape[1]}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::AB16b64a};
}

/// Runs the kernel of a reorder between guard bytes; the bytes of the result.
std::vector<std::byte> reorder(const TensorType& type,
                               const std::byte* data,
                               const Layout& from,
                               const Layout& to,
                               int threads = 1) {
  const auto device = makeCpuDevice({.threads = threads});
  KernelCall call;
  call.def = &device::kReorder;
  call.inputTypes = {type};
  call.outputTypes = {type};
  call.choice = device->kernels().choose(call.view());
  call.choice.inputs = {from};
  call.choice.outputs = {to};
  call.inputs = {0};
  call.outputs = {1};
  const auto executable = device->prepare({&call, 1});
  Guarded source(*device, from.bytes(type));
  Guarded target(*device, to.bytes(type));
  std::memcpy(source.data(), data, from.bytes(type));
  const std::array<device::Address, 2> buffers = {source.address(), target.address()};
  device->makeQueue()->launch(*executable, buffers);
  target.expectIntact("reorder");
  return {target.data(), target.data() + to.bytes(type)};
}

/// What the library makes of it.
std::vector<std::byte> libraryReorder(const HostTensor& matrix, const dnnl::memory::desc& to) {
  std::vector<std::byte> result(to.get_size());
  onednn::Call call = onednn::reorderCall(onednn::plainLike(to), to);
  const std::array<const void*, 2> addresses = {matrix.bytes(), result.data()};
  call.run(addresses);
  return result;
}

TEST(CpuReorder, PacksMatricesAsTheLibraryDoes) {
  for (const Shape& shape : {Shape{64, 16},
                             Shape{128, 256},
                             Shape{1, 1},
                             Shape{17, 65},
                             Shape{65, 17},
                             Shape{210, 130},
                             Shape{31, 300},
                             Shape{300, 31}}) {
    const HostTensor matrix = random(1, shape);
    SCOPED_TRACE(shape.str());
    const dnnl::memory::desc desc = panels(shape);
    ASSERT_TRUE(panelFormat(desc).has_value());
    const auto expected = libraryReorder(matrix, desc);
    for (const int threads : {1, 2}) {
      EXPECT_EQ(reorder(matrix.type(), matrix.bytes(), {}, onednn::layoutOf(desc), threads),
                expected);
    }
  }
}

TEST(CpuReorder, UnpacksWhatItPacked) {
  for (const Shape& shape : {Shape{128, 256}, Shape{17, 65}, Shape{300, 31}}) {
    const HostTensor matrix = random(1, shape);
    const Layout packed = onednn::layoutOf(panels(shape));
    const auto bytes = reorder(matrix.type(), matrix.bytes(), {}, packed);
    const auto back = reorder(matrix.type(), bytes.data(), packed, {});
    EXPECT_EQ(std::memcmp(back.data(), matrix.bytes(), matrix.byteCount()), 0) << shape.str();
  }
}

TEST(CpuReorder, TransposesPartOfAMatrix) {
  constexpr std::int64_t kStride = 50;
  const HostTensor matrix = random(1, {40, kStride});
  const auto from = matrix.data<float>();
  for (const auto& [rows, columns] : {std::pair(1, 1), {9, 31}, {16, 16}, {25, 17}, {40, 50}}) {
    constexpr float kUntouched = 77.0F;
    const std::int64_t toStride = rows + 2;
    std::vector<float> to(static_cast<std::size_t>(columns * toStride), kUntouched);
    transposeMatrix({rows, columns, kStride}, from.data(), to.data(), toStride);
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = 0; i < toStride; ++i) {
        const float expected =
            i < rows ? from[static_cast<std::size_t>(i * kStride + j)] : kUntouched;
        ASSERT_EQ(to[static_cast<std::size_t>(j * toStride + i)], expected) << i << ", " << j;
      }
    }
  }
}

TEST(CpuReorder, MovesChannelsToTheEndAndBack) {
  for (const Shape& shape :
       {Shape{2, 37, 9, 11}, Shape{1, 200, 13, 13}, Shape{1, 3, 30, 40}, Shape{3, 8, 17}}) {
    const HostTensor x = random(1, shape);
    const std::int64_t channels = shape[1];
    const std::int64_t pixels = shape.elements() / shape[0] / channels;
    HostTensor expected(DType::F32, shape);
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const std::int64_t image = i / (channels * pixels);
      const std::int64_t channel = i / pixels % channels;
      expected.data<float>()[static_cast<std::size_t>((image * pixels + i % pixels) * channels +
                                                      channel)] =
          x.data<float>()[static_cast<std::size_t>(i)];
    }
    const auto bytesOf = [](const HostTensor& tensor) {
      return std::vector<std::byte>(tensor.bytes(), tensor.bytes() + tensor.type().bytes());
    };
    for (const int threads : {1, 3, 16}) {
      const auto last = reorder(x.type(), x.bytes(), {}, device::Layout::channelsLast(), threads);
      EXPECT_EQ(last, bytesOf(expected)) << shape.str() << ", " << threads << " threads";
      EXPECT_EQ(reorder(x.type(), last.data(), device::Layout::channelsLast(), {}, threads),
                bytesOf(x))
          << shape.str() << ", " << threads << " threads";
    }
  }
}

TEST(CpuReorder, LeavesOtherFormatsToTheLibrary) {
  using Tag = dnnl::memory::format_tag;
  const auto f32 = dnnl::memory::data_type::f32;
  EXPECT_FALSE(panelFormat({{32, 32}, f32, Tag::ab}).has_value());
  EXPECT_FALSE(panelFormat({{32, 32}, f32, Tag::BA16a64b}).has_value());
  EXPECT_FALSE(panelFormat({{32, 32}, dnnl::memory::data_type::bf16, Tag::AB16b64a}).has_value());
  EXPECT_FALSE(panelFormat({{32, 32, 3, 3}, f32, Tag::OIhw16i16o}).has_value());
  const HostTensor weights = random(1, {20, 24, 3, 3});
  const dnnl::memory::desc desc({20, 24, 3, 3}, f32, Tag::OIhw16i16o);
  EXPECT_EQ(reorder(weights.type(), weights.bytes(), {}, onednn::layoutOf(desc)),
            libraryReorder(weights, desc));
}

}  // namespace
}  // namespace sluice::devices::cpu
