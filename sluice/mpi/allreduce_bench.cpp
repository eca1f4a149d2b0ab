// bench_allreduce: how long MPI_Allreduce takes for 25 M floats, for bench_processes to be compared
// with.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <mpi.h>

int main() {
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  constexpr int kElements = 25'000'000;
  const std::vector<float> terms(kElements, 1.0F);
  std::vector<float> sum(kElements);
  std::vector<double> seconds;
  for (int i = 0; i < 6; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(terms.data(), sum.data(), kElements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    seconds.push_back(MPI_Wtime() - begin);
  }
  std::sort(seconds.begin() + 1, seconds.end());
  if (rank == 0) {
    std::printf("MPI_Allreduce of 25 M floats: %.1f ms\n", 1e3 * seconds[3]);
  }
  MPI_Finalize();
  return 0;
}
