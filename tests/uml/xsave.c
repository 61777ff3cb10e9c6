/* Lets User-mode Linux 6.1 run on processors whose XSAVE area is larger than its buffer.
 *
 * That kernel keeps the floating-point state of a guest thread in 832 bytes: the legacy area, the header and
 * AVX. Where the host has more (AVX-512, AMX), PTRACE_GETREGSET gives it that much, but PTRACE_SETREGSET takes
 * nothing but the whole area, and the guest panics at its first process. The rest cannot be left in
 * the traced process either: the host clears it when it delivers the signal of a page fault. Preloaded, this
 * library keeps the whole area beside each of the kernel's buffers and completes the buffer from it.
 *
 * cc -shared -fPIC -o xsave.so xsave.c; LD_PRELOAD=./xsave.so linux.uml ...
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

enum {
    ROOM = 16 * 1024, /* the area of today's processors is below 12 KiB */
    PRESENT = 512,    /* offset of XSTATE_BV: which components are not in their initial state */
    KNOWN = 7,        /* x87, SSE, AVX: the components inside the kernel's buffer */
    THREADS_LOG2 = 14,
    THREADS = 1 << THREADS_LOG2, /* more than fit into a guest's memory */
};

typedef long ptrace_fn(enum __ptrace_request, ...);

/* The whole areas, by address of the kernel's buffer; open addressing. A UML kernel is one thread. */
static struct area {
    const void *buffer;
    unsigned char *whole;
} areas[THREADS];

static size_t length; /* of an area, as the host told */

/* The area beside `buffer`, made on demand with all components in their initial state. */
static unsigned char *beside(const void *buffer)
{
    size_t at = (uintptr_t)buffer * UINT64_C(0x9e3779b97f4a7c15) >> (64 - THREADS_LOG2);

    while (areas[at].buffer && areas[at].buffer != buffer)
        at = (at + 1) % THREADS;
    if (!areas[at].buffer) {
        areas[at].whole = calloc(1, ROOM);
        if (!areas[at].whole)
            abort();
        areas[at].buffer = buffer;
    }
    return areas[at].whole;
}

/* What the thread had, with the components the kernel knows as the kernel wants them. */
static void complete(unsigned char *whole, const struct iovec *known)
{
    uint64_t kept, wanted;

    memcpy(&kept, whole + PRESENT, sizeof kept);
    memcpy(whole, known->iov_base, known->iov_len);
    memcpy(&wanted, whole + PRESENT, sizeof wanted);
    wanted = (kept & ~(uint64_t)KNOWN) | (wanted & KNOWN);
    memcpy(whole + PRESENT, &wanted, sizeof wanted);
}

long ptrace(enum __ptrace_request request, ...)
{
    static ptrace_fn *real;
    struct iovec whole = { NULL, ROOM }, *known;
    void *address, *data;
    va_list rest;
    long result;
    pid_t pid;

    va_start(rest, request);
    pid = va_arg(rest, pid_t);
    address = va_arg(rest, void *);
    data = va_arg(rest, void *);
    va_end(rest);
    if (!real)
        real = (ptrace_fn *)dlsym(RTLD_NEXT, "ptrace");
    if ((request != PTRACE_GETREGSET && request != PTRACE_SETREGSET) || (uintptr_t)address != NT_X86_XSTATE)
        return real(request, pid, address, data);

    known = data;
    whole.iov_base = beside(known->iov_base);
    if (request == PTRACE_SETREGSET) {
        complete(whole.iov_base, known);
        whole.iov_len = length;
        return real(request, pid, address, &whole);
    }
    result = real(request, pid, address, &whole);
    if (result < 0)
        return result;
    length = whole.iov_len;
    if (known->iov_len > length)
        known->iov_len = length;
    memcpy(known->iov_base, whole.iov_base, known->iov_len);
    return result;
}
