//! The numbers of the NBD protocol, under the names of its document (`doc/proto.md`).

/// First eight bytes a server sends, "NBDMAGIC".
pub const INIT_PASSWD: u64 = 0x4e42_444d_4147_4943;
/// Second eight bytes of a newstyle server, "IHAVEOPT"; also starts every option.
pub const OPTS_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Second eight bytes of an oldstyle server.
pub const CLISERV_MAGIC: u64 = 0x0000_4202_8186_1253;
/// Starts every reply to an option.
pub const REP_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Starts every request.
pub const NBD_REQUEST_MAGIC: u32 = 0x2560_9513;
/// Starts every simple reply.
pub const NBD_SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Starts every chunk of a structured reply.
pub const NBD_STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Port registered with IANA for NBD.
pub const NBD_DEFAULT_PORT: u16 = 10809;

/// Handshake flag: fixed newstyle.
pub const NBD_FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag: the 124 zero bytes after `NBD_OPT_EXPORT_NAME` may be left out.
pub const NBD_FLAG_NO_ZEROES: u16 = 1 << 1;
/// Client flag: fixed newstyle.
pub const NBD_FLAG_C_FIXED_NEWSTYLE: u32 = 1 << 0;
/// Client flag: leave the 124 zero bytes out.
pub const NBD_FLAG_C_NO_ZEROES: u32 = 1 << 1;

/// Transmission flag: always set.
pub const NBD_FLAG_HAS_FLAGS: u16 = 1 << 0;
/// Transmission flag: writes are refused.
pub const NBD_FLAG_READ_ONLY: u16 = 1 << 1;
/// Transmission flag: `NBD_CMD_FLUSH` is served.
pub const NBD_FLAG_SEND_FLUSH: u16 = 1 << 2;
/// Transmission flag: `NBD_CMD_FLAG_FUA` is served.
pub const NBD_FLAG_SEND_FUA: u16 = 1 << 3;
/// Transmission flag: the export behaves like a rotating disk.
pub const NBD_FLAG_ROTATIONAL: u16 = 1 << 4;
/// Transmission flag: `NBD_CMD_TRIM` is served.
pub const NBD_FLAG_SEND_TRIM: u16 = 1 << 5;
/// Transmission flag: `NBD_CMD_WRITE_ZEROES` is served.
pub const NBD_FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission flag: `NBD_CMD_FLAG_DF` is served.
pub const NBD_FLAG_SEND_DF: u16 = 1 << 7;
/// Transmission flag: a flush on one connection covers the writes of all.
pub const NBD_FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
/// Transmission flag: `NBD_CMD_CACHE` is served.
pub const NBD_FLAG_SEND_CACHE: u16 = 1 << 10;
/// Transmission flag: `NBD_CMD_FLAG_FAST_ZERO` is served.
pub const NBD_FLAG_SEND_FAST_ZERO: u16 = 1 << 11;

/// Option: choose an export and end the handshake; cannot report an error.
pub const NBD_OPT_EXPORT_NAME: u32 = 1;
/// Option: end the session.
pub const NBD_OPT_ABORT: u32 = 2;
/// Option: list exports.
pub const NBD_OPT_LIST: u32 = 3;
/// Option: upgrade to TLS.
pub const NBD_OPT_STARTTLS: u32 = 5;
/// Option: describe an export.
pub const NBD_OPT_INFO: u32 = 6;
/// Option: choose an export and end the handshake.
pub const NBD_OPT_GO: u32 = 7;
/// Option: use structured replies.
pub const NBD_OPT_STRUCTURED_REPLY: u32 = 8;
/// Option: list metadata contexts.
pub const NBD_OPT_LIST_META_CONTEXT: u32 = 9;
/// Option: select metadata contexts.
pub const NBD_OPT_SET_META_CONTEXT: u32 = 10;

/// Option reply: done.
pub const NBD_REP_ACK: u32 = 1;
/// Option reply: one export.
pub const NBD_REP_SERVER: u32 = 2;
/// Option reply: one piece of information about an export.
pub const NBD_REP_INFO: u32 = 3;
/// Option reply: one metadata context.
pub const NBD_REP_META_CONTEXT: u32 = 4;
/// Set in every option reply that is an error.
pub const NBD_REP_FLAG_ERROR: u32 = 1 << 31;
/// Option error: unknown option.
pub const NBD_REP_ERR_UNSUP: u32 = NBD_REP_FLAG_ERROR | 1;
/// Option error: forbidden by policy.
pub const NBD_REP_ERR_POLICY: u32 = NBD_REP_FLAG_ERROR | 2;
/// Option error: malformed.
pub const NBD_REP_ERR_INVALID: u32 = NBD_REP_FLAG_ERROR | 3;
/// Option error: not on this platform.
pub const NBD_REP_ERR_PLATFORM: u32 = NBD_REP_FLAG_ERROR | 4;
/// Option error: TLS first.
pub const NBD_REP_ERR_TLS_REQD: u32 = NBD_REP_FLAG_ERROR | 5;
/// Option error: no such export.
pub const NBD_REP_ERR_UNKNOWN: u32 = NBD_REP_FLAG_ERROR | 6;
/// Option error: the server is going down.
pub const NBD_REP_ERR_SHUTDOWN: u32 = NBD_REP_FLAG_ERROR | 7;
/// Option error: the client must ask for block sizes.
pub const NBD_REP_ERR_BLOCK_SIZE_REQD: u32 = NBD_REP_FLAG_ERROR | 8;
/// Option error: the option is too long.
pub const NBD_REP_ERR_TOO_BIG: u32 = NBD_REP_FLAG_ERROR | 9;

