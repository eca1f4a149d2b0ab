// sluice: look at graphs, programs and devices from the command line.
#include "cli/commands.h"

int main(int argc, char** argv) {
  return sluice::cli::runSluice(argc, argv);
}
