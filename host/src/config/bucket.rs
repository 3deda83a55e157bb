//! `[checkpoint] dir`, `savepoint-dir` and the tables `[checkpoint.s3]`, `[checkpoint.gs]` and `[checkpoint.az]`, which say how a bucket is reached.

use std::path::Path;

use toml::Spanned;

use super::section::Section;
use super::setting::{Anywhere, Endpoint, Flag, Lasting, LocalPath, Setting, Text, Time};
use crate::plan::{Access, CheckpointSettings, Location, Service};

/// Puts where checkpoints go, and how that is reached, into `settings`, of which the rest is there. `base` is the directory that paths
/// count from.
pub(super) fn read(section: &mut Section<'_>, base: &Path, settings: &mut CheckpointSettings) {
    let absolute = |location: Location| match location {
        Location::Path(path) => Location::Path(base.join(path)),
        bucket => bucket,
    };
    let dir = section.optional::<Anywhere>("dir").map(|dir| absolute(dir.into_inner().0));
    let savepoint_dir = section.optional::<Lasting>("savepoint-dir").map(|dir| absolute(dir.into_inner().0));
    // Where one is at fault, nobody knows which table is right.
    let is_known = (dir.is_some() || !section.has("dir")) && (savepoint_dir.is_some() || !section.has("savepoint-dir"));
    settings.dir = dir.unwrap_or_else(|| settings.dir.clone());
    settings.savepoint_dir = savepoint_dir;
    settings.access.retry_timeout = settings.timeout;
    // Where checkpoints are on disk, the bucket is that of savepoints.
    let bucket = match (&settings.dir, &settings.savepoint_dir) {
        (Location::Path(_), Some(Location::Object(path))) | (Location::Object(path), _) => Some(path.service),
        _ => None,
    };
    for service in Service::ALL {
        if bucket == Some(service) {
            if let Some(table) = section.section(service.scheme()) {
                settings.access = Reader { table, base }.access(service, &settings.access);
            }
        } else if is_known {
            refuse(section, service, &settings.dir);
        } else {
            drop(section.section(service.scheme()));
        }
    }
}

fn refuse(section: &mut Section<'_>, service: Service, dir: &Location) {
    let scheme = service.scheme();
    let is = if matches!(dir, Location::Path(_)) { "is a path" } else { "is in another store" };
    let message = format!("`{scheme}` says how a bucket of {scheme}:// is reached, but `dir` {is}");
    section.refuse(scheme, &message, &format!("remove it, or set `dir = \"{scheme}://bucket/prefix\"`"));
}

struct Reader<'a> {
    table: Section<'a>,
    base: &'a Path,
}

impl Reader<'_> {
    fn access(mut self, service: Service, default: &Access) -> Access {
        let endpoint = self.table.optional::<Endpoint>("endpoint");
        let allow_http = self.value::<Flag>("allow-http").is_some_and(|flag| flag.0);
        let mut access = Access {
            allow_http,
            request_timeout: self.value::<Time>("request-timeout").map_or(default.request_timeout, |time| time.0),
            retry_timeout: self.value::<Time>("retry-timeout").map_or(default.retry_timeout, |time| time.0),
            ..default.clone()
        };
        match service {
            Service::S3 => {
                access.region = self.value::<Text>("region").map(|text| text.0);
                access.path_style = self.value::<Flag>("path-style").is_none_or(|flag| flag.0);
                access.profile = self.value::<Text>("profile").map(|text| text.0);
                access.credentials_file = self.value::<LocalPath>("credentials-file").map(|path| self.base.join(path.0));
            }
            Service::Gs => access.credentials_file = self.value::<LocalPath>("credentials-file").map(|path| self.base.join(path.0)),
            Service::Az => access.account = self.value::<Text>("account").map(|text| text.0),
        }
        if let Some(endpoint) = endpoint {
            if endpoint.get_ref().0.starts_with("http://") && !allow_http {
                let help = "use an https:// URL, or set `allow-http = true` if nobody else can listen on the way";
                self.table.fault(endpoint.span(), "`endpoint` is not encrypted", help);
            }
            access.endpoint = Some(endpoint.into_inner().0);
        }
        self.table.finish();
        access
    }

    fn value<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        self.table.optional(key).map(Spanned::into_inner)
    }
}
