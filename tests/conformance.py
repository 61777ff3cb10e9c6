"""The NBD protocol as libnbd sees it, 23 checks on one export: conformance.py URI

libnbd's own argument checks are off, so that what must be refused reaches the server. Every check opens its own
connection and insists that the server lives on; the data on the export are overwritten.
"""

import errno
import sys

import nbd

URI = sys.argv[1]
KIB, MIB = 1 << 10, 1 << 20
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def connect(structured=True, contexts=True):
    handle = nbd.NBD()
    handle.set_uri_allow_local_file(True)  # the certificates of TLS
    handle.set_strict_mode(0)
    handle.set_request_structured_replies(structured)
    if contexts:
        handle.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    handle.connect_uri(URI)
    return handle


def negotiating():
    """A connection that stays in the option phase."""
    handle = nbd.NBD()
    handle.set_uri_allow_local_file(True)  # the certificates of TLS
    handle.set_strict_mode(0)
    handle.set_opt_mode(True)
    handle.connect_uri(URI)
    return handle


def refused(handle, call, *allowed):
    """The call must fail with a server error, and the same connection must go on."""
    try:
        call()
    except nbd.Error as error:
        assert not allowed or error.errnum in allowed, f"error {error}"
    else:
        raise AssertionError("was not refused")
    assert len(handle.pread(512, 0)) == 512
    handle.shutdown()


def pattern(length, seed):
    return bytes((seed * 131 + i * 7 + (i >> 8)) & 0xFF for i in range(length))


@check
def read_past_the_end_is_refused():
    h = connect()
    refused(h, lambda: h.pread(4096, h.get_size() - 2048), errno.EINVAL)


@check
def write_past_the_end_is_refused():
    h = connect()
    refused(h, lambda: h.pwrite(bytes(4096), h.get_size() - 2048), errno.EINVAL, errno.ENOSPC)


@check
def trim_past_the_end_is_refused():
    h = connect()
    refused(h, lambda: h.trim(4096, h.get_size() - 2048), errno.EINVAL, errno.ENOSPC)


@check
def zero_past_the_end_is_refused():
    h = connect()
    refused(h, lambda: h.zero(4096, h.get_size() - 2048), errno.EINVAL, errno.ENOSPC)


@check
def offset_beyond_the_signed_range_is_refused():
    h = connect()
    refused(h, lambda: h.pread(4096, 1 << 63), errno.EINVAL)


@check
def offset_plus_length_that_wraps_is_refused():
    h = connect()
    refused(h, lambda: h.pwrite(bytes(4096), (1 << 64) - 2048), errno.EINVAL, errno.ENOSPC)


@check
def unknown_command_flag_is_invalid():
    h = connect()
    refused(h, lambda: h.pread(4096, 0, 1 << 14), errno.EINVAL)


@check
def requests_of_no_bytes_do_no_harm():
    h = connect()
    for call in (lambda: h.pread(0, 0), lambda: h.pwrite(b"", 0)):
        try:
            call()
        except nbd.Error:
            pass
    assert len(h.pread(512, 0)) == 512
    h.shutdown()


@check
def a_read_of_64_mib_is_served_or_refused():
    h = connect()
    try:
        assert len(h.pread(min(64 * MIB, h.get_size()), 0)) > 0
    except nbd.Error:
        pass
    h = connect()
    assert len(h.pread(512, 0)) == 512
    h.shutdown()


@check
def fua_write_reads_back():
    h = connect()
    data = pattern(64 * KIB, 1)
    h.pwrite(data, 3 * MIB, nbd.CMD_FLAG_FUA if h.can_fua() else 0)
    assert h.pread(len(data), 3 * MIB) == data
    h.shutdown()


@check
def zero_without_hole_reads_as_zeros():
    h = connect()
    h.pwrite(pattern(128 * KIB, 2), 4 * MIB)
    h.zero(64 * KIB, 4 * MIB, nbd.CMD_FLAG_NO_HOLE)
    assert h.pread(128 * KIB, 4 * MIB) == bytes(64 * KIB) + pattern(128 * KIB, 2)[64 * KIB :]
    h.shutdown()


@check
def unaligned_write_keeps_its_neighbours():
    h = connect()
    if h.get_block_size(nbd.SIZE_MINIMUM) <= 1:
        before = pattern(256 * KIB, 3)
        h.pwrite(before, 5 * MIB)
        h.pwrite(b"\x5a" * 70001, 5 * MIB + 4097)
        after = before[:4097] + b"\x5a" * 70001 + before[4097 + 70001 :]
        assert h.pread(len(after), 5 * MIB) == after
        assert h.pread(13, 5 * MIB + 4090) == after[4090:4103]
    h.shutdown()


@check
def client_of_simple_replies_is_served():
    h = connect(structured=False, contexts=False)
    assert not h.get_structured_replies_negotiated()
    data = pattern(300 * KIB, 4)
    h.pwrite(data, 6 * MIB)
    assert h.pread(len(data), 6 * MIB) == data
    h.shutdown()


