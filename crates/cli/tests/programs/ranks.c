/* Each way in which the ranks of a job write 1 MiB a rank: `ranks spokesperson|file-per-process|shared-file|aggregated`. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 1 << 20 };

static void write_at(const char *name, const char *data, size_t length, off_t offset) {
    int fd = open(name, O_CREAT | O_WRONLY, 0644);
    if (fd < 0 || pwrite(fd, data, length, offset) != (ssize_t)length) MPI_Abort(MPI_COMM_WORLD, 2);
    close(fd);
}

static void collectively(const char *data, int rank) {
    MPI_Info info;
    MPI_File file;
    MPI_Info_create(&info);
    /* Two of the ranks, which are on one node, write what all have. */
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "cb_config_list", "*:2");
    MPI_Info_set(info, "cb_nodes", "2");
    if (MPI_File_open(MPI_COMM_WORLD, "collective", MPI_MODE_CREATE | MPI_MODE_WRONLY, info, &file)) exit(3);
    MPI_File_write_at_all(file, (MPI_Offset)rank * LENGTH, data, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Info_free(&info);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *data = calloc(LENGTH, ranks), name[32];
    const char *way = argc > 1 ? argv[1] : "";
    if (!strcmp(way, "spokesperson")) {
        MPI_Gather(rank ? data : MPI_IN_PLACE, LENGTH, MPI_BYTE, data, LENGTH, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (rank == 0) write_at("spoken", data, (size_t)LENGTH * ranks, 0);
    } else if (!strcmp(way, "file-per-process")) {
        snprintf(name, sizeof name, "own.%04d", rank);
        write_at(name, data, LENGTH, 0);
    } else if (!strcmp(way, "shared-file")) {
        write_at("shared", data, LENGTH, (off_t)rank * LENGTH);
    } else if (!strcmp(way, "aggregated")) {
        collectively(data, rank);
    } else {
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
