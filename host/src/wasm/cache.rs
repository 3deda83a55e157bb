//! [`Cache`]: compiled components, kept in files from one start to the next. What is loaded from there runs outside of the sandbox, so it
//! is taken only if it is, to the last bit, what this version of the host has made of the very same component. Anything else is compiled
//! anew and replaced.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::clock;

/// Told apart from all other uses of BLAKE3.
const CONTEXT: &str = "cofferdam 2026-11-30 a compiled component";
/// Bytes that all files may have together. Beyond that those go that were not used for longest.
const SPACE: u64 = 512 << 20;

/// A directory with a file for each compiled component, named by the digest of the component: a checksum, then what wasmtime makes of it.
pub(super) struct Cache {
    dir: PathBuf,
    /// Bytes that it may take.
    space: u64,
}

impl Cache {
    /// The cache in a directory, which is made if need be, for this user only: who can write there can run code here.
    ///
    /// # Errors
    /// If there can't be such a directory.
    pub(super) fn open(dir: &Path) -> io::Result<Cache> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(dir)?;
        Ok(Cache { dir: dir.canonicalize()?, space: SPACE })
    }

    /// The component with this digest, if it is there and whole.
    #[expect(unsafe_code, reason = "wasmtime has no safe way to load compiled code, and compiling at every start takes seconds")]
    pub(super) fn get(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let path = self.path(digest);
        let entry = fs::read(&path).ok()?;
        let whole = entry.split_first_chunk().filter(|(sum, code)| checksum(engine, digest, code) == **sum);
        let Some((_, code)) = whole else {
            tracing::info!("the compiled component {} is damaged, or of another version or component: it is replaced", path.display());
            return None;
        };
        // SAFETY: wasmtime wants the bytes that `Component::serialize` returned. The checksum covers all of them, and was made in `put` of
        // nothing else. They are in memory of our own, where nobody changes them after they were checked.
        let component = unsafe { Component::deserialize(engine, code) };
        // If the time of use can't be noted, it is compiled anew some day.
        let _ = File::options().write(true).open(&path).and_then(|file| file.set_modified(clock::wall()));
        component.ok()
    }

    /// Keeps a component. If it can't be kept, that costs time at the next start.
    pub(super) fn put(&self, engine: &Engine, digest: &str, component: &Component) {
        let kept = component.serialize().map_err(io::Error::other).and_then(|code| {
            let path = self.path(digest);
            // Others may be writing the same one.
            let beside = self.dir.join(format!("{digest}.{:016x}.new", clock::entropy()));
            let mut file = File::create_new(&beside)?;
            file.write_all(&checksum(engine, digest, &code)).and_then(|()| file.write_all(&code))?;
            fs::rename(&beside, &path)
        });
        if let Err(error) = kept.and_then(|()| self.make_room()) {
            tracing::warn!("a compiled component can't be kept in {}: {error}", self.dir.display());
        }
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}.compiled"))
    }

    /// Removes the files that were not used for longest, also such as were never finished, until the rest has room.
    fn make_room(&self) -> io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            // What has gone meanwhile was removed by another process.
            if let Some(file) = entry.metadata().ok().filter(fs::Metadata::is_file) {
                files.push((file.modified()?, file.len(), entry.path()));
            }
        }
        files.sort_unstable();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in files {
            if total <= self.space {
                break;
            }
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => total -= bytes,
            }
        }
        Ok(())
    }
}

/// The checksum of what was compiled from the component with this digest, by this version of the host with these settings.
fn checksum(engine: &Engine, digest: &str, code: &[u8]) -> [u8; blake3::OUT_LEN] {
    let mut compatible = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut compatible);
    let mut checksum = blake3::Hasher::new_derive_key(CONTEXT);
    checksum.update(&compatible.finish().to_le_bytes()).update(&(digest.len() as u64).to_le_bytes()).update(digest.as_bytes()).update(code);
    *checksum.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wasmtime::Config;

    use super::*;

    fn engine() -> Engine {
        Engine::default()
    }

    /// A component of so many bytes and more.
    fn component(engine: &Engine, bytes: usize) -> Component {
        let text = format!("(component (core module (memory 1) (data (i32.const 0) \"{}\")))", "x".repeat(bytes));
        Component::from_binary(engine, &wat::parse_str(text).unwrap()).unwrap()
    }

    fn cache() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("deep/down")).unwrap();
        (dir, cache)
    }

    #[test]
    fn what_was_put_is_there_for_the_same_component_only() {
        let (_dir, cache) = cache();
        cache.put(&engine(), "a", &component(&engine(), 1));
        assert!(cache.get(&engine(), "a").is_some());
        assert!(cache.get(&engine(), "b").is_none());
        fs::copy(cache.path("a"), cache.path("b")).unwrap();
        assert!(cache.get(&engine(), "b").is_none());
    }

    #[test]
    fn what_another_version_or_other_settings_have_made_is_not_taken() {
        let (_dir, cache) = cache();
        let other = Engine::new(Config::new().epoch_interruption(true)).unwrap();
        cache.put(&other, "a", &component(&other, 1));
        assert!(cache.get(&engine(), "a").is_none());
        let mut version = Config::new();
        version.module_version(wasmtime::ModuleVersionStrategy::Custom("47.0.0".into())).unwrap();
        let other = Engine::new(&version).unwrap();
        cache.put(&other, "a", &component(&other, 1));
        assert!(cache.get(&engine(), "a").is_none());
        assert!(cache.get(&other, "a").is_some());
    }

    #[test]
    fn what_is_cut_off_lengthened_or_has_one_bit_flipped_is_not_taken() {
        let (_dir, cache) = cache();
        cache.put(&engine(), "a", &component(&engine(), 1));
        let whole = fs::read(cache.path("a")).unwrap();
        let mut damaged: Vec<Vec<u8>> = vec![vec![], vec![7; 31], vec![7; 10_000], [&whole[..], b"x"].concat()];
        damaged.extend([1, 31, 32, 33, whole.len() / 2, whole.len() - 1].map(|len| whole[..len].to_vec()));
        damaged.extend((0..whole.len()).step_by(97).map(|at| {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            flipped
        }));
        for entry in damaged {
            fs::write(cache.path("a"), entry).unwrap();
            assert!(cache.get(&engine(), "a").is_none());
        }
        fs::write(cache.path("a"), whole).unwrap();
        assert!(cache.get(&engine(), "a").is_some());
    }

    #[test]
    fn the_least_recently_used_go_when_there_is_no_more_room() {
        let (_dir, mut cache) = cache();
        let engine = engine();
        fs::write(cache.dir.join("c.0123.new"), [0; 9_000]).unwrap();
        for digest in ["a", "b", "c"] {
            cache.put(&engine, digest, &component(&engine, 1));
        }
        let age = |name: &str, hours: u64| {
            let file = File::options().write(true).open(cache.dir.join(name)).unwrap();
            file.set_modified(clock::wall() - Duration::from_secs(3600 * hours)).unwrap();
        };
        [("c.0123.new", 9), ("a.compiled", 8), ("b.compiled", 7), ("c.compiled", 6)].into_iter().for_each(|(name, hours)| age(name, hours));
        assert!(cache.get(&engine, "a").is_some(), "which is a use");
        cache.space = 3 * fs::metadata(cache.path("a")).unwrap().len();
        cache.put(&engine, "d", &component(&engine, 1));
        let mut left: Vec<_> = fs::read_dir(&cache.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort_unstable();
        assert_eq!(left, ["a.compiled", "c.compiled", "d.compiled"]);
    }
}
