//! How a list lies in a value: each element behind its length (LEB128), so that appending is appending bytes.

/// Frames an element, given in parts; `write` gets the pieces.
#[inline]
pub(super) fn push(element: &[&[u8]], mut write: impl FnMut(&[u8])) {
    let mut length = element.iter().map(|part| part.len()).sum::<usize>();
    while length >= 0x80 {
        // The lower seven bits.
        write(&[length as u8 | 0x80]);
        length >>= 7;
    }
    write(&[length as u8]);
    element.iter().for_each(|part| write(part));
}

/// The first element of a framed list, and what follows it; none at its end.
pub(super) fn split_first(framed: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut rest, mut length, mut shift) = (framed, 0usize, 0);
    loop {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return rest.split_at_checked(length);
        }
    }
}

/// The elements of a framed list.
pub fn elements(mut framed: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (element, rest) = split_first(framed)?;
        framed = rest;
        Some(element)
    })
}
