/* The liar: a disk in memory that breaks its word once in every `every` requests.
 *
 *   drop       acknowledges a write and stores nothing
 *   torn       stores the first half of a write
 *   misdirect  stores a write 4096 bytes behind its place
 *   bitflip    returns one wrong bit of a read
 *   honest     keeps its word
 *
 * It is the negative control of the end-to-end tests: a check that does not catch it proves nothing.
 * cc -shared -fPIC -o liar.so liar.c; nbdkit ./liar.so mode=drop every=50 size=33554432
 */
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_SERIALIZE_ALL_REQUESTS
#define STRAY 4096

enum mode { HONEST, DROP, TORN, MISDIRECT, BITFLIP, MODES };
static const char *const names[MODES] = { "honest", "drop", "torn", "misdirect", "bitflip" };

static enum mode mode = HONEST;
static unsigned long every = 50, requests;
static int64_t size = 32 << 20;
static unsigned char *disk;

static int configure(const char *key, const char *value)
{
    if (strcmp(key, "every") == 0)
        return (every = strtoul(value, NULL, 10)) > 0 ? 0 : -1;
    if (strcmp(key, "size") == 0)
        return (size = nbdkit_parse_size(value)) > 0 ? 0 : -1;
    if (strcmp(key, "mode") == 0)
        for (int i = 0; i < MODES; i++)
            if (strcmp(value, names[i]) == 0) {
                mode = i;
                return 0;
            }
    nbdkit_error("unknown %s=%s", key, value);
    return -1;
}

static int get_ready(void)
{
    disk = calloc(1, size);
    return disk ? 0 : -1;
}

static void *open_disk(int readonly)
{
    return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t get_size(void *handle)
{
    return size;
}

/* Whether this is the moment to lie. Only requests of the kind the mode is about count. */
static int lie(int is_read)
{
    return mode != HONEST && is_read == (mode == BITFLIP) && ++requests % every == 0;
}

static int pread_disk(void *handle, void *buffer, uint32_t count, uint64_t offset, uint32_t flags)
{
    memcpy(buffer, disk + offset, count);
    if (lie(1))
        ((unsigned char *)buffer)[count / 2] ^= 1;
    return 0;
}

static int pwrite_disk(void *handle, const void *buffer, uint32_t count, uint64_t offset, uint32_t flags)
{
    if (lie(0)) {
        if (mode == DROP)
            return 0;
        if (mode == TORN)
            count /= 2;
        if (mode == MISDIRECT && offset + count + STRAY <= (uint64_t)size)
            offset += STRAY;
    }
    memcpy(disk + offset, buffer, count);
    return 0;
}

static int zero_disk(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
    memset(disk + offset, 0, count);
    return 0;
}

static int flush_disk(void *handle, uint32_t flags)
{
    return 0;
}

static int can_fua(void *handle)
{
    return NBDKIT_FUA_NATIVE;
}

static struct nbdkit_plugin plugin = {
    .name = "liar",
    .config = configure,
    .get_ready = get_ready,
    .open = open_disk,
    .get_size = get_size,
    .pread = pread_disk,
    .pwrite = pwrite_disk,
    .zero = zero_disk,
    .trim = zero_disk,
    .flush = flush_disk,
    .can_fua = can_fua,
};
NBDKIT_REGISTER_PLUGIN(plugin)
