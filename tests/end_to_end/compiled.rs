//! Compiled components that are kept from one start to the next: what is not exactly what was kept is compiled anew.

use std::fs;
use std::path::PathBuf;

use super::sums::{check, input, job};
use crate::harness::{Place, Random, guest, names};

/// A job with two components, whose compiled forms are kept in this place.
struct Kept {
    place: Place,
    input: Vec<Vec<String>>,
}

impl Kept {
    fn new(random: &mut Random) -> Self {
        let place = Place::new(&job("type = \"file\"\npath = \"input\"\n"));
        let input = vec![input(random, 0, 300)];
        place.write_lines("input/0.txt", &input[0]);
        Kept { place, input }
    }

    /// Where the compiled form of a component is.
    fn path(&self, component: &str) -> PathBuf {
        let digest = blake3::hash(&fs::read(guest(component)).expect("a component")).to_hex().to_string();
        self.place.path(&format!("cache/cofferdam/{digest}.compiled"))
    }

    /// Runs the job from its beginning, and checks what it does; what its log says.
    fn run(&self, case: &str) -> String {
        println!("{case}");
        if self.place.path("out").exists() {
            fs::remove_dir_all(self.place.path("out")).expect("it can be removed");
        }
        let mut command = self.place.command(&["run", "job.toml", "--fresh", "--log", "info"]);
        command.env("XDG_CACHE_HOME", self.place.path("cache"));
        let ended = crate::harness::Running::start(command).wait().succeeds();
        check(&self.place.lines("out"), &self.input);
        ended.stderr
    }
}

#[test]
fn what_was_compiled_is_kept_and_anything_else_in_its_place_is_replaced() {
    let mut random = Random::new(11);
    let kept = Kept::new(&mut random);
    let paths = ["fixture-pairs", "fixture-sum"].map(|component| kept.path(component));
    kept.run("nothing is there");
    let whole = paths.clone().map(|path| fs::read(path).expect("it is kept"));
    let replaced = "it is replaced";
    assert!(!kept.run("all is there").contains(replaced));

    let mut cases: Vec<(String, usize, Vec<u8>)> = vec![
        ("one in the place of the other".into(), 0, whole[1].clone()),
        ("the other way round".into(), 1, whole[0].clone()),
        ("nothing".into(), 0, Vec::new()),
        ("cut off".into(), 1, whole[1][..whole[1].len() / 2].to_vec()),
        ("garbage".into(), 0, vec![0x90; 100_000]),
    ];
    for _ in 0..12 {
        let which = random.below(2) as usize;
        let (mut bytes, bit) = (whole[which].clone(), random.below(8 * whole[which].len() as u64) as usize);
        bytes[bit / 8] ^= 1 << (bit % 8);
        cases.push((format!("bit {bit} of {which} is flipped"), which, bytes));
    }
    for (case, which, bytes) in cases {
        fs::write(&paths[which], bytes).expect("it can be written");
        assert!(kept.run(&case).contains(replaced), "{case}");
        assert!(fs::read(&paths[which]).expect("it is there") == whole[which], "{case}: it was compiled anew");
    }
    assert_eq!(names(&kept.place.path("cache/cofferdam")).len(), 2, "nothing else is left there");
}
