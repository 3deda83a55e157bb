//! [`Schema`]: how a type is laid out, as text that hosts and people compare.

mod std_types;
#[cfg(test)]
mod tests;
mod tree;
#[cfg(test)]
mod tree_tests;

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::codec::write_postcard;

pub(crate) use tree::{Field, Id, Node, Tree};

/// A type whose layout can be told: `#[record]` and `#[derive(Schema)]` implement it.
///
/// postcard writes values without names, so bytes of one type can be read as another and mean something else. The schema is what
/// tells the two apart: edges, sinks and states compare schemas before a job runs.
pub trait Schema {
    /// Writes the type's structure.
    fn structure(to: &mut Structure);

    /// The schema of values of the type: "text", "bytes", "json", or "postcard:" and the structure.
    fn schema() -> String {
        format!("postcard:{}", Structure::of::<Self>())
    }

    /// Whether a list of the type is a string of bytes; true for `u8` only.
    #[doc(hidden)]
    const IS_BYTE: bool = false;

    /// A list of the type as bytes.
    #[doc(hidden)]
    fn as_bytes(_list: &[Self]) -> Option<&[u8]>
    where
        Self: Sized,
    {
        None
    }

    /// Bytes as a list of the type.
    #[doc(hidden)]
    fn from_bytes(_bytes: Vec<u8>) -> Option<Vec<Self>>
    where
        Self: Sized,
    {
        None
    }

    /// Appends the value as part of another: as postcard writes it.
    #[doc(hidden)]
    #[inline]
    fn encode_part(&self, out: &mut Vec<u8>)
    where
        Self: Serialize,
    {
        write_postcard(self, out);
    }

    /// Reads the value that `bytes` begin with, if they do, and leaves what follows it.
    #[doc(hidden)]
    #[inline]
    fn decode_part<'de>(bytes: &mut &'de [u8]) -> Option<Self>
    where
        Self: Deserialize<'de>,
    {
        let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
        *bytes = rest;
        Some(value)
    }
}

/// Collects a type's structure as text: `u64`, `text`, `option<i64>`, `list<text>`, `map<text,u64>`, `(text,u64)`,
/// `{carrier:text,flights:u64}`, `enum{none,some(u64),both{a:u64,b:u64}}`.
#[derive(Debug, Default)]
pub struct Structure {
    text: String,
    /// The types that are being written, outermost first, and where in the text they begin.
    open: Vec<(&'static str, usize)>,
}

impl Structure {
    /// The structure of `T` as text.
    pub fn of<T: Schema + ?Sized>() -> String {
        let mut structure = Structure::default();
        T::structure(&mut structure);
        structure.text
    }

    /// Writes a word or a sign as it is.
    pub fn word(&mut self, word: &str) {
        self.text.push_str(word);
    }

    /// Writes the structure of a part.
    pub fn part<T: Schema + ?Sized>(&mut self) {
        T::structure(self);
    }

    /// Writes `name<part>`.
    pub fn wrap<T: Schema + ?Sized>(&mut self, name: &str) {
        self.word(name);
        self.word("<");
        self.part::<T>();
        self.word(">");
    }

    /// Writes the structure of a type that has a name, by `write`. Where the type occurs within itself, a caret stands for it, and a
    /// number that says with which bracket it begins: 1 for the innermost of those that are open there, and so on outwards.
    pub fn named<T: ?Sized>(&mut self, write: impl FnOnce(&mut Self)) {
        let name = std::any::type_name::<T>();
        if let Some(&(_, start)) = self.open.iter().rev().find(|(open, _)| *open == name) {
            let count = |brackets: [char; 3]| self.text[start..].matches(brackets).count();
            let above = count(['(', '{', '<']) - count([')', '}', '>']);
            // Writing to a string can't fail.
            let _ = write!(self.text, "^{above}");
            return;
        }
        self.open.push((name, self.text.len()));
        write(self);
        self.open.pop();
    }
}
