//! What is in a bucket of a server in this process, and what each operation of S3 does with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use s3s::dto::*;
use s3s::{Body, S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use super::NAME;
use super::page::{Entry, Page};

/// Objects by key.
pub type Objects = BTreeMap<String, Bytes>;

/// A request with this among its extensions is done as if it had no `If-None-Match`.
#[derive(Clone)]
pub struct Overwrites;

/// All that is there.
#[derive(Default)]
pub struct Content {
    pub objects: Objects,
    /// Parts that have come of uploads that are not ended, by upload and number.
    pub parts: BTreeMap<String, BTreeMap<PartNumber, Bytes>>,
    /// Blocks of Azure that no list has named yet, by id.
    pub blocks: Objects,
    /// How many uploads in parts have been begun.
    uploads: u64,
}

/// The content, shared by all who serve it.
#[derive(Clone, Default)]
pub struct Store(Arc<Mutex<Content>>);

impl Store {
    pub fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The content, if that is the bucket's name.
    fn of(&self, bucket: &str) -> S3Result<MutexGuard<'_, Content>> {
        if bucket == NAME { Ok(self.content()) } else { Err(s3_error!(NoSuchBucket, "there is only {NAME}")) }
    }
}

#[async_trait]
impl S3 for Store {
    async fn list_objects_v2(&self, request: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
        let ListObjectsV2Input { bucket, prefix, delimiter, continuation_token, start_after, .. } = request.input;
        let [prefix, delimiter, token, start] = [prefix, delimiter, continuation_token, start_after].map(Option::unwrap_or_default);
        let page = Page::of(&self.of(&bucket)?.objects, &prefix, &delimiter, token.max(start));
        let (mut contents, mut below) = (Vec::new(), Vec::new());
        for entry in page.entries {
            match entry {
                Entry::Object(key, size) => contents.push(Object {
                    key: Some(key),
                    size: Some(size as i64),
                    e_tag: Some(etag()),
                    last_modified: Some(modified()),
                    ..Object::default()
                }),
                Entry::Below(prefix) => below.push(CommonPrefix { prefix: Some(prefix) }),
            }
        }
        Ok(S3Response::new(ListObjectsV2Output {
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next,
            contents: Some(contents),
            common_prefixes: Some(below),
            ..ListObjectsV2Output::default()
        }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let GetObjectInput { bucket, key, range, .. } = request.input;
        let object = self.of(&bucket)?.objects.get(&key).cloned().ok_or(s3_error!(NoSuchKey))?;
        let length = object.len() as u64;
        let part = range.map(|range| range.check(length)).transpose()?;
        let content_range = part.as_ref().map(|part| format!("bytes {}-{}/{length}", part.start, part.end - 1));
        let body = part.map_or(object.clone(), |part| object.slice(part.start as usize..part.end as usize));
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(body.len() as i64),
            body: Some(Body::from(body).into()),
            content_range,
            e_tag: Some(etag()),
            last_modified: Some(modified()),
            ..GetObjectOutput::default()
        }))
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let HeadObjectInput { bucket, key, .. } = request.input;
        let length = self.of(&bucket)?.objects.get(&key).map(Bytes::len).ok_or(s3_error!(NoSuchKey))?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(length as i64),
            e_tag: Some(etag()),
            last_modified: Some(modified()),
            ..HeadObjectOutput::default()
        }))
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let PutObjectInput { bucket, key, body, if_none_match, .. } = request.input;
        let body = whole(body).await?;
        let mut content = self.of(&bucket)?;
        let is_new = if_none_match == Some(ETagCondition::Any) && request.extensions.get::<Overwrites>().is_none();
        if is_new && content.objects.contains_key(&key) {
            return Err(s3_error!(PreconditionFailed, "something is there"));
        }
        content.objects.insert(key, body);
        Ok(S3Response::new(PutObjectOutput { e_tag: Some(etag()), ..PutObjectOutput::default() }))
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        let DeleteObjectInput { bucket, key, .. } = request.input;
        self.of(&bucket)?.objects.remove(&key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(&self, request: S3Request<DeleteObjectsInput>) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let DeleteObjectsInput { bucket, delete, .. } = request.input;
        let mut content = self.of(&bucket)?;
        let deleted = delete.objects.into_iter().map(|ObjectIdentifier { key, .. }| {
            content.objects.remove(&key);
            DeletedObject { key: Some(key), ..DeletedObject::default() }
        });
        Ok(S3Response::new(DeleteObjectsOutput { deleted: Some(deleted.collect()), ..DeleteObjectsOutput::default() }))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let CreateMultipartUploadInput { bucket, key, .. } = request.input;
        let mut content = self.of(&bucket)?;
        content.uploads += 1;
        let upload = format!("upload-{}", content.uploads);
        content.parts.insert(upload.clone(), BTreeMap::new());
        Ok(S3Response::new(CreateMultipartUploadOutput {
            bucket: Some(bucket),
            key: Some(key),
            upload_id: Some(upload),
            ..CreateMultipartUploadOutput::default()
        }))
    }

    async fn upload_part(&self, request: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        let UploadPartInput { bucket, upload_id, part_number, body, .. } = request.input;
        let body = whole(body).await?;
        let mut content = self.of(&bucket)?;
        content.parts.get_mut(&upload_id).ok_or(s3_error!(NoSuchUpload))?.insert(part_number, body);
        Ok(S3Response::new(UploadPartOutput { e_tag: Some(etag()), ..UploadPartOutput::default() }))
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let CompleteMultipartUploadInput { bucket, key, upload_id, multipart_upload, .. } = request.input;
        let mut content = self.of(&bucket)?;
        let come = content.parts.get(&upload_id).ok_or(s3_error!(NoSuchUpload))?;
        let named = multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
        let parts = named.iter().map(|part| part.part_number.and_then(|number| come.get(&number)).map(|part| &part[..]));
        let object = parts.collect::<Option<Vec<&[u8]>>>().ok_or(s3_error!(InvalidPart))?.concat();
        content.parts.remove(&upload_id);
        content.objects.insert(key.clone(), object.into());
        Ok(S3Response::new(CompleteMultipartUploadOutput {
            bucket: Some(bucket),
            key: Some(key),
            e_tag: Some(etag()),
            ..CompleteMultipartUploadOutput::default()
        }))
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let AbortMultipartUploadInput { bucket, upload_id, .. } = request.input;
        self.of(&bucket)?.parts.remove(&upload_id);
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }
}

/// All of a body. It is compared with its checksums while it is read.
async fn whole(body: Option<StreamingBlob>) -> S3Result<Bytes> {
    let mut body = body.map(Body::from).unwrap_or_default();
    body.store_all_limited(usize::MAX).await.map_err(|error| S3Error::with_source(S3ErrorCode::BadDigest, error))
}

/// Nobody here looks at it.
fn etag() -> ETag {
    ETag::Strong("object".into())
}

/// Nor at this.
fn modified() -> Timestamp {
    Timestamp::from(std::time::SystemTime::UNIX_EPOCH)
}
