/* Logs what a process does to the files below one directory, for `support/power_cut.py`.
 *
 * Loaded into each process by LD_PRELOAD:
 *
 *     FILE_LOG_ROOT    directory whose files are logged, absolute and without links
 *     FILE_LOG         file of the log, which lies elsewhere
 *
 * Each call is made and logged under one lock of all processes, so that the order in the log is the
 * order of the calls. A sync logs the content that it made durable: whatever a process wrote that
 * has no shim, as the confined worker, is known from then on.
 *
 * A record, little-endian: its size without these four bytes u32, kind u8, three inodes of two u64
 * (number, time of birth: numbers are used again), value i64, length of two names u16 each, the
 * names, the content.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct inode { uint64_t number, born_ns; };
struct place { struct inode folder; char name[NAME_MAX + 1]; int inside; };

static char root[PATH_MAX];
static int log_fd = -1;
static dev_t log_device;
static ino_t log_number;
static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FILE_LOG"), *folder = getenv("FILE_LOG_ROOT");
    struct stat facts;
    if (!path || !folder) return;
    snprintf(root, sizeof root, "%s", folder);
    int opened = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (opened < 0) return;
    log_fd = (int)syscall(SYS_fcntl, opened, F_DUPFD_CLOEXEC, 700);
    syscall(SYS_close, opened);
    if (log_fd < 0 || fstat(log_fd, &facts)) { log_fd = -1; return; }
    log_device = facts.st_dev;
    log_number = facts.st_ino;
}

/* A process may close descriptors that it does not know, and give the number to another file. */
static int is_logging(void) {
    struct stat facts;
    return log_fd >= 0 && !fstat(log_fd, &facts) && facts.st_ino == log_number && facts.st_dev == log_device;
}

static void lock(int kind) {
    struct flock whole = {.l_type = (short)kind, .l_whence = SEEK_SET};
    if (kind == F_WRLCK) pthread_mutex_lock(&threads);
    while (syscall(SYS_fcntl, log_fd, F_SETLKW, &whole) && errno == EINTR) {}
    if (kind == F_UNLCK) pthread_mutex_unlock(&threads);
}

static int is_below(const char *path) {
    size_t size = strlen(root);
    return !strncmp(path, root, size) && (path[size] == '/' || !path[size]);
}

static int inode_at(int folder, const char *path, int flags, struct inode *found, int *kind) {
    struct statx facts;
    if (syscall(SYS_statx, folder, path, flags | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &facts)) return -1;
    found->number = facts.stx_ino;
    found->born_ns = (uint64_t)facts.stx_btime.tv_sec * 1000000000u + facts.stx_btime.tv_nsec;
    if (kind) *kind = S_ISREG(facts.stx_mode) ? 0 : S_ISDIR(facts.stx_mode) ? 1 : 2;
    return 0;
}

static int path_of(int fd, char *path) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size < 0) return -1;
    path[size] = 0;
    return 0;
}

static int is_ours(int fd, int *kind, struct inode *found) {
    char path[PATH_MAX];
    struct stat facts;
    if (!is_logging() || fstat(fd, &facts) || !(S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode))) return 0;
    return !path_of(fd, path) && is_below(path) && !inode_at(fd, "", AT_EMPTY_PATH, found, kind);
}

static struct place place_of(int fd, const char *path) {
    struct place place = {.inside = 0, .name = ""};
    char text[2 * PATH_MAX], base[PATH_MAX] = "", folder[PATH_MAX];
    if (!is_logging() || !path || strlen(path) >= PATH_MAX) return place;
    if (path[0] != '/' && fd != AT_FDCWD) {
        if (path_of(fd, base)) return place;
        strcat(base, "/");
    }
    snprintf(text, sizeof text, "%s%s", base, path);
    size_t size = strlen(text);
    while (size > 1 && text[size - 1] == '/') text[--size] = 0;
    char *slash = strrchr(text, '/');
    strncpy(place.name, slash ? slash + 1 : text, sizeof place.name - 1);
    if (slash == text) slash[1] = 0;
    else if (slash) *slash = 0;
    if (!realpath(slash ? text : ".", folder) || !is_below(folder)) return place;
    place.inside = !inode_at(AT_FDCWD, folder, 0, &place.folder, NULL);
    return place;
}

