//! The one user of bincode, behind a frame of our own: magic, kind, version, length, checksum, payload. bincode alone notices neither
//! a flipped bit, nor trailing bytes, nor a payload of another version; the frame does, and says which of them it was.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

/// What every frame begins with.
const MAGIC: [u8; 4] = *b"CFDM";
/// Bytes of a frame before its payload: magic, tag (u16), version (u16), length of the payload (u64), crc32c (u32), all little-endian.
/// This much stays as it is in all versions, so that a frame from the future can be told from a damaged one.
pub const FRAME_HEADER: usize = 20;
/// The header's fields that the checksum covers, besides the payload.
const CHECKED: std::ops::Range<usize> = 4..16;

/// Why bytes can't be taken for what they should be. One line each; whoever knows the file puts its path before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// There are fewer bytes than the frame says, or than its header takes.
    #[error("{what} is truncated: {wanted} bytes are needed and {found} are there")]
    Truncated {
        /// What was to be read.
        what: &'static str,
        /// Bytes needed.
        wanted: u64,
        /// Bytes there.
        found: u64,
    },
    /// The bytes don't begin like a frame.
    #[error("this is no {what}: it does not begin with Cofferdam's mark")]
    Foreign {
        /// What was to be read.
        what: &'static str,
    },
    /// It is a frame, but of something else.
    #[error("this is no {what}: the frame's tag is {found} and not {expected}")]
    OtherKind {
        /// What was to be read.
        what: &'static str,
        /// The tag of that.
        expected: u16,
        /// The tag found.
        found: u16,
    },
    /// The payload is not the one that was written.
    #[error("{what} is damaged: its checksum is {found:08x} and should be {expected:08x}")]
    Checksum {
        /// What was to be read.
        what: &'static str,
        /// The checksum in the frame.
        expected: u32,
        /// The checksum of what is there.
        found: u32,
    },
    /// The payload is, or would be, larger than anything of its kind.
    #[error("{what} is too large: {bytes} bytes, and {limit} are allowed")]
    TooLarge {
        /// What was to be read or written.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The largest allowed.
        limit: u64,
    },
    /// A newer program has written it.
    #[error("{what} was written by a newer Cofferdam: format {found}, this one reads up to {reads}")]
    Newer {
        /// What was to be read.
        what: &'static str,
        /// The format's version.
        found: u16,
        /// The newest version known.
        reads: u16,
    },
    /// Something follows where nothing should.
    #[error("{what} is followed by {bytes} bytes that don't belong to it")]
    Trailing {
        /// What was read.
        what: &'static str,
        /// How many bytes follow.
        bytes: u64,
    },
    /// The payload is whole, but makes no sense; or a value can't be encoded.
    #[error("{what} is malformed: {reason}")]
    Malformed {
        /// What was to be read or written.
        what: &'static str,
        /// Why.
        reason: String,
    },
}

/// A kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it holds, in words, for errors.
    pub what: &'static str,
    /// What it holds, as a number, unique within the host.
    pub tag: u16,
    /// The version that this program writes, and the newest that it reads. From 1 on.
    pub version: u16,
    /// The most bytes that a payload may have.
    pub limit: u64,
}

impl Frame {
    /// Whether `bytes` begin like a frame of this kind, whatever comes after.
    pub fn begins(&self, bytes: &[u8]) -> bool {
        begins_like_a_frame(bytes) && bytes.get(4..6) == Some(&self.tag.to_le_bytes())
    }

    /// How many bytes the frame has, header and all, of which `header` is the beginning, by what that says.
    ///
    /// # Errors
    /// If that is above the limit. Whether it is a frame of this kind at all, reading it tells.
    pub fn size(&self, header: &[u8; FRAME_HEADER]) -> Result<u64, CodecError> {
        let (_, _, length, _) = fields(header);
        self.check_size(length)?;
        Ok(FRAME_HEADER as u64 + length)
    }

    /// Appends a frame with `payload` to `out`.
    ///
    /// # Errors
    /// If the payload is above the limit.
    pub fn write(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let length = payload.len() as u64;
        self.check_size(length)?;
        let mut header = [0; FRAME_HEADER];
        header[..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&self.tag.to_le_bytes());
        header[6..8].copy_from_slice(&self.version.to_le_bytes());
        header[8..16].copy_from_slice(&length.to_le_bytes());
        let checksum = checksum(&header, payload);
        header[16..].copy_from_slice(&checksum.to_le_bytes());
        out.reserve(FRAME_HEADER + payload.len());
        out.extend_from_slice(&header);
        out.extend_from_slice(payload);
        Ok(())
    }

