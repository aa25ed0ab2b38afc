/* Marks the borders of its phases by calls that a recording shows. With -DMPI: also those of MPI_Init. */
#ifdef MPI
#include <mpi.h>
#endif
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    access("/quell-mark-main", F_OK);
    /* Needs the mathematics library. */
    if (argc > 100) return (int)cbrt(atof(argv[1]));
#ifdef MPI
    access("/quell-mark-begin", F_OK);
    MPI_Init(&argc, &argv);
    access("/quell-mark-end", F_OK);
#endif
    for (int i = 0; i < 20; i++) access("/quell-steady", F_OK);
#ifdef MPI
    MPI_Finalize();
#endif
    return 0;
}
