//! Integers as postcard writes them: seven bits to a byte, the lowest first, signed ones zigzagged. By hand, because counters are
//! the most common state of all; a test compares with postcard.

/// Appends `value`.
#[inline]
pub(crate) fn write(mut value: u64, out: &mut Vec<u8>) {
    if (0x80..0x4000).contains(&value) {
        // In one go, as most counters are.
        return out.extend_from_slice(&[value as u8 | 0x80, (value >> 7) as u8]);
    }
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The integer that `bytes` are, all of them; none if they are not one, or not below 2^`bits`.
#[inline]
pub(crate) fn read(mut bytes: &[u8], bits: u32) -> Option<u64> {
    take(&mut bytes, bits).filter(|_| bytes.is_empty())
}

/// The integer that `bytes` begin with, and leaves what follows it; none if they begin with none, or with none below 2^`bits`.
#[inline]
pub(crate) fn take(bytes: &mut &[u8], bits: u32) -> Option<u64> {
    match **bytes {
        [last @ ..0x80, ref rest @ ..] => {
            *bytes = rest;
            Some(u64::from(last))
        }
        [first, last @ ..0x80, ref rest @ ..] => {
            *bytes = rest;
            Some(u64::from(first & 0x7f) | u64::from(last) << 7)
        }
        _ => take_long(bytes, bits),
    }
}

/// [`take`] for more than two bytes.
#[inline(never)]
fn take_long(bytes: &mut &[u8], bits: u32) -> Option<u64> {
    let mut value = 0u64;
    for (place, &byte) in bytes.iter().enumerate().take(bits.div_ceil(7) as usize) {
        let (part, shift) = (u64::from(byte & 0x7f), 7 * place);
        value |= part << shift;
        if byte < 0x80 {
            *bytes = &bytes[place + 1..];
            // Bits that were shifted out, or lie above the type.
            let fits = (part << shift) >> shift == part && (bits == 64 || value >> bits == 0);
            return fits.then_some(value);
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
