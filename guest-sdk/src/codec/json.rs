//! [`Json`]: values that travel as JSON, for outputs that people or other programs read.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Decode, Encode, Malformed};
use crate::schema::{Schema, Structure};

/// A value that is written as JSON instead of postcard; its schema is "json", whatever `T` is. Sinks that write lines take it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T> Schema for Json<T> {
    fn structure(to: &mut Structure) {
        to.word("json");
    }

    fn schema() -> String {
        "json".into()
    }
}

impl<T: Serialize> Encode for Json<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        if let Err(error) = serde_json::to_writer(out, &self.0) {
            panic!("{} can't be written as JSON: {error}", std::any::type_name::<T>());
        }
    }
}

impl<T: DeserializeOwned> Decode<'_> for Json<T> {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        serde_json::from_slice(bytes).map(Json).map_err(Malformed::new::<Self>)
    }
}
