//! Integers as postcard writes them: seven bits to a byte, the lowest first, signed ones zigzagged. By hand, because counters are
//! the most common state of all; a test compares with postcard.

/// Appends `value`.
#[inline]
pub(crate) fn write(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The integer that `bytes` are, all of them; none if they are not one, or not below 2^`bits`.
#[inline]
pub(crate) fn read(bytes: &[u8], bits: u32) -> Option<u64> {
    match *bytes {
        [last @ ..0x80] => return Some(u64::from(last)),
        [first @ 0x80..=0xff, last @ ..0x80] => return Some(u64::from(first & 0x7f) | u64::from(last) << 7),
        _ => {}
    }
    let (&last, rest) = bytes.split_last()?;
    if rest.len() > 9 || last >= 0x80 {
        return None;
    }
    let mut value = 0u64;
    for (place, &byte) in rest.iter().enumerate() {
        if byte < 0x80 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * place);
    }
    let place = 7 * rest.len();
    value |= u64::from(last) << place;
    // Bits that were shifted out, or lie above the type.
    let fits = (u64::from(last) << place) >> place == u64::from(last) && (bits == 64 || value >> bits == 0);
    fits.then_some(value)
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