@check
def client_of_structured_replies_is_served():
    h = connect()
    assert h.get_structured_replies_negotiated()
    data, chunks = pattern(300 * KIB, 5), []
    h.pwrite(data, 7 * MIB)

    def chunk(part, offset, status, error):
        assert status in (nbd.READ_DATA, nbd.READ_HOLE), f"chunk status {status}"
        chunks.append((offset, len(part)))

    assert h.pread_structured(len(data), 7 * MIB, chunk) == data
    end = 7 * MIB
    for offset, length in sorted(chunks):
        assert offset == end, "chunks overlap or leave a hole"
        end += length
    assert end == 7 * MIB + len(data)
    h.shutdown()


@check
def a_read_that_must_not_be_fragmented_is_one_chunk():
    h = connect()
    assert h.can_df()
    chunks = []
    # Across blocks, some of which have just been read and some not.
    h.pread(64 * KIB, 21 * MIB + 64 * KIB)
    whole = h.pread_structured(
        300 * KIB + 1,
        21 * MIB + 7,
        lambda part, offset, status, error: chunks.append((offset, len(part), status)),
        nbd.CMD_FLAG_DF,
    )
    assert chunks == [(21 * MIB + 7, 300 * KIB + 1, nbd.READ_DATA)], chunks
    assert h.pread(300 * KIB + 1, 21 * MIB + 7) == whole
    h.shutdown()


@check
def unknown_export_is_refused_and_the_negotiation_goes_on():
    h = negotiating()
    known = h.get_export_name()
    h.set_export_name("no such export")
    try:
        h.opt_info()
    except nbd.Error as error:
        assert error.errnum == errno.ENOENT, f"error {error}"
    else:
        assert known == "", "the server knows every name"
    h.set_export_name(known)
    h.opt_info()
    assert h.get_size() > 0
    h.opt_go()
    assert len(h.pread(512, 0)) == 512
    h.shutdown()


@check
def list_names_the_export():
    h = negotiating()
    known, names = h.get_export_name(), []
    h.opt_list(lambda name, description: names.append(name))
    assert known in names, f"{known!r} is not in {names}"
    h.opt_go()
    h.shutdown()


@check
def name_of_4096_bytes_is_answered():
    h = negotiating()
    known = h.get_export_name()
    h.set_export_name("n" * 4096)
    try:
        h.opt_info()
    except nbd.Error:
        pass
    h.set_export_name(known)
    h.opt_go()
    assert len(h.pread(512, 0)) == 512
    h.shutdown()


@check
def block_status_covers_the_volume():
    h = connect()
    assert h.can_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    offset, size = 0, h.get_size()
    while offset < size:
        extents = []
        h.block_status(
            min(size - offset, 1 << 30),
            offset,
            lambda context, at, entries, error: extents.extend(entries),
        )
        step = sum(extents[::2])
        assert step > 0, f"no progress at {offset}"
        offset += step
    assert offset == size, f"extents end at {offset} of {size}"
    h.shutdown()


@check
def flush_makes_writes_visible_to_other_connections():
    first = connect()
    if first.can_multi_conn():
        second, data = connect(), pattern(64 * KIB, 6)
        first.pwrite(data, 8 * MIB)
        if first.can_flush():
            first.flush()
        assert second.pread(len(data), 8 * MIB) == data
        second.shutdown()
    first.shutdown()


@check
def many_writes_in_flight_all_land():
    h = connect()
    data = [pattern(4 * KIB, 100 + i) for i in range(256)]
    buffers = [nbd.Buffer.from_bytearray(bytearray(part)) for part in data]
    cookies = {h.aio_pwrite(part, 9 * MIB + i * 4 * KIB) for i, part in enumerate(buffers)}
    while cookies:
        assert h.poll(20000) > 0, "no answer"
        cookies = {cookie for cookie in cookies if not h.aio_command_completed(cookie)}
    assert h.pread(1 * MIB, 9 * MIB) == b"".join(data)
    h.shutdown()


@check
def clients_that_vanish_harm_nobody():
    for _ in range(20):
        h = connect()
        buffers = [nbd.Buffer(1 * MIB) for _ in range(16)]
        for i, buffer in enumerate(buffers):
            h.aio_pread(buffer, i * MIB)
        del h
    h = connect()
    assert len(h.pread(1 * MIB, 0)) == 1 * MIB
    h.shutdown()


@check
def what_was_written_is_there_in_the_end():
    h = connect()
    assert h.pread(64 * KIB, 3 * MIB) == pattern(64 * KIB, 1)
    assert h.pread(300 * KIB, 7 * MIB) == pattern(300 * KIB, 5)
    h.shutdown()


def main():
    failed = 0
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        try:
            function()
            print("ok  ", name)
        except (AssertionError, nbd.Error) as error:
            failed += 1
            print("FAIL", name, "-", error)
    print(f"{len(CHECKS) - failed}/{len(CHECKS)}")
    sys.exit(1 if failed else 0)


main()
