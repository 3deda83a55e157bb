//! Integers as postcard writes them: seven bits to a byte, the lowest first, signed ones zigzagged. By hand, because counters are
//! the most common state of all; a test compares with postcard.

use crate::column::append;

/// Appends `value`.
#[inline]
pub(crate) fn write(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x80 => out.push(value as u8),
        // In one go, as most counters are.
        0x80..0x4000 => out.extend_from_slice(&[value as u8 | 0x80, (value >> 7) as u8]),
        _ => write_long(value, out),
    }
}

/// [`write`] for more than two bytes.
#[inline(never)]
fn write_long(mut value: u64, out: &mut Vec<u8>) {
    // One go again: a loop that pushes asks at each turn whether there is room.
    let (mut bytes, mut count) = ([0; 10], 0);
    while value >= 0x80 {
        bytes[count] = value as u8 | 0x80;
        value >>= 7;
        count += 1;
    }
    bytes[count] = value as u8;
    append(out, &bytes[..=count]);
}

/// The integer that `bytes` are, all of them; none if they are not one, or not below 2^`bits`.
#[inline]
pub(crate) fn read(mut bytes: &[u8], bits: u32) -> Option<u64> {
    take(&mut bytes, bits).filter(|_| bytes.is_empty())
}

/// The integer that `bytes` begin with, and leaves what follows it; none if they begin with none, or with none below 2^`bits`.
#[inline]
pub(crate) fn take(bytes: &mut &[u8], bits: u32) -> Option<u64> {
    let (value, rest) = match **bytes {
        [last @ ..0x80, ref rest @ ..] => (u64::from(last), rest),
        [first, last @ ..0x80, ref rest @ ..] => (u64::from(first & 0x7f) | u64::from(last) << 7, rest),
        _ => take_long(bytes, bits)?,
    };
    *bytes = rest;
    Some(value)
}

/// [`take`] for more than two bytes. What follows is given back: what others could change would not be kept in registers.
#[inline(never)]
fn take_long(bytes: &[u8], bits: u32) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (place, &byte) in bytes.iter().enumerate().take(bits.div_ceil(7) as usize) {
        let (part, shift) = (u64::from(byte & 0x7f), 7 * place);
        value |= part << shift;
        if byte < 0x80 {
            // Bits that were shifted out, or lie above the type.
            let fits = (part << shift) >> shift == part && (bits == 64 || value >> bits == 0);
            return fits.then_some((value, &bytes[place + 1..]));
        }
    }
    None
}

/// Signed to unsigned, small magnitudes to small numbers.
#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
