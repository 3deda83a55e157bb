//! For tests: keeps all numbers of a key in one text, each on a hundred bytes, so that values are large.

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator(key = String)]
pub struct Diary {
    text: ValueState<String>,
}

#[operator]
impl Diary {
    #[input]
    fn numbers(&mut self, number: u64) -> Result<()> {
        self.text.update(|text| text.push_str(&format!("{number:0100}")));
        Ok(())
    }

    /// A line `key,text`.
    #[finish]
    fn text(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        out.emit(format_args!("{},{}", meta.key(), self.text.get().unwrap_or_default()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    #[test]
    fn the_text_has_all_numbers_in_their_order() {
        let mut operator = Harness::<Diary>::new();
        operator.process([("a", 1), ("b", 2), ("a", 3)].map(|(key, number)| keyed(key, number))).unwrap();
        assert_eq!(operator.finish().unwrap().values(), [format!("a,{:0100}{:0100}", 1, 3), format!("b,{:0100}", 2)]);
    }
}