    /// The payload of the frame with which `bytes` begin, and what follows the frame.
    ///
    /// # Errors
    /// Which part of the frame is not as it should be.
    pub fn read<'a>(&self, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), CodecError> {
        let what = self.what;
        let found = bytes.len() as u64;
        if bytes.get(..MAGIC.len()).is_some_and(|start| start != MAGIC) {
            return Err(CodecError::Foreign { what });
        }
        let Some((header, rest)) = bytes.split_first_chunk::<FRAME_HEADER>() else {
            return Err(CodecError::Truncated { what, wanted: FRAME_HEADER as u64, found });
        };
        let (tag, version, length, expected) = fields(header);
        if tag != self.tag {
            return Err(CodecError::OtherKind { what, expected: self.tag, found: tag });
        }
        // A newer version may have a larger limit, so its frames are named as what they are even above ours.
        if version <= self.version {
            self.check_size(length)?;
        }
        let payload = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let Some((payload, rest)) = payload else {
            return Err(CodecError::Truncated { what, wanted: length.saturating_add(FRAME_HEADER as u64), found });
        };
        let found = checksum(header, payload);
        if found != expected {
            return Err(CodecError::Checksum { what, expected, found });
        }
        // Only now: before the checksum, a flipped bit could pass for the future.
        match version {
            0 => Err(CodecError::Malformed { what, reason: "its version is 0".into() }),
            _ if version > self.version => Err(CodecError::Newer { what, found: version, reads: self.version }),
            _ => Ok((payload, rest)),
        }
    }

    /// Appends a frame with `value` to `out`.
    ///
    /// # Errors
    /// If it is above the limit, or of a type that can't be encoded.
    pub fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let mut payload = Vec::new();
        encode(self.what, value, &mut payload)?;
        self.write(&payload, out)
    }

    /// The value in the frame with which `bytes` begin, and what follows the frame.
    ///
    /// # Errors
    /// Which part of the frame, or of its payload, is not as it should be.
    pub fn decode<'a, T: Deserialize<'a>>(&self, bytes: &'a [u8]) -> Result<(T, &'a [u8]), CodecError> {
        let (payload, rest) = self.read(bytes)?;
        Ok((decode(self.what, payload)?, rest))
    }

    fn check_size(&self, bytes: u64) -> Result<(), CodecError> {
        if bytes <= self.limit { Ok(()) } else { Err(CodecError::TooLarge { what: self.what, bytes, limit: self.limit }) }
    }
}

/// Whether `bytes` begin like a frame, of whatever kind.
pub fn begins_like_a_frame(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The version of the frame with which `bytes` begin, by what it says.
pub fn version(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|header| fields(header).1)
}

/// Appends `value` to `out`, without a frame: for payloads that are packed further. `what` names it in errors. Byte strings belong
/// into `serde_bytes`; as plain lists they go through one call per byte.
///
/// # Errors
/// If its type can't be encoded (a list of unknown length, for example).
pub fn encode<T: Serialize + ?Sized>(what: &'static str, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let done = bincode::serde::encode_into_std_write(value, out, bincode::config::standard());
    done.map(|_| ()).map_err(|error| CodecError::Malformed { what, reason: error.to_string() })
}

/// The value that all of `bytes` are the encoding of.
///
/// # Errors
/// If they are no encoding of such a value, or something follows it.
pub fn decode<'a, T: Deserialize<'a>>(what: &'static str, bytes: &'a [u8]) -> Result<T, CodecError> {
    // What bincode counts against its limit is at most sixteen times an honest input: a small integer takes one byte and counts as its
    // full width. Beyond that a length lies, and must not become an allocation. A limit has to be a constant, hence the steps.
    let done = match bytes.len() {
        0..=0x1_0000 => limited::<T, 0x10_0000>(bytes),
        0x1_0001..=0x10_0000 => limited::<T, 0x100_0000>(bytes),
        0x10_0001..=0x100_0000 => limited::<T, 0x1000_0000>(bytes),
        0x100_0001..=0x1000_0000 => limited::<T, 0x1_0000_0000>(bytes),
        0x1000_0001..=0x4000_0000 => limited::<T, 0x4_0000_0000>(bytes),
        _ => return Err(CodecError::TooLarge { what, bytes: bytes.len() as u64, limit: 0x4000_0000 }),
    };
    let (value, used) = done.map_err(|error| CodecError::Malformed { what, reason: error.to_string() })?;
    match bytes.len() - used {
        0 => Ok(value),
        bytes => Err(CodecError::Trailing { what, bytes: bytes as u64 }),
    }
}

fn limited<'a, T: Deserialize<'a>, const LIMIT: usize>(bytes: &'a [u8]) -> Result<(T, usize), bincode::error::DecodeError> {
    bincode::serde::borrow_decode_from_slice(bytes, bincode::config::standard().with_limit::<LIMIT>())
}

/// Tag, version, length and checksum of a header.
fn fields(header: &[u8; FRAME_HEADER]) -> (u16, u16, u64, u32) {
    let [_, _, _, _, t0, t1, v0, v1, l0, l1, l2, l3, l4, l5, l6, l7, c0, c1, c2, c3] = *header;
    let length = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
    (u16::from_le_bytes([t0, t1]), u16::from_le_bytes([v0, v1]), length, u32::from_le_bytes([c0, c1, c2, c3]))
}

fn checksum(header: &[u8; FRAME_HEADER], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[CHECKED]), payload)
}
