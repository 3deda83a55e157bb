//! A bucket in memory, for tests, that answers as badly as they want.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What is wrong with the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ill {
    /// Nothing.
    Well,
    /// No part of an upload is ever answered.
    Silent,
    /// An upload is completed, and this is said all the same.
    Completes(&'static str),
}

/// What was asked of it, as far as tests want to know.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// For so many bytes of an object; none: for all.
    Get(Option<Range<u64>>),
    Part,
    Abort,
}

#[derive(Debug)]
pub(super) struct Fake {
    memory: Arc<InMemory>,
    ill: Ill,
    asked: UnboundedSender<Asked>,
}

impl Fake {
    /// The bucket, and what is asked of it.
    pub(super) fn new(ill: Ill) -> (Fake, UnboundedReceiver<Asked>) {
        let (asked, told) = unbounded_channel();
        (Fake { memory: Arc::default(), ill, asked }, told)
    }
}

/// Somebody may have heard enough.
fn tell(asked: &UnboundedSender<Asked>, what: Asked) {
    asked.send(what).unwrap_or(());
}

impl fmt::Display for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fake")
    }
}

/// An upload to it.
#[derive(Debug)]
struct Parts {
    parts: Box<dyn MultipartUpload>,
    ill: Ill,
    asked: UnboundedSender<Asked>,
}

impl MultipartUpload for Parts {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        tell(&self.asked, Asked::Part);
        if self.ill == Ill::Silent { futures::future::pending().boxed() } else { self.parts.put_part(data) }
    }

    fn complete<'a, 'f>(&'a mut self) -> BoxFuture<'f, Result<PutResult>>
    where
        'a: 'f,
        Self: 'f,
    {
        async move {
            let done = self.parts.complete().await?;
            match self.ill {
                Ill::Completes(words) => Err(Error::Generic { store: "fake", source: words.into() }),
                _ => Ok(done),
            }
        }
        .boxed()
    }

    fn abort<'a, 'f>(&'a mut self) -> BoxFuture<'f, Result<()>>
    where
        'a: 'f,
        Self: 'f,
    {
        tell(&self.asked, Asked::Abort);
        self.parts.abort()
    }
}

impl ObjectStore for Fake {
    fn put_opts<'a, 'b, 'f>(&'a self, key: &'b Key, bytes: PutPayload, options: PutOptions) -> BoxFuture<'f, Result<PutResult>>
    where
        'a: 'f,
        'b: 'f,
        Self: 'f,
    {
        self.memory.put_opts(key, bytes, options)
    }

    fn put_multipart_opts<'a, 'b, 'f>(
        &'a self,
        key: &'b Key,
        options: PutMultipartOptions,
    ) -> BoxFuture<'f, Result<Box<dyn MultipartUpload>>>
    where
        'a: 'f,
        'b: 'f,
        Self: 'f,
    {
        async move {
            let parts = self.memory.put_multipart_opts(key, options).await?;
            Ok(Box::new(Parts { parts, ill: self.ill, asked: self.asked.clone() }) as Box<dyn MultipartUpload>)
        }
        .boxed()
    }

    fn get_opts<'a, 'b, 'f>(&'a self, key: &'b Key, options: GetOptions) -> BoxFuture<'f, Result<GetResult>>
    where
        'a: 'f,
        'b: 'f,
        Self: 'f,
    {
        let range = options.range.as_ref().map(|range| match range {
            GetRange::Bounded(range) => range.clone(),
            other => panic!("{other}"),
        });
        if !options.head {
            tell(&self.asked, Asked::Get(range));
        }
        self.memory.get_opts(key, options)
    }

    fn delete_stream(&self, keys: BoxStream<'static, Result<Key>>) -> BoxStream<'static, Result<Key>> {
        self.memory.delete_stream(keys)
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.memory.list(prefix)
    }

    fn list_with_delimiter<'a, 'b, 'f>(&'a self, prefix: Option<&'b Key>) -> BoxFuture<'f, Result<ListResult>>
    where
        'a: 'f,
        'b: 'f,
        Self: 'f,
    {
        self.memory.list_with_delimiter(prefix)
    }

    fn copy_opts<'a, 'b, 'c, 'f>(&'a self, from: &'b Key, to: &'c Key, options: CopyOptions) -> BoxFuture<'f, Result<()>>
    where
        'a: 'f,
        'b: 'f,
        'c: 'f,
        Self: 'f,
    {
        self.memory.copy_opts(from, to, options)
    }
}