/// Information: size and transmission flags.
pub const NBD_INFO_EXPORT: u16 = 0;
/// Information: canonical name.
pub const NBD_INFO_NAME: u16 = 1;
/// Information: description.
pub const NBD_INFO_DESCRIPTION: u16 = 2;
/// Information: minimum, preferred and maximum block size.
pub const NBD_INFO_BLOCK_SIZE: u16 = 3;

/// Command: read.
pub const NBD_CMD_READ: u16 = 0;
/// Command: write.
pub const NBD_CMD_WRITE: u16 = 1;
/// Command: end the session.
pub const NBD_CMD_DISC: u16 = 2;
/// Command: make completed writes durable.
pub const NBD_CMD_FLUSH: u16 = 3;
/// Command: the range is not needed any more.
pub const NBD_CMD_TRIM: u16 = 4;
/// Command: read ahead into the server's cache.
pub const NBD_CMD_CACHE: u16 = 5;
/// Command: write zeroes.
pub const NBD_CMD_WRITE_ZEROES: u16 = 6;
/// Command: ask for extents.
pub const NBD_CMD_BLOCK_STATUS: u16 = 7;

/// Command flag: reply only when the data is durable.
pub const NBD_CMD_FLAG_FUA: u16 = 1 << 0;
/// Command flag of `NBD_CMD_WRITE_ZEROES`: keep the range allocated.
pub const NBD_CMD_FLAG_NO_HOLE: u16 = 1 << 1;
/// Command flag of `NBD_CMD_READ`: at most one content chunk.
pub const NBD_CMD_FLAG_DF: u16 = 1 << 2;
/// Command flag of `NBD_CMD_BLOCK_STATUS`: one extent is enough.
pub const NBD_CMD_FLAG_REQ_ONE: u16 = 1 << 3;
/// Command flag of `NBD_CMD_WRITE_ZEROES`: fail rather than be as slow as a write.
pub const NBD_CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

/// Chunk flag: the last chunk of its reply.
pub const NBD_REPLY_FLAG_DONE: u16 = 1 << 0;
/// Chunk: nothing.
pub const NBD_REPLY_TYPE_NONE: u16 = 0;
/// Chunk: data at an offset.
pub const NBD_REPLY_TYPE_OFFSET_DATA: u16 = 1;
/// Chunk: zeroes at an offset.
pub const NBD_REPLY_TYPE_OFFSET_HOLE: u16 = 2;
/// Chunk: extents of one metadata context.
pub const NBD_REPLY_TYPE_BLOCK_STATUS: u16 = 5;
/// Set in every chunk type that is an error.
pub const NBD_REPLY_TYPE_FLAG_ERROR: u16 = 1 << 15;
/// Chunk: an error.
pub const NBD_REPLY_TYPE_ERROR: u16 = NBD_REPLY_TYPE_FLAG_ERROR | 1;
/// Chunk: an error at an offset.
pub const NBD_REPLY_TYPE_ERROR_OFFSET: u16 = NBD_REPLY_TYPE_FLAG_ERROR | 2;

/// Extent flag of `base:allocation`: not allocated.
pub const NBD_STATE_HOLE: u32 = 1 << 0;
/// Extent flag of `base:allocation`: reads as zeroes.
pub const NBD_STATE_ZERO: u32 = 1 << 1;

/// Error: operation not permitted.
pub const NBD_EPERM: u32 = 1;
/// Error: input/output error.
pub const NBD_EIO: u32 = 5;
/// Error: out of memory.
pub const NBD_ENOMEM: u32 = 12;
/// Error: invalid argument.
pub const NBD_EINVAL: u32 = 22;
/// Error: no space left.
pub const NBD_ENOSPC: u32 = 28;
/// Error: value too large.
pub const NBD_EOVERFLOW: u32 = 75;
/// Error: not supported.
pub const NBD_ENOTSUP: u32 = 95;
/// Error: the server is going down.
pub const NBD_ESHUTDOWN: u32 = 108;
