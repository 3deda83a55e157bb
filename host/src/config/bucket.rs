//! `[checkpoint] dir`, `savepoint-dir` and the tables `[checkpoint.s3]`, `[checkpoint.gs]` and `[checkpoint.az]`, which say how a bucket is reached.

use std::path::Path;

use toml::Spanned;

use super::checkpoint::{Draft, put};
use super::section::Section;
use super::setting::{Anywhere, Endpoint, Flag, Lasting, LocalPath, Setting, Text, Time};
use crate::plan::{Access, Location, Service};

/// Puts where checkpoints and savepoints go, and how that is reached, in the place of what `draft` says. `base` is the directory that paths
/// count from.
pub(super) fn read(section: &mut Section<'_>, base: &Path, draft: &mut Draft) {
    let absolute = |location: Location| match location {
        Location::Path(path) => Location::Path(base.join(path)),
        other => other,
    };
    let dir = section.optional::<Anywhere>("dir").map(|dir| absolute(dir.into_inner().0));
    let savepoint_dir = section.optional::<Lasting>("savepoint-dir").map(|dir| absolute(dir.into_inner().0));
    // Where one is at fault, nobody knows which table is right.
    let is_known = (dir.is_some() || !section.has("dir")) && (savepoint_dir.is_some() || !section.has("savepoint-dir"));
    let before = service(draft);
    draft.dir = dir.or(draft.dir.take());
    draft.settings.savepoint_dir = savepoint_dir.or(draft.settings.savepoint_dir.take());
    let own = service(draft);
    if own != before {
        // How another one is reached is of no use.
        (draft.settings.access, draft.retry_timeout) = (Access::default(), None);
    }
    for known in Service::ALL {
        if own == Some(known) {
            if let Some(table) = section.section(known.scheme()) {
                Reader { table, base }.read(known, draft);
            }
        } else if is_known {
            refuse(section, known, own.is_some());
        } else {
            drop(section.section(known.scheme()));
        }
    }
}

/// Whose bucket is reached: that of checkpoints or, where they are in none, that of savepoints.
fn service(draft: &Draft) -> Option<Service> {
    match (&draft.dir, &draft.settings.savepoint_dir) {
        (Some(Location::Object(path)), _) | (_, Some(Location::Object(path))) => Some(path.service),
        _ => None,
    }
}

fn refuse(section: &mut Section<'_>, service: Service, is_bucket: bool) {
    let scheme = service.scheme();
    let is = if is_bucket { "is in another store" } else { "is no bucket" };
    let message = format!("`{scheme}` says how a bucket of {scheme}:// is reached, but `dir` {is}");
    section.refuse(scheme, &message, &format!("remove it, or set `dir = \"{scheme}://bucket/prefix\"`"));
}

struct Reader<'a> {
    table: Section<'a>,
    base: &'a Path,
}

impl Reader<'_> {
    fn read(mut self, service: Service, draft: &mut Draft) {
        let access = &mut draft.settings.access;
        let endpoint = self.table.optional::<Endpoint>("endpoint");
        put(&mut access.allow_http, self.value::<Flag>("allow-http").map(|flag| flag.0));
        put(&mut access.request_timeout, self.value::<Time>("request-timeout").map(|time| time.0));
        draft.retry_timeout = self.value::<Time>("retry-timeout").map_or(draft.retry_timeout, |time| Some(time.0));
        match service {
            Service::S3 => {
                access.region = self.value::<Text>("region").map_or(access.region.take(), |text| Some(text.0));
                put(&mut access.path_style, self.value::<Flag>("path-style").map(|flag| flag.0));
                access.profile = self.value::<Text>("profile").map_or(access.profile.take(), |text| Some(text.0));
                self.credentials_file(access);
            }
            Service::Gs => self.credentials_file(access),
            Service::Az => access.account = self.value::<Text>("account").map_or(access.account.take(), |text| Some(text.0)),
        }
        if let Some(endpoint) = endpoint {
            if endpoint.get_ref().0.starts_with("http://") && !access.allow_http {
                let help = "use an https:// URL, or set `allow-http = true` if nobody else can listen on the way";
                self.table.fault(endpoint.span(), "`endpoint` is not encrypted", help);
            }
            access.endpoint = Some(endpoint.into_inner().0);
        }
        self.table.finish();
    }

    fn credentials_file(&mut self, access: &mut Access) {
        if let Some(path) = self.value::<LocalPath>("credentials-file") {
            access.credentials_file = Some(self.base.join(path.0));
        }
    }

    fn value<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        self.table.optional(key).map(Spanned::into_inner)
    }
}
