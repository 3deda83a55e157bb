//! "Did you mean": the nearest of the names that would have been right.

/// The candidate that `wrong` was most likely meant to be; none when nothing is near enough to be of help.
pub(crate) fn closest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = plain(wrong);
    // A third of the letters may be wrong, and one in a short word too: "uid" for "udi" helps, "keys" for "rate" does not.
    let allowed = (wrong.chars().count() / 3).max(1);
    let measured = candidates.into_iter().map(|candidate| (strsim::damerau_levenshtein(&wrong, &plain(candidate)), candidate));
    // Of two equally near ones the earlier, so that the answer does not depend on the iterator's adaptors.
    measured.filter(|(distance, _)| *distance <= allowed).min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Case and the kind of dash are the likeliest slips, so they don't count.
fn plain(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let keys = ["uid", "path", "skip-lines", "rate", "parallelism"];
        for (wrong, meant) in [
            ("udi", Some("uid")),
            ("pth", Some("path")),
            ("skip_lines", Some("skip-lines")),
            ("skiplines", Some("skip-lines")),
            ("Rate", Some("rate")),
            ("paralelism", Some("parallelism")),
            ("component", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest(wrong, keys), meant, "{wrong}");
        }
    }
}
