//! [`Changes`]: what a snapshot is made of, as the worker hands it over: changes of single entries, packed, not yet sorted.

/// What happened to an entry since the snapshot before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ChangeKind {
    /// The value is as given, whatever it was.
    Put = 0,
    /// The given bytes (framed list elements) come after what was there.
    Append = 1,
    /// There is no value any more.
    Delete = 2,
}

/// One change of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The key's group.
    pub group: u16,
    /// The state, as an index into the states of the snapshot.
    pub state: u16,
    /// What happened.
    pub kind: ChangeKind,
    /// The key.
    pub key: &'a [u8],
    /// The new value, the appended bytes, or nothing.
    pub value: &'a [u8],
}

/// Changes, packed back to back. Each entry occurs at most once in the changes of one snapshot.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    group: u16,
    state: u16,
    kind: ChangeKind,
    /// Where the key begins; parts are cut long before a u32 ends.
    start: u32,
    key_len: u32,
    value_len: u32,
}

impl Changes {
    /// Adds a change.
    #[inline]
    pub fn push(&mut self, change: Change<'_>) {
        let start = u32::try_from(self.bytes.len()).expect("a part of a snapshot stays below 4 GiB");
        self.bytes.extend_from_slice(change.key);
        self.bytes.extend_from_slice(change.value);
        // Keys and values come out of columns, whose lengths fit u32.
        let (key_len, value_len) = (change.key.len() as u32, change.value.len() as u32);
        self.places.push(Place { group: change.group, state: change.state, kind: change.kind, start, key_len, value_len });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Change `index`.
    ///
    /// # Panics
    /// If there is no such change.
    pub fn get(&self, index: usize) -> Change<'_> {
        let place = self.places[index];
        let (key, rest) = self.bytes[place.start as usize..].split_at(place.key_len as usize);
        Change { group: place.group, state: place.state, kind: place.kind, key, value: &rest[..place.value_len as usize] }
    }

    /// All changes, in the order in which they stand.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Sorts by key group, state and key: the order of snapshot files.
    pub fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |place: &Place| &bytes[place.start as usize..][..place.key_len as usize];
        self.places.sort_unstable_by(|a, b| (a.group, a.state).cmp(&(b.group, b.state)).then_with(|| key(a).cmp(key(b))));
    }
}