static void record(char kind, struct inode a, struct inode b, struct inode c, int64_t value,
                   const char *name, const char *other, const void *content, size_t size) {
    uint16_t lengths[2] = {(uint16_t)strlen(name), (uint16_t)strlen(other)};
    struct inode inodes[3] = {a, b, c};
    uint32_t total = (uint32_t)(1 + sizeof inodes + 8 + 4 + lengths[0] + lengths[1] + size);
    struct iovec parts[] = {{&total, 4}, {&kind, 1}, {inodes, sizeof inodes}, {&value, 8}, {lengths, 4},
                            {(void *)name, lengths[0]}, {(void *)other, lengths[1]}, {(void *)content, size}};
    syscall(SYS_writev, log_fd, parts, 8);
}

static const struct inode none = {0, 0};

static void record_content(char kind, int fd, struct inode of, int64_t begin_at, int64_t size) {
    char link[40], *content = malloc(size > 0 ? (size_t)size : 1);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int again = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
    int64_t have = 0;
    while (again >= 0 && have < size) {
        ssize_t part = syscall(SYS_pread64, again, content + have, size - have, begin_at + have);
        if (part <= 0) break;
        have += part;
    }
    if (again >= 0) syscall(SYS_close, again);
    record(kind, of, none, none, begin_at, "", "", content, (size_t)have);
    free(content);
}

static void record_names(int fd, struct inode of) {
    char path[PATH_MAX], *content = NULL;
    size_t size = 0;
    if (path_of(fd, path)) return;
    FILE *out = open_memstream(&content, &size);
    DIR *folder = opendir(path);
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        struct inode found;
        int kind;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (inode_at(dirfd(folder), entry->d_name, 0, &found, &kind)) continue;
        uint16_t length = (uint16_t)strlen(entry->d_name);
        uint8_t byte = (uint8_t)kind;
        fwrite(&found, sizeof found, 1, out);
        fwrite(&byte, 1, 1, out);
        fwrite(&length, 2, 1, out);
        fwrite(entry->d_name, 1, length, out);
    }
    if (folder) closedir(folder);
    fclose(out);
    record('D', of, none, none, 0, "", "", content, size);
    free(content);
}

/* Names */

