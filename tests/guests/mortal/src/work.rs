//! What the operator does, however long its state lives.

use std::fmt::Debug;

use cofferdam_sdk::prelude::*;

use super::Mortal;

#[operator]
impl Mortal {
    /// A line `number,value,list,map,lasting`, each of which but the first is like `[1 3]`.
    #[input]
    fn numbers(&mut self, number: u64, out: &mut Output<String>) -> Result<()> {
        if !number.is_multiple_of(2) {
            self.value.set(number);
            self.list.push(number);
            self.map.insert(number, number);
            self.lasting.set(number);
        }
        let (value, lasting) = (told(self.value.get()), told(self.lasting.get()));
        let (list, map) = (told(self.list.iter()), told(self.map.iter().map(|(field, _)| field)));
        out.emit(format_args!("{number},{value},{list},{map},{lasting}"));
        Ok(())
    }
}

/// What there is, as `[1 2]`.
fn told(found: impl IntoIterator<Item = impl Debug>) -> String {
    let found: Vec<String> = found.into_iter().map(|found| format!("{found:?}")).collect();
    format!("[{}]", found.join(" "))
}
