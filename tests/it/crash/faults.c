// Preloaded into the daemon before the C library: makes writes to files below a folder fail, as a full or broken disk does.
// A library, not strace, because only the write call knows its file. Environment variables configure the library:
//
// FAULTS_BELOW absolute path of the folder, without symbolic links
// FAULTS_SWITCH path of a file; writes are counted, and can fail, only while this file exists
// FAULTS_SEEN path of the log with one line per failed write
// FAULTS_NUMBER number of the first write that fails, from 1
// FAULTS_LAST number of the last write that fails
// FAULTS_ERRNO value of errno for a failed write
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

static int is_below(int file, char *path, size_t room) {
    const char *folder = getenv("FAULTS_BELOW");
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, room - 1);
    if (!folder || length < 0) return 0;
    path[length] = 0;
    size_t prefix = strlen(folder);
    return strncmp(path, folder, prefix) == 0 && path[prefix] == '/';
}

static void note(long number, const char *path) {
    char line[4200];
    int length = snprintf(line, sizeof line, "write %ld to %s (INJECTED)\n", number, path);
    int seen = open(getenv("FAULTS_SEEN"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    syscall(SYS_write, seen, line, (size_t)length);
    close(seen);
}

static int is_refused(int file) {
    char path[4096];
    int before = errno;
    int refused = 0;
    if (is_below(file, path, sizeof path) && access(getenv("FAULTS_SWITCH"), F_OK) == 0) {
        long number = atomic_fetch_add(&calls, 1) + 1;
        refused = number >= atol(getenv("FAULTS_NUMBER")) && number <= atol(getenv("FAULTS_LAST"));
        if (refused) note(number, path);
    }
    errno = refused ? atoi(getenv("FAULTS_ERRNO")) : before;
    return refused;
}

ssize_t write(int file, const void *bytes, size_t count) {
    return is_refused(file) ? -1 : syscall(SYS_write, file, bytes, count);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    return is_refused(file) ? -1 : syscall(SYS_writev, file, parts, count);
}