static int opened_at(int folder, const char *path, int flags, mode_t mode) {
    struct inode found, before;
    int kind, result, error;
    if (!(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE)
        return (int)syscall(SYS_openat, folder, path, flags, mode);
    struct place place = place_of(folder, path);
    if (!place.inside) return (int)syscall(SYS_openat, folder, path, flags, mode);
    lock(F_WRLCK);
    int was_there = !inode_at(folder, path, 0, &before, NULL);
    result = (int)syscall(SYS_openat, folder, path, flags, mode);
    error = errno;
    if (result >= 0 && !inode_at(result, "", AT_EMPTY_PATH, &found, &kind)) {
        if (!was_there) record('C', place.folder, found, none, kind, place.name, "", "", 0);
        else if (flags & O_TRUNC) record('T', found, none, none, 0, "", "", "", 0);
    }
    lock(F_UNLCK);
    errno = error;
    return result;
}

#define MODE(flags) mode_t mode = 0; if ((flags) & (O_CREAT | O_TMPFILE)) { va_list all; va_start(all, flags); mode = va_arg(all, mode_t); va_end(all); }
int open(const char *path, int flags, ...) { MODE(flags) return opened_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened_at(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return opened_at(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return opened_at(folder, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return opened_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int mkdirat(int folder, const char *path, mode_t mode) {
    struct place place = place_of(folder, path);
    struct inode found;
    if (!place.inside) return (int)syscall(SYS_mkdirat, folder, path, mode);
    lock(F_WRLCK);
    int result = (int)syscall(SYS_mkdirat, folder, path, mode), error = errno;
    if (!result && !inode_at(folder, path, 0, &found, NULL)) record('C', place.folder, found, none, 1, place.name, "", "", 0);
    lock(F_UNLCK);
    errno = error;
    return result;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int unlinkat(int folder, const char *path, int flags) {
    struct place place = place_of(folder, path);
    if (!place.inside) return (int)syscall(SYS_unlinkat, folder, path, flags);
    lock(F_WRLCK);
    int result = (int)syscall(SYS_unlinkat, folder, path, flags), error = errno;
    if (!result) record('U', place.folder, none, none, 0, place.name, "", "", 0);
    lock(F_UNLCK);
    errno = error;
    return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

static int moved(char op, int from, const char *path, int to, const char *other, unsigned flags) {
    struct place a = place_of(from, path), b = place_of(to, other);
    struct inode found = none;
    long number = op == 'R' ? SYS_renameat2 : SYS_linkat;
    if (!a.inside && !b.inside) return (int)syscall(number, from, path, to, other, flags);
    lock(F_WRLCK);
    inode_at(from, path, 0, &found, NULL);
    int result = (int)syscall(number, from, path, to, other, flags), error = errno;
    if (!result) record(op == 'R' && flags ? 'X' : op, a.folder, b.folder, found, 0, a.name, b.name, "", 0);
    lock(F_UNLCK);
    errno = error;
    return result;
}
int renameat2(int from, const char *path, int to, const char *other, unsigned flags) { return moved('R', from, path, to, other, flags); }
int renameat(int from, const char *path, int to, const char *other) { return moved('R', from, path, to, other, 0); }
int rename(const char *path, const char *other) { return moved('R', AT_FDCWD, path, AT_FDCWD, other, 0); }
int linkat(int from, const char *path, int to, const char *other, int flags) { return moved('L', from, path, to, other, (unsigned)flags); }
int link(const char *path, const char *other) { return moved('L', AT_FDCWD, path, AT_FDCWD, other, 0); }

/* Contents */

#define WRITTEN(fd, call, begins)                                        \
    struct inode found;                                                  \
    int kind, error;                                                     \
    ssize_t result;                                                      \
    if (!is_ours(fd, &kind, &found)) return call;                        \
    lock(F_WRLCK);                                                       \
    result = call;                                                       \
    error = errno;                                                       \
    if (result > 0) record_content('W', fd, found, begins, result);      \
    lock(F_UNLCK);                                                       \
    errno = error;                                                       \
    return result;

ssize_t write(int fd, const void *data, size_t size) { WRITTEN(fd, syscall(SYS_write, fd, data, size), lseek(fd, 0, SEEK_CUR) - result) }
ssize_t writev(int fd, const struct iovec *parts, int count) { WRITTEN(fd, syscall(SYS_writev, fd, parts, count), lseek(fd, 0, SEEK_CUR) - result) }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { WRITTEN(fd, syscall(SYS_pwrite64, fd, data, size, at), at) }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { WRITTEN(fd, syscall(SYS_pwrite64, fd, data, size, at), at) }
ssize_t sendfile(int fd, int from, off_t *at, size_t size) { WRITTEN(fd, syscall(SYS_sendfile, fd, from, at, size), lseek(fd, 0, SEEK_CUR) - result) }
ssize_t sendfile64(int fd, int from, off64_t *at, size_t size) { WRITTEN(fd, syscall(SYS_sendfile, fd, from, at, size), lseek(fd, 0, SEEK_CUR) - result) }
ssize_t copy_file_range(int from, off64_t *at, int fd, off64_t *to, size_t size, unsigned flags) {
    if (to) { errno = ENOSYS; return -1; }
    WRITTEN(fd, syscall(SYS_copy_file_range, from, at, fd, to, size, flags), lseek(fd, 0, SEEK_CUR) - result)
}

int ftruncate64(int fd, off64_t size) {
    struct inode found;
    int kind;
    if (!is_ours(fd, &kind, &found)) return (int)syscall(SYS_ftruncate, fd, size);
    lock(F_WRLCK);
    int result = (int)syscall(SYS_ftruncate, fd, size), error = errno;
    if (!result) record('T', found, none, none, size, "", "", "", 0);
    lock(F_UNLCK);
    errno = error;
    return result;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static int synced(int fd, long number) {
    struct inode found;
    struct stat facts;
    int kind;
    if (!is_ours(fd, &kind, &found)) return (int)syscall(number, fd);
    lock(F_WRLCK);
    int result = (int)syscall(number, fd), error = errno;
    if (!result && kind == 1) record_names(fd, found);
    else if (!result && !fstat(fd, &facts)) record_content('S', fd, found, 0, facts.st_size);
    lock(F_UNLCK);
    errno = error;
    return result;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }
