/* System calls that fail on purpose. The program under test loads this library by LD_PRELOAD.
 *
 * The file in MORTISE_FAULTS_CONTROL has 16 rules of 256 bytes (shim.rs writes them) and is mapped, so a change takes
 * effect at once. A rule names calls, a part of the path of their file (empty: any), an error, and how often it fails.
 * It counts the calls that met it. Without an error a write or a read is short: it does half.
 *
 * Only calls through libc are met; rustix, for example, makes system calls itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 1, READ = 2, WRITE = 4, SYNC = 8, THREAD = 16, CLOCK = 32, ACCEPT = 64 };
enum { RULES = 16, PATH = 240, NONE = -1, SHORT = 0 };

struct rule {
    uint32_t calls; /* 0: the rule is off */
    int32_t error;  /* for CLOCK, seconds to add */
    int32_t left;   /* calls that still fail; below 0: all */
    uint32_t hits;
    char path[PATH];
};

static struct rule *rules;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("MORTISE_FAULTS_CONTROL");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, RULES * sizeof(struct rule), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED) rules = page;
}

/* Returns the error of the first rule for a call, SHORT, or NONE. */
static int meets(uint32_t call, const char *path, int fd) {
    if (!rules) return NONE;
    char name[4096] = "";
    for (struct rule *rule = rules; rule < rules + RULES; rule++) {
        if (!(__atomic_load_n(&rule->calls, __ATOMIC_ACQUIRE) & call)) continue;
        if (!path && fd >= 0) {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t length = readlink(link, name, sizeof name - 1);
            name[length < 0 ? 0 : length] = 0;
            path = name;
        }
        if (rule->path[0] && !(path && strstr(path, rule->path))) continue;
        int32_t left = __atomic_load_n(&rule->left, __ATOMIC_RELAXED);
        if (left >= 0 && __atomic_fetch_sub(&rule->left, 1, __ATOMIC_RELAXED) <= 0) {
            __atomic_store_n(&rule->left, 0, __ATOMIC_RELAXED);
            continue;
        }
        __atomic_fetch_add(&rule->hits, 1, __ATOMIC_RELAXED);
        return rule->error;
    }
    return NONE;
}

#define NEXT(name) ({ \
    static __typeof__(&name) next; \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
    next; })

#define FAIL(error) do { errno = (error); return -1; } while (0)

static size_t half(size_t length) { return length > 1 ? length / 2 : length; }

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        MODE(flags) \
        int fault = meets(OPEN, path, -1); \
        if (fault > 0) FAIL(fault); \
        return NEXT(name)(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name) \
    int name(int dir, const char *path, int flags, ...) { \
        MODE(flags) \
        int fault = meets(OPEN, path, -1); \
        if (fault > 0) FAIL(fault); \
        return NEXT(name)(dir, path, flags, mode); \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

#define MOVES(name, call, bytes) \
    ssize_t name(int fd, bytes buffer, size_t length) { \
        int fault = meets(call, NULL, fd); \
        if (fault > 0) FAIL(fault); \
        return NEXT(name)(fd, buffer, fault == SHORT ? half(length) : length); \
    }
MOVES(write, WRITE, const void *)
MOVES(read, READ, void *)

#define MOVES_AT(name, call, bytes, offset_type) \
    ssize_t name(int fd, bytes buffer, size_t length, offset_type offset) { \
        int fault = meets(call, NULL, fd); \
        if (fault > 0) FAIL(fault); \
        return NEXT(name)(fd, buffer, fault == SHORT ? half(length) : length, offset); \
    }
MOVES_AT(pwrite, WRITE, const void *, off_t)
MOVES_AT(pwrite64, WRITE, const void *, off64_t)
MOVES_AT(pread, READ, void *, off_t)
MOVES_AT(pread64, READ, void *, off64_t)

ssize_t writev(int fd, const struct iovec *parts, int count) {
    int fault = meets(WRITE, NULL, fd);
    if (fault > 0) FAIL(fault);
    return NEXT(writev)(fd, parts, fault == SHORT && count > 1 ? count / 2 : count);
}

#define SYNCS(name) \
    int name(int fd) { \
        int fault = meets(SYNC, NULL, fd); \
        if (fault > 0) FAIL(fault); \
        return NEXT(name)(fd); \
    }
SYNCS(fsync)
SYNCS(fdatasync)

int sync_file_range(int fd, off64_t offset, off64_t length, unsigned int flags) {
    int fault = meets(SYNC, NULL, fd);
    if (fault > 0) FAIL(fault);
    return NEXT(sync_file_range)(fd, offset, length, flags);
}

int accept4(int fd, struct sockaddr *addr, socklen_t *length, int flags) {
    int fault = meets(ACCEPT, NULL, -1);
    if (fault > 0) FAIL(fault);
    return NEXT(accept4)(fd, addr, length, flags);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    int fault = meets(THREAD, NULL, -1);
    if (fault > 0) return fault;
    return NEXT(pthread_create)(thread, attributes, run, argument);
}

// A system that refuses threads refuses processes, too.
int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                 char *const arguments[], char *const environment[]) {
    int fault = meets(THREAD, NULL, -1);
    if (fault > 0) return fault;
    return NEXT(posix_spawnp)(pid, file, actions, attributes, arguments, environment);
}

pid_t fork(void) {
    int fault = meets(THREAD, NULL, -1);
    if (fault > 0) FAIL(fault);
    return NEXT(fork)();
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = NEXT(clock_gettime)(clock, time);
    if (result == 0 && clock == CLOCK_REALTIME && rules) {
        for (struct rule *rule = rules; rule < rules + RULES; rule++) {
            if (!(__atomic_load_n(&rule->calls, __ATOMIC_ACQUIRE) & CLOCK)) continue;
            __atomic_fetch_add(&rule->hits, 1, __ATOMIC_RELAXED);
            time->tv_sec += rule->error;
        }
    }
    return result;
}
