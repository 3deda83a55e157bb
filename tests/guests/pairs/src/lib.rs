//! For tests: lines of a key and a number, as in `a,3`, become records of the number under the key.

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator]
pub struct Pairs;

#[operator]
impl Pairs {
    #[input]
    fn lines(&mut self, line: &str, out: &mut KeyedOutput<String, u64>) -> Result<()> {
        let Some((key, number)) = line.split_once(',') else { bail!("no comma in {line:?}") };
        out.emit(key, number.parse::<u64>()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, value};

    use super::*;

    #[test]
    fn lines_become_pairs() {
        let mut operator = Harness::<Pairs>::new();
        let result = operator.process(["a,3", "b", "c,x", ",4"].map(value)).unwrap();
        assert_eq!(result.pairs(), [("a".to_owned(), 3), (String::new(), 4)]);
        assert_eq!(result.rejected.iter().map(|rejected| rejected.record).collect::<Vec<_>>(), [1, 2]);
    }
}
