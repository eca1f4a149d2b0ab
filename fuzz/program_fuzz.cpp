// The text of Programs: any text is a Program that is written in the same way again, or an Error;
// and whatever is read is found sound, or not.
#include <cstdint>

#include "fuzz/target.h"
#include "sluice/ops/op_list.h"
#include "sluice/program/loaded.h"
#include "sluice/program/text_form.h"

SLUICE_FUZZ_TARGET(program) {
  using namespace sluice;
  fuzz::accepts([&] {
    const program::Program read = program::fromText(fuzz::textOf(data, size), ops::opSet());
    const std::string text = program::toText(read);
    const program::Program again = program::fromText(text, ops::opSet());
    fuzz::require(program::toText(again) == text, "a program is written in another way");
    program::requireSound(read, {}, 1);
  });
}
