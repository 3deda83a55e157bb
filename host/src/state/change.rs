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
    /// Where the key begins.
    start: usize,
    key_len: u32,
    value_len: u32,
}

impl Changes {
    /// With room for so many changes, whose keys and values have so many bytes.
    pub fn with_capacity(changes: usize, bytes: usize) -> Self {
        Changes { bytes: Vec::with_capacity(bytes), places: Vec::with_capacity(changes) }
    }

    /// Adds a change.
    #[inline]
    pub fn push(&mut self, change: Change<'_>) {
        let start = self.bytes.len();
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

    /// About how many bytes of memory they take.
    pub fn memory(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<Place>()
    }

    /// The key group of each change, and the bytes of its key and value, in the order in which they stand.
    pub fn sizes(&self) -> impl Iterator<Item = (u16, usize)> {
        self.places.iter().map(|place| (place.group, place.key_len as usize + place.value_len as usize))
    }

    /// Change `index`.
    ///
    /// # Panics
    /// If there is no such change.
    pub fn get(&self, index: usize) -> Change<'_> {
        let place = self.places[index];
        let (key, rest) = self.bytes[place.start..].split_at(place.key_len as usize);
        Change { group: place.group, state: place.state, kind: place.kind, key, value: &rest[..place.value_len as usize] }
    }

    /// All changes, in the order in which they stand.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }
}
