//! Carrying a [`Plan`] out: bytes of the old structure in, bytes of the new one out. The old bytes may be damaged, so each length is
//! checked before it is believed.

use super::plan::{Plan, Step};
use crate::codec::varint;
use crate::error::{Error, Result};

/// What postcard writes for an option without a value.
const NONE: u8 = 0;
/// The most bytes of elements that had none before: the host takes no larger value.
const LARGEST: usize = 16 << 20;
/// What it writes before an option's value.
const SOME: u8 = 1;

impl Plan {
    /// Rewrites one value, and appends it to `out`.
    ///
    /// # Errors
    /// If the bytes are no value of the old structure.
    pub(super) fn rewrite(&self, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut rest = value;
        self.run(self.first, &mut rest, out)?;
        if rest.is_empty() { Ok(()) } else { Err(broken(&format!("{} bytes too many", rest.len()))) }
    }

    fn run(&self, step: usize, old: &mut &[u8], out: &mut Vec<u8>) -> Result<()> {
        match &self.steps[step] {
            &Step::Fixed(length) => copy(old, length, out),
            &Step::Number(longest) => number(old, longest, out).map(|_| ()),
            Step::Bytes => {
                let length = length(old, out)?;
                copy(old, usize::try_from(length).unwrap_or(usize::MAX), out)
            }
            &Step::Option(part) => {
                copy(old, 1, out)?;
                match out.last() {
                    Some(&NONE) => Ok(()),
                    Some(&SOME) => self.run(part, old, out),
                    _ => Err(broken("an option is neither there nor not")),
                }
            }
            &Step::List(part) => {
                let length = length(old, out)?;
                self.repeat(&[part], length, old, out)
            }
            &Step::Map(key, value) => {
                let length = length(old, out)?;
                self.repeat(&[key, value], length, old, out)
            }
            &Step::Array(part, length) => self.repeat(&[part], length, old, out),
            Step::Parts(parts) => parts.iter().try_for_each(|&part| self.run(part, old, out)),
            Step::Fields(parts, order) => self.fields(parts, order, old, out),
            Step::Enum(variants) => {
                let variant = length(old, out)?;
                let part = usize::try_from(variant).ok().and_then(|variant| variants.get(variant));
                self.run(*part.ok_or_else(|| broken("there is no such variant"))?, old, out)
            }
        }
    }

    fn repeat(&self, parts: &[usize], count: u64, old: &mut &[u8], out: &mut Vec<u8>) -> Result<()> {
        for _ in 0..count {
            let before = (old.len(), out.len());
            parts.iter().try_for_each(|&part| self.run(part, old, out))?;
            if before.0 == old.len() {
                // They have no bytes that would tell whether there are so many. All become the same.
                let new = out.split_off(before.1);
                return repeated(&new, count, out);
            }
        }
        Ok(())
    }

    fn fields(&self, parts: &[usize], order: &[Option<usize>], old: &mut &[u8], out: &mut Vec<u8>) -> Result<()> {
        if order.iter().flatten().is_sorted() {
            for place in order {
                match place {
                    Some(place) => self.run(parts[*place], old, out)?,
                    None => out.push(NONE),
                }
            }
            return Ok(());
        }
        // They come in the old order, and are written in the new one.
        let mut ends = vec![0];
        let mut fields = Vec::new();
        for &part in parts {
            self.run(part, old, &mut fields)?;
            ends.push(fields.len());
        }
        for place in order {
            match *place {
                Some(place) => out.extend_from_slice(&fields[ends[place]..ends[place + 1]]),
                None => out.push(NONE),
            }
        }
        Ok(())
    }
}

/// Appends an element so many times.
fn repeated(element: &[u8], count: u64, out: &mut Vec<u8>) -> Result<()> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if element.len().saturating_mul(count) > LARGEST {
        return Err(broken("it has too many elements"));
    }
    out.extend_from_slice(&element.repeat(count));
    Ok(())
}

fn copy(old: &mut &[u8], length: usize, out: &mut Vec<u8>) -> Result<()> {
    let (bytes, rest) = old.split_at_checked(length).ok_or_else(|| broken("it ends early"))?;
    out.extend_from_slice(bytes);
    *old = rest;
    Ok(())
}

/// Copies a number of variable length, and tells its bytes.
fn number<'o>(old: &mut &'o [u8], longest: usize, out: &mut Vec<u8>) -> Result<&'o [u8]> {
    let whole = *old;
    let Some(last) = whole.iter().take(longest).position(|&byte| byte < 0x80) else {
        return Err(broken(if whole.len() < longest { "it ends early" } else { "a number is too long" }));
    };
    copy(old, last + 1, out)?;
    Ok(&whole[..=last])
}

/// Copies a length, or the number of a variant, and tells it.
fn length(old: &mut &[u8], out: &mut Vec<u8>) -> Result<u64> {
    let bytes = number(old, 10, out)?;
    varint::read(bytes, 64).ok_or_else(|| broken("a number is too long"))
}

fn broken(reason: &str) -> Error {
    Error::new(format_args!("a value is not what its schema says: {reason}"))
}
