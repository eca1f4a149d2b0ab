// Each line of the function must get a warning; the test looks for their numbers.
#include "sluice/api/fit.h"
#include "sluice/nn/block.h"

void mistakes() {
  sluice::nn::Block("B1");
  sluice::nn::Block(0);
  sluice::nn::NameScope("encoder");
  sluice::nn::Autocast(false);
  sluice::StopSignals{};
}
