//! Pages of listings, which are short, so that everything has several.

use std::collections::BTreeMap;

use super::objects::Objects;

/// Entries on a page.
const PAGE: usize = 5;

/// What a listing has: an object with its size, or with a delimiter all that is below a prefix.
pub enum Entry {
    Object(String, usize),
    Below(String),
}

/// A page of a listing.
pub struct Page {
    pub entries: Vec<Entry>,
    /// Where the next one begins, if there is one.
    pub next: Option<String>,
}

impl Page {
    /// The keys that begin with `prefix` and come after `after`, with those that have a delimiter behind the prefix as one.
    pub fn of(objects: &Objects, prefix: &str, delimiter: &str, after: String) -> Page {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for (key, object) in objects.iter().filter(|(key, _)| key.starts_with(prefix)) {
            let below = (!delimiter.is_empty()).then(|| key[prefix.len()..].split_once(delimiter)).flatten();
            match below.map(|(name, _)| format!("{prefix}{name}{delimiter}")) {
                Some(common) => entries.insert(common.clone(), Entry::Below(common)),
                None => entries.insert(key.clone(), Entry::Object(key.clone(), object.len())),
            };
        }
        let mut rest = entries.into_iter().filter(|(key, _)| *key > after);
        let page: Vec<(String, Entry)> = rest.by_ref().take(PAGE).collect();
        let next = page.last().map(|(last, _)| last.clone()).filter(|_| rest.next().is_some());
        Page { entries: page.into_iter().map(|(_, entry)| entry).collect(), next }
    }
}
