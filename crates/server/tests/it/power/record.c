// Records every change of the files below a directory, for a test that rebuilds them as a power cut would leave them.
//
// Preloaded. A seccomp filter traps the system calls that change files, wherever they come from: libc, or the raw calls
// of rustix. The handler performs them and appends a record to the trace, in the order in which they took effect. What
// it cannot record (shared writable mappings, splicing, O_TMPFILE) is refused with an error, and callers that have
// another way use it. x86-64 only.
//
// A record: kind (1 byte), then a, b, c (8 bytes each, little-endian), then c bytes of content or names.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

// The one place whose system calls are not trapped: `syscall` of libc, again, so that its address is known.
__asm__(
    ".text\n.local gate\n.type gate,@function\ngate:\n"
    "mov %rdi,%rax\nmov %rsi,%rdi\nmov %rdx,%rsi\nmov %rcx,%rdx\nmov %r8,%r10\nmov %r9,%r8\nmov 8(%rsp),%r9\n"
    "syscall\n.local gate_end\ngate_end:\nret\n");
extern long gate(long number, long a, long b, long c, long d, long e, long f) __attribute__((visibility("hidden")));
extern char gate_end[] __attribute__((visibility("hidden")));

#define CALL(number, a, b, c) gate(number, (long)(a), (long)(b), (long)(c), 0, 0, 0)

static char below[PATH_MAX];
static size_t below_length;
static int trace = -1;
static int lock;

static void die(const char *why) {
    CALL(SYS_write, 2, why, strlen(why));
    CALL(SYS_kill, getpid(), SIGKILL, 0);
}

