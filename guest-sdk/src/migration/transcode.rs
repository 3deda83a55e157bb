//! Carrying a [`Plan`] out: bytes of the old structure in, bytes of the new one out. The old bytes may be damaged, so each length is
//! checked before it is believed.

use super::plan::{Plan, Step};
use crate::error::{Error, Result};

/// What postcard writes for an option without a value.
const NONE: u8 = 0;
/// What it writes before an option's value.
const SOME: u8 = 1;
/// The most bytes of a length.
const LENGTH: usize = 10;

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
                let length = number(old, LENGTH, out)?;
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
                let length = number(old, LENGTH, out)?;
                self.repeat(&[part], length, old, out)
            }
            &Step::Map(key, value) => {
                let length = number(old, LENGTH, out)?;
                self.repeat(&[key, value], length, old, out)
            }
            &Step::Array(part, length) => self.repeat(&[part], length.into(), old, out),
            Step::Parts(parts) => parts.iter().try_for_each(|&part| self.run(part, old, out)),
            Step::Fields(parts, order) => self.fields(parts, order, old, out),
            Step::Enum(variants) => {
                let variant = number(old, LENGTH, out)?;
                let part = usize::try_from(variant).ok().and_then(|variant| variants.get(variant));
                self.run(*part.ok_or_else(|| broken("there is no such variant"))?, old, out)
            }
        }
    }

    fn repeat(&self, parts: &[usize], count: u128, old: &mut &[u8], out: &mut Vec<u8>) -> Result<()> {
        for _ in 0..count {
            let before = (old.len(), out.len());
            parts.iter().try_for_each(|&part| self.run(part, old, out))?;
            if before == (old.len(), out.len()) {
                // Nothing comes of any number of them.
                break;
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

fn copy(old: &mut &[u8], length: usize, out: &mut Vec<u8>) -> Result<()> {
    let (bytes, rest) = old.split_at_checked(length).ok_or_else(|| broken("it ends early"))?;
    out.extend_from_slice(bytes);
    *old = rest;
    Ok(())
}

/// Copies a number of variable length, and tells it; a signed one as postcard writes it.
fn number(old: &mut &[u8], longest: usize, out: &mut Vec<u8>) -> Result<u128> {
    let mut value = 0;
    for place in 0..longest {
        let (&byte, rest) = old.split_first().ok_or_else(|| broken("it ends early"))?;
        *old = rest;
        out.push(byte);
        // What is shifted out of the last byte is for whoever reads the value to refuse.
        value |= u128::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(broken("a number is too long"))
}

fn broken(reason: &str) -> Error {
    Error::new(format_args!("a value is not what its schema says: {reason}"))
}
