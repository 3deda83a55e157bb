//! [`Slot`]: what is known of one value of the host's, and what is to become of it.

/// What is known of one value.
#[derive(Debug, Default)]
pub(super) enum Slot<T> {
    /// Nothing yet.
    #[default]
    Unread,
    /// The host has none.
    Absent,
    /// The host has this one.
    Present(T),
    /// To be removed from the host.
    Removed,
    /// To be written to the host.
    Changed(T),
}

impl<T> Slot<T> {
    pub(super) fn is_changed(&self) -> bool {
        matches!(self, Slot::Removed | Slot::Changed(_))
    }

    #[inline]
    pub(super) fn value(&self) -> Option<&T> {
        match self {
            Slot::Present(value) | Slot::Changed(value) => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn into_value(self) -> Option<T> {
        match self {
            Slot::Present(value) | Slot::Changed(value) => Some(value),
            _ => None,
        }
    }
}
