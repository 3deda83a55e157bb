//! Splits lines into words: each word becomes a record that has it as its key, and no value.

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator]
pub struct Tokenize;

#[operator]
impl Tokenize {
    /// Words are what stands between blanks: ASCII's white space and control characters.
    #[input]
    fn lines(&mut self, line: &str, out: &mut KeyedOutput<String, ()>) -> Result<()> {
        let mut rest = line;
        while let Some(end) = find_blank(rest.as_bytes()) {
            if end > 0 {
                out.emit(&rest[..end], ());
            }
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            out.emit(rest, ());
        }
        Ok(())
    }
}

/// Where the first blank is. Looks at eight bytes at once: most words are found in one step.
#[inline]
fn find_blank(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = 0x80 * ONES;
    let mut at = 0;
    while let Some(eight) = bytes[at..].first_chunk::<8>() {
        let eight = u64::from_le_bytes(*eight);
        // Sets the high bit of each byte up to the first blank exactly where the byte is one; bytes of other alphabets have it already.
        let blanks = eight.wrapping_sub(u64::from(b' ' + 1) * ONES) & !eight & HIGH_BITS;
        if blanks != 0 {
            return Some(at + blanks.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let place = bytes[at..].iter().position(|&byte| byte <= b' ')?;
    Some(at + place)
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, Raw, value};

    use super::*;

    #[test]
    fn words_become_keys_in_the_order_of_the_text() {
        let lines = ["the quick  brown", "", "  fox\tjumps ", "über den\u{a0}Zaun", "a-word-that-is-longer-than-sixteen-bytes x"];
        let words = |line: &'static str| line.split(|c: char| c <= ' ').filter(|word| !word.is_empty());
        let oracle: Vec<_> = lines.into_iter().flat_map(words).map(|word| (word.to_owned(), ())).collect();
        let mut tokenize = Harness::<Tokenize>::new();
        assert_eq!(tokenize.process(lines.map(value)).unwrap().pairs(), oracle);
    }

    #[test]
    fn a_line_that_is_no_text_is_rejected() {
        let mut tokenize = Harness::<Tokenize>::new();
        let result = tokenize.process([&b"a b"[..], b"c \xff", b"d"].map(Raw).map(value)).unwrap();
        assert_eq!(result.records.iter().map(|record| record.key.as_str()).collect::<Vec<_>>(), ["a", "b", "d"]);
        assert_eq!(result.rejected[0].record, 1);
        assert!(result.rejected[0].message.starts_with("the value is not text: "), "{}", result.rejected[0].message);
    }
}
