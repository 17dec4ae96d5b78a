// Fails one sync of one process: preloaded, the first fsync or fdatasync below a directory fails with EIO once a file is
// there. Later ones succeed, as they do on Linux although the bytes may be gone; each is written down, since none may come.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int has_failed;

static int is_below(int file, const char *directory) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, directory, strlen(directory)) == 0;
}

static void write_down(const char *line) {
    int log = open(getenv("FAILING_SYNC_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0 || write(log, line, strlen(line)) < 0) abort();
    close(log);
}

static int synced(long call, int file) {
    const char *directory = getenv("FAILING_SYNC_BELOW"), *wish = getenv("FAILING_SYNC_FILE");
    int before = errno;
    if (is_below(file, directory) && access(wish, F_OK) == 0) {
        if (atomic_exchange(&has_failed, 1) == 0) {
            write_down("failed\n");
            errno = EIO;
            return -1;
        }
        write_down("again\n");
    }
    errno = before;
    return (int)syscall(call, file);
}

int fsync(int file) { return synced(SYS_fsync, file); }

int fdatasync(int file) { return synced(SYS_fdatasync, file); }
