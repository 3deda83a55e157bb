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

/// The elements of a framed list.
pub fn elements(mut framed: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if framed.is_empty() {
            return None;
        }
        let (mut length, mut shift) = (0usize, 0);
        loop {
            let (&byte, rest) = framed.split_first()?;
            framed = rest;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let (element, rest) = framed.split_at_checked(length)?;
        framed = rest;
        Some(element)
    })
}