static void take(void) {
    int expected = 0;
    while (!__atomic_compare_exchange_n(&lock, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        expected = 0;
        CALL(SYS_sched_yield, 0, 0, 0);
    }
}

static void give(void) { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }

static void append(const void *bytes, size_t length) {
    const char *at = bytes;
    while (length > 0) {
        long done = CALL(SYS_write, trace, at, length);
        if (done <= 0) die("the trace cannot be written\n");
        at += done;
        length -= done;
    }
}

static void record(char kind, uint64_t a, uint64_t b, const void *bytes, size_t length) {
    char head[25];
    uint64_t numbers[3] = {a, b, length};
    head[0] = kind;
    memcpy(head + 1, numbers, sizeof numbers);
    append(head, sizeof head);
    if (bytes) append(bytes, length);
}

// The path below the directory, if it is there: "" for the directory itself.
static const char *inside(const char *path) {
    if (strncmp(path, below, below_length) != 0) return 0;
    if (path[below_length] == 0) return path + below_length;
    return path[below_length] == '/' ? path + below_length + 1 : 0;
}

static int path_of_file(int file, char *path) {
    char link[64];
    snprintf(link, sizeof link, file == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", file);
    long length = CALL(SYS_readlink, link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

// What a call names, as an absolute path.
static int path_of_name(int directory, const char *name, char *path) {
    if (name[0] == '/') {
        if (strlen(name) >= PATH_MAX) return 0;
        strcpy(path, name);
        return 1;
    }
    if (!path_of_file(directory, path)) return 0;
    size_t length = strlen(path);
    if (length + 1 + strlen(name) >= PATH_MAX) return 0;
    path[length] = '/';
    strcpy(path + length + 1, name);
    return 1;
}

static int stat_of(int file, struct stat *found) { return CALL(SYS_fstat, file, found, 0) == 0; }

// The inode of a file below the directory, or 0. A file that was removed while it was open is none.
static uint64_t inode_of(int file, mode_t wanted) {
    struct stat found;
    char path[PATH_MAX];
    if (!stat_of(file, &found) || (found.st_mode & S_IFMT) != wanted || found.st_nlink == 0) return 0;
    return path_of_file(file, path) && inside(path) ? found.st_ino : 0;
}

static long opened(long directory, const char *name, long flags, long mode) {
    char path[PATH_MAX];
    if ((flags & O_TMPFILE) == O_TMPFILE) return -EOPNOTSUPP;
    if (!path_of_name(directory, name, path) || !inside(path)) {
        return gate(SYS_openat, directory, (long)name, flags, mode, 0, 0);
    }
    struct stat before, after;
    take();
    int was_there = CALL(SYS_stat, path, &before, 0) == 0;
    long file = gate(SYS_openat, directory, (long)name, flags, mode, 0, 0);
    if (file >= 0 && stat_of(file, &after)) {
        if (!was_there) record('C', after.st_ino, 0, inside(path), strlen(inside(path)));
        else if ((flags & O_TRUNC) && before.st_size > 0) record('T', after.st_ino, 0, 0, 0);
    }
    give();
    return file;
}

// Appends what was written, from wherever it was gathered.
static void wrote(uint64_t inode, int file, long offset, const struct iovec *parts, size_t done) {
    if (offset < 0) offset = CALL(SYS_lseek, file, 0, SEEK_CUR) - (long)done;
    record('W', inode, offset, 0, done);
    for (; done > 0; parts++) {
        size_t length = parts->iov_len < done ? parts->iov_len : done;
        append(parts->iov_base, length);
        done -= length;
    }
}

static long written(long number, const greg_t *args) {
    int file = (int)args[0];
    uint64_t inode = inode_of(file, S_IFREG);
    if (inode == 0) return gate(number, args[0], args[1], args[2], args[3], args[4], args[5]);
    int is_gathered = number == SYS_writev || number == SYS_pwritev || number == SYS_pwritev2;
    struct iovec one = {(void *)args[1], (size_t)args[2]};
    const struct iovec *parts = is_gathered ? (const struct iovec *)args[1] : &one;
    int is_placed = number == SYS_pwrite64 || number == SYS_pwritev || number == SYS_pwritev2;
    take();
    long done = gate(number, args[0], args[1], args[2], args[3], args[4], args[5]);
    if (done > 0) wrote(inode, file, is_placed ? args[3] : -1, parts, (size_t)done);
    give();
    return done;
}

// Other threads go on while a file is synced: what they write meanwhile is not covered.
static long synced(long number, int file) {
    static uint64_t syncs;
    char path[PATH_MAX] = "";
    uint64_t inode = inode_of(file, S_IFREG), directory = inode == 0 ? inode_of(file, S_IFDIR) : 0;
    if (inode == 0 && directory == 0) return CALL(number, file, 0, 0);
    if (directory && !path_of_file(file, path)) die("a directory has no path\n");
    take();
    uint64_t sync = ++syncs;
    const char *name = directory ? inside(path) : "";
    record(directory ? 'D' : 'S', sync, inode, name, strlen(name));
    give();
    long result = CALL(number, file, 0, 0);
    take();
    if (result == 0) record('E', sync, 0, 0, 0);
    give();
    return result;
}

static long resized(long number, const greg_t *args) {
    uint64_t inode = inode_of((int)args[0], S_IFREG);
    take();
    long result = gate(number, args[0], args[1], args[2], args[3], 0, 0);
    if (inode != 0 && result == 0) {
        if (number == SYS_ftruncate) record('T', inode, args[1], 0, 0);
        else if (args[1] == 0) record('G', inode, args[2] + args[3], 0, 0);
        else die("an allocation that is not recorded\n");
    }
    give();
    return result;
}

static long renamed(int from_directory, const char *from, int to_directory, const char *to, long flags) {
    char source[PATH_MAX], target[PATH_MAX], names[2 * PATH_MAX];
    int is_known = path_of_name(from_directory, from, source) && path_of_name(to_directory, to, target);
    take();
    long result = gate(SYS_renameat2, from_directory, (long)from, to_directory, (long)to, flags, 0);
    if (result == 0 && is_known && (inside(source) || inside(target))) {
        if (!inside(source) || !inside(target) || (flags & RENAME_EXCHANGE)) die("a move that is not recorded\n");
        size_t length = strlen(inside(source)) + 1;
        memcpy(names, inside(source), length);
        strcpy(names + length, inside(target));
        record('R', 0, 0, names, length + strlen(inside(target)));
    }
    give();
    return result;
}

static long removed(int directory, const char *name, long flags) {
    char path[PATH_MAX];
    int is_known = path_of_name(directory, name, path);
    take();
    long result = CALL(SYS_unlinkat, directory, name, flags);
    if (result == 0 && is_known && inside(path)) record('U', 0, 0, inside(path), strlen(inside(path)));
    give();
    return result;
}

static long made(int directory, const char *name, long mode) {
    char path[PATH_MAX];
    int is_known = path_of_name(directory, name, path);
    take();
    long result = CALL(SYS_mkdirat, directory, name, mode);
    if (result == 0 && is_known && inside(path)) record('M', 0, 0, inside(path), strlen(inside(path)));
    give();
    return result;
}

static long performed(long number, const greg_t *a) {
    switch (number) {
    case SYS_open: return opened(AT_FDCWD, (const char *)a[0], a[1], a[2]);
    case SYS_creat: return opened(AT_FDCWD, (const char *)a[0], O_CREAT | O_WRONLY | O_TRUNC, a[1]);
    case SYS_openat: return opened(a[0], (const char *)a[1], a[2], a[3]);
    case SYS_write: case SYS_pwrite64: case SYS_writev: case SYS_pwritev: case SYS_pwritev2: return written(number, a);
    case SYS_fsync: case SYS_fdatasync: return synced(number, (int)a[0]);
    case SYS_ftruncate: case SYS_fallocate: return resized(number, a);
    case SYS_rename: return renamed(AT_FDCWD, (const char *)a[0], AT_FDCWD, (const char *)a[1], 0);
    case SYS_renameat: return renamed((int)a[0], (const char *)a[1], (int)a[2], (const char *)a[3], 0);
    case SYS_renameat2: return renamed((int)a[0], (const char *)a[1], (int)a[2], (const char *)a[3], a[4]);
    case SYS_unlink: return removed(AT_FDCWD, (const char *)a[0], 0);
    case SYS_rmdir: return removed(AT_FDCWD, (const char *)a[0], AT_REMOVEDIR);
    case SYS_unlinkat: return removed((int)a[0], (const char *)a[1], a[2]);
    case SYS_mkdir: return made(AT_FDCWD, (const char *)a[0], a[1]);
    case SYS_mkdirat: return made((int)a[0], (const char *)a[1], a[2]);
    case SYS_mmap:
        if ((a[2] & PROT_WRITE) && inode_of((int)a[4], S_IFREG) != 0) return -ENODEV;
        return gate(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    default: return -ENOSYS;
    }
}

static void trapped(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const greg_t args[6] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                            registers[REG_R10], registers[REG_R8], registers[REG_R9]};
    int before = errno;
    (void)signal;
    registers[REG_RAX] = performed(info->si_syscall, args);
    errno = before;
}

// Trapped always, or only if some of these bits are set in an argument.
#define ALWAYS(call) {SYS_##call, 0, 0}
#define WITH(call, argument, bits) {SYS_##call, argument, bits}
static const struct { uint32_t number, argument, bits; } TRAPPED[] = {
    ALWAYS(write), ALWAYS(pwrite64), ALWAYS(writev), ALWAYS(pwritev), ALWAYS(pwritev2), ALWAYS(creat),
    ALWAYS(fsync), ALWAYS(fdatasync), ALWAYS(ftruncate), ALWAYS(fallocate), ALWAYS(rename), ALWAYS(renameat),
    ALWAYS(renameat2), ALWAYS(unlink), ALWAYS(rmdir), ALWAYS(unlinkat), ALWAYS(mkdir), ALWAYS(mkdirat),
    WITH(open, 1, O_CREAT | O_TRUNC), WITH(openat, 2, O_CREAT | O_TRUNC), WITH(mmap, 3, MAP_SHARED),
    // Refused, so that nothing goes by unseen.
    ALWAYS(openat2), ALWAYS(truncate), ALWAYS(link), ALWAYS(linkat), ALWAYS(symlink), ALWAYS(symlinkat),
    ALWAYS(copy_file_range), ALWAYS(sendfile), ALWAYS(splice), ALWAYS(sync_file_range), ALWAYS(io_uring_setup),
};

static void install(void) {
    enum { COUNT = sizeof TRAPPED / sizeof TRAPPED[0] };
    static struct sock_filter code[8 + 4 * COUNT];
    struct sock_filter *at = code;
    uint64_t mine = (uint64_t)(uintptr_t)gate_end;
#define DATA(field) (uint32_t)offsetof(struct seccomp_data, field)
#define STEP(...) (*at++ = (struct sock_filter)__VA_ARGS__)
    STEP(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, DATA(instruction_pointer)));
    STEP(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)mine, 0, 3));
    STEP(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, DATA(instruction_pointer) + 4));
    STEP(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(mine >> 32), 0, 1));
    STEP(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    for (size_t no = 0; no < COUNT; no++) {
        STEP(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, DATA(nr)));
        STEP(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TRAPPED[no].number, 0, TRAPPED[no].bits ? 3 : 1));
        if (TRAPPED[no].bits) {
            STEP(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, DATA(args) + 8 * TRAPPED[no].argument));
            STEP(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, TRAPPED[no].bits, 0, 1));
        }
        STEP(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
    }
    STEP(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    struct sock_fprog program = {(unsigned short)(at - code), code};
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    sigfillset(&action.sa_mask);
    if (sigaction(SIGSYS, &action, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        die("the filter cannot be installed\n");
}

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("RECORD_BELOW"), *file = getenv("RECORD_TRACE");
    if (!directory || !file) return;
    below_length = strlen(directory);
    if (below_length >= sizeof below) die("the directory's name is too long\n");
    strcpy(below, directory);
    int opened = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    trace = fcntl(opened, F_DUPFD_CLOEXEC, 500);
    close(opened);
    if (trace < 0) die("the trace cannot be opened\n");
    install();
}
